//! Options with which a server opens a database.

use std::ops::Range;

use spirea_backend::{Residence, Share};
use spirea_dpf::Party;

use crate::ProtocolError;

/// Options with which a server opens a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Residence of the database in memory.
    pub residence: Residence,
    /// Party of a two-server protocol; ignored by a protocol with one server.
    pub party: Option<Party>,
    /// The server's part in answering.
    pub role: Role,
}

/// A server's part in answering, if a database is divided into shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Folds its share, and combines the partials of all shares into answers. Keeps the data
    /// precomputed from the whole database.
    Combines(Share),
    /// Folds its share, and keeps nothing else.
    Folds(Share),
    /// Combines the partials of all shares into answers (their number stands in each partial);
    /// folds nothing itself. Keeps the data precomputed from the whole database, and reads none of
    /// its rows.
    Joins(Share),
}

impl Role {
    /// Role of the only server of an undivided database.
    pub const WHOLE: Self = Self::Combines(Share::WHOLE);

    /// Returns its share of the database.
    pub fn share(self) -> Share {
        match self {
            Self::Combines(share) | Self::Folds(share) | Self::Joins(share) => share,
        }
    }

    /// Returns the rows that a server of this role folds: all `rows` of its share, or none.
    pub(crate) fn folds(self, rows: Range<usize>) -> Range<usize> {
        match self {
            Self::Combines(_) | Self::Folds(_) => rows,
            Self::Joins(_) => rows.start..rows.start,
        }
    }

    /// Computes the data for combining, if the role combines.
    pub(crate) fn keeps<T>(
        self,
        keep: impl FnOnce() -> Result<T, ProtocolError>,
    ) -> Result<Option<T>, ProtocolError> {
        match self {
            Self::Combines(_) | Self::Joins(_) => keep().map(Some),
            Self::Folds(_) => Ok(None),
        }
    }
}

impl Default for Role {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Opening {
    /// Returns the options for each of `parties` servers, in order.
    pub fn of_parties(parties: usize, residence: Residence) -> Vec<Self> {
        match parties {
            1 => vec![Self { residence, ..Self::default() }],
            _ => Party::BOTH.map(|party| Self { residence, party: Some(party), ..Self::default() }).into(),
        }
    }

    /// Returns the party, for a two-server protocol.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if no party is set.
    pub fn one_of_two(&self) -> Result<Party, ProtocolError> {
        self.party.ok_or_else(|| {
            ProtocolError::BadRequest(
                "this database answers as one of two servers: say which with --party 0 or --party 1".into(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_of_two_servers_has_to_say_which() {
        let unsaid = Opening::default();
        let said = Opening { party: Some(Party::One), ..unsaid };
        assert!(unsaid.one_of_two().unwrap_err().to_string().contains("--party 0 or --party 1"));
        assert_eq!(said.one_of_two().unwrap(), Party::One);
        assert_eq!(Opening::of_parties(1, Residence::Copied), [unsaid]);
        let parties: Vec<_> = Opening::of_parties(2, Residence::Mapped)
            .iter()
            .map(|opening| opening.one_of_two().unwrap())
            .collect();
        assert_eq!(parties, Party::BOTH);
    }
}

//! How a server opens a database.

use std::ops::Range;

use spirea_backend::{Residence, Share};
use spirea_dpf::Party;

use crate::ProtocolError;

/// How a server opens a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// How the database is held.
    pub residence: Residence,
    /// Which of two servers this is; a protocol with one server ignores it.
    pub party: Option<Party>,
    /// Its part in answering.
    pub role: Role,
}

/// A server's part in answering, where several have a share each of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It folds its share, and makes the answers of all shares' partials. It keeps what was computed of the whole
    /// database for that.
    Combines(Share),
    /// It folds its share, and keeps nothing else.
    Folds(Share),
    /// It makes the answers of all shares' partials, of which there are as many as any of them says, and folds nothing: of
    /// the database it keeps what was computed of the whole, and reads none of its rows.
    Joins(Share),
}

impl Role {
    /// Of the only server of an undivided database.
    pub const WHOLE: Self = Self::Combines(Share::WHOLE);

    /// Its share of the database.
    pub fn share(self) -> Share {
        match self {
            Self::Combines(share) | Self::Folds(share) | Self::Joins(share) => share,
        }
    }

    /// Those of its share's rows that it folds.
    pub(crate) fn folds(self, rows: Range<usize>) -> Range<usize> {
        match self {
            Self::Combines(_) | Self::Folds(_) => rows,
            Self::Joins(_) => rows.start..rows.start,
        }
    }

    /// What it keeps to combine with, if it does.
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
    /// How each server of a protocol with so many opens a database, in order.
    pub fn of_parties(parties: usize, residence: Residence) -> Vec<Self> {
        match parties {
            1 => vec![Self { residence, ..Self::default() }],
            _ => Party::BOTH.map(|party| Self { residence, party: Some(party), ..Self::default() }).into(),
        }
    }

    /// Which of two servers this is, for a protocol that has two.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if it does not say.
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

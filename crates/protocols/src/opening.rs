//! How a server opens a database.

use spirea_backend::Residence;
use spirea_dpf::Party;

use crate::ProtocolError;

/// How a server opens a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// How the database is held.
    pub residence: Residence,
    /// Which of two servers this is; a protocol with one server ignores it.
    pub party: Option<Party>,
}

impl Opening {
    /// How each server of a protocol with so many opens a database, in order.
    pub fn of_parties(parties: usize, residence: Residence) -> Vec<Self> {
        match parties {
            1 => vec![Self { residence, party: None }],
            _ => Party::BOTH.map(|party| Self { residence, party: Some(party) }).into(),
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

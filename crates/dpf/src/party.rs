use serde::{Deserialize, Serialize};

use crate::DpfError;

/// One of the two servers, which must not collude.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Party {
    /// The first.
    Zero,
    /// The second.
    One,
}

impl Party {
    /// Both parties, in order.
    pub const BOTH: [Self; 2] = [Self::Zero, Self::One];

    /// Returns the number, 0 or 1.
    pub fn number(self) -> u8 {
        self as u8
    }
}

impl From<Party> for u8 {
    fn from(party: Party) -> Self {
        party.number()
    }
}

impl TryFrom<u8> for Party {
    type Error = DpfError;

    fn try_from(number: u8) -> Result<Self, DpfError> {
        match number {
            0 => Ok(Self::Zero),
            1 => Ok(Self::One),
            _ => Err(DpfError::Party(number)),
        }
    }
}

impl std::str::FromStr for Party {
    type Err = DpfError;

    fn from_str(text: &str) -> Result<Self, DpfError> {
        text.parse::<u8>().map_err(|_| DpfError::Party(u8::MAX)).and_then(Self::try_from)
    }
}

impl std::fmt::Display for Party {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "party {}", self.number())
    }
}

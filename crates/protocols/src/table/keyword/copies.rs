//! Copies of the entries of a table in bins.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Number of copies of each entry of a keyword table, each in the bucket of a place of its own.
///
/// With three copies, one query for a record of each bin retrieves nearly all keys of a list: the
/// client chooses one of three bins for each key (a probabilistic batch code). The table is stored
/// three times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Copies {
    /// One. In JSON, tables omit the member.
    #[default]
    One,
    /// Three.
    Three,
}

impl Copies {
    /// Returns the number.
    pub fn number(self) -> usize {
        match self {
            Self::One => 1,
            Self::Three => 3,
        }
    }

    /// Returns true for one copy.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_one(&self) -> bool {
        *self == Self::One
    }
}

impl From<Copies> for u8 {
    fn from(copies: Copies) -> Self {
        copies.number() as Self
    }
}

impl TryFrom<u8> for Copies {
    type Error = String;

    /// Reads the member of a table.
    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            3 => Ok(Self::Three),
            _ => Err(format!("copies is {number}: it must be 3, or absent for one copy")),
        }
    }
}

impl FromStr for Copies {
    type Err = String;

    fn from_str(number: &str) -> Result<Self, String> {
        match number {
            "1" => Ok(Self::One),
            "3" => Ok(Self::Three),
            _ => Err("an entry has 1 copy or 3".into()),
        }
    }
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

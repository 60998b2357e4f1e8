use std::fmt;
use std::str::FromStr;

/// Expected number of rows of an input, so that a truncated input does not become a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedRows {
    /// Minimum.
    pub least: u64,
    /// Maximum.
    pub most: u64,
}

impl ExpectedRows {
    /// True if the number of rows is in the range.
    pub fn admits(self, rows: u64) -> bool {
        (self.least..=self.most).contains(&rows)
    }
}

impl FromStr for ExpectedRows {
    type Err = String;

    /// Parses `5000`, `4000..` or `4000..6000`, both ends included.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write a number of rows, such as 5000, or a range, such as 4000.. or 4000..6000";
        let number = |text: &str| text.parse().map_err(|_| form().to_owned());
        let (least, most) = match text.split_once("..") {
            None => (number(text)?, number(text)?),
            Some((least, "")) => (number(least)?, u64::MAX),
            Some((least, most)) => (number(least)?, number(most)?),
        };
        if least > most {
            return Err(form().into());
        }
        Ok(Self { least, most })
    }
}

impl fmt::Display for ExpectedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (least, most) if least == most => write!(f, "{least}"),
            (least, u64::MAX) => write!(f, "at least {least}"),
            (least, most) => write!(f, "{least} to {most}"),
        }
    }
}

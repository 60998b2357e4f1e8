//! Number of threads as an option.

use std::str::FromStr;

/// Number of threads, at least 1 and at most the number that this machine runs in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads(usize);

impl Threads {
    /// Returns the number of threads that this machine runs in parallel.
    pub fn all() -> Self {
        Self(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Returns the number.
    pub fn count(self) -> usize {
        self.0
    }
}

impl FromStr for Threads {
    type Err = String;

    /// Parses a number; 0 stands for all threads of this machine.
    fn from_str(text: &str) -> Result<Self, String> {
        let Self(all) = Self::all();
        match text.parse() {
            Ok(0) => Ok(Self(all)),
            Ok(wanted) if wanted <= all => Ok(Self(wanted)),
            _ => Err(format!("threads are 1 to {all}, as many as this machine runs at once, or 0 for all")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_no_more_than_there_are() {
        let all = Threads::all().count();
        assert_eq!("0".parse(), Ok(Threads(all)));
        assert_eq!("1".parse(), Ok(Threads(1)));
        for wrong in [(all + 1).to_string(), "-1".into(), "many".into(), usize::MAX.to_string()] {
            assert!(wrong.parse::<Threads>().unwrap_err().contains(&all.to_string()));
        }
    }
}

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::de::{Deserialize, Deserializer, Error as _};

/// Maximum number of queries of a token in each period, such as `1000/day`. A period begins with
/// the first query after the end of the previous period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    queries: u64,
    period: Period,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Second,
    Minute,
    Hour,
    Day,
}

impl Period {
    const ALL: [(Self, &str); 4] =
        [(Self::Second, "second"), (Self::Minute, "minute"), (Self::Hour, "hour"), (Self::Day, "day")];

    fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 60 * 60,
            Self::Day => 24 * 60 * 60,
        })
    }
}

/// Error for a text that is not a quota.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no quota: write a number of queries and a period, such as 1000/day or 20/second (also minute, hour)"
)]
pub struct QuotaError(String);

impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let parse = || {
            let (queries, period) = text.split_once('/')?;
            let (period, _) = Period::ALL.into_iter().find(|(_, name)| *name == period.trim())?;
            let queries = queries.trim().parse().ok().filter(|&queries| queries > 0)?;
            Some(Self { queries, period })
        };
        parse().ok_or_else(|| QuotaError(text.into()))
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Period::ALL.iter().find(|(period, _)| *period == self.period).map_or("", |(_, name)| name);
        write!(f, "{}/{name}", self.queries)
    }
}

impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Reason why a quota does not allow a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    /// The request has more queries than a whole period allows.
    Never,
    /// The next period begins after this time.
    For(Duration),
}

/// Used part of a quota in the current period.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    began: Option<Instant>,
    used: u64,
}

impl Window {
    /// Takes `queries` from the quota, all or none.
    pub fn take(&mut self, quota: Quota, queries: u64, now: Instant) -> Result<(), Exceeded> {
        if queries > quota.queries {
            return Err(Exceeded::Never);
        }
        let length = quota.period.length();
        let began = match self.began {
            Some(began) if now.saturating_duration_since(began) < length => began,
            _ => {
                *self = Self { began: Some(now), used: 0 };
                now
            }
        };
        if self.used + queries > quota.queries {
            return Err(Exceeded::For(length - now.saturating_duration_since(began)));
        }
        self.used += queries;
        Ok(())
    }

    /// Gives back queries taken at the time `taken`, unless that period has ended.
    pub fn give_back(&mut self, queries: u64, taken: Instant) {
        if self.began.is_some_and(|began| began <= taken) {
            self.used = self.used.saturating_sub(queries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_and_written() {
        for text in ["1/second", "20/minute", "3/hour", "1000/day"] {
            assert_eq!(text.parse::<Quota>().unwrap().to_string(), text);
        }
        for wrong in ["", "10", "0/day", "-1/day", "10/week", "ten/day", "10/day/day"] {
            assert!(wrong.parse::<Quota>().unwrap_err().to_string().contains("1000/day"), "{wrong}");
        }
    }

    #[test]
    fn a_period_allows_its_queries_and_the_next_one_as_many() {
        let quota: Quota = "10/minute".parse().unwrap();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut window = Window::default();
        assert_eq!(window.take(quota, 11, start), Err(Exceeded::Never));
        assert_eq!(window.take(quota, 6, start), Ok(()));
        assert_eq!(window.take(quota, 5, at(20)), Err(Exceeded::For(Duration::from_secs(40))));
        assert_eq!(window.take(quota, 4, at(20)), Ok(()));
        assert_eq!(window.take(quota, 1, at(59)), Err(Exceeded::For(Duration::from_secs(1))));
        window.give_back(2, at(20));
        assert_eq!(window.take(quota, 2, at(59)), Ok(()));
        assert_eq!(window.take(quota, 10, at(60)), Ok(()));
        window.give_back(4, at(20));
        // A period begins with its first query, not on the minute.
        assert_eq!(window.take(quota, 1, at(119)), Err(Exceeded::For(Duration::from_secs(1))));
        assert_eq!(window.take(quota, 1, at(500)), Ok(()));
        assert_eq!(window.take(quota, 10, at(540)), Err(Exceeded::For(Duration::from_secs(20))));
    }
}

//! How a group of devices divides what there is to hold and to do.

use std::fmt;
use std::str::FromStr;

use crate::Share;

/// How a group of devices divides what there is to hold and to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Every device holds everything and answers its part of a batch.
    Replicate,
    /// Devices hold shares of the matrix; after the fold each has all words of its part of the batch.
    Exchange,
    /// Devices hold shares of everything and expand every query.
    Aggregate,
    /// Devices hold shares of everything; each expands its part of the batch for all.
    Gather,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Replicate, Self::Exchange, Self::Aggregate, Self::Gather];

    /// Whether each device has rows of its own of the database's matrix.
    pub fn divides_matrices(self) -> bool {
        self != Self::Replicate
    }

    /// Whether each device has rows of its own of a matrix of plaintext polynomials.
    pub fn divides_plain(self) -> bool {
        matches!(self, Self::Aggregate | Self::Gather)
    }

    /// What a device has of the database's matrix, where `share` is its share: all, if matrices are not divided.
    pub fn of_matrices(self, share: Share) -> Share {
        if self.divides_matrices() { share } else { Share::WHOLE }
    }

    /// What a device has of a matrix of plaintext polynomials, where `share` is its share: all, if they are not divided.
    pub fn of_plain(self, share: Share) -> Share {
        if self.divides_plain() { share } else { Share::WHOLE }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Replicate => "replicate",
            Self::Exchange => "exchange",
            Self::Aggregate => "aggregate",
            Self::Gather => "gather",
        })
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|strategy| strategy.to_string() == name);
        known.ok_or_else(|| format!("{name:?} is none of replicate, exchange, aggregate and gather"))
    }
}

/// How devices reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// From memory to memory, at hundreds of GB/s.
    Direct,
    /// Through the host, at tens.
    Host,
}

/// What a database asks of a group of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Bytes that every device needs to answer on its own.
    pub whole_bytes: u64,
    /// Bytes of these that divide: the database's matrix, or its plaintext polynomials where there is no matrix.
    pub divided_bytes: u64,
    /// Whether the database is folded as a matrix first, not as polynomials of expanded queries.
    pub folds_a_matrix: bool,
    /// Queries at once.
    pub batch: usize,
}

impl Demand {
    /// Bytes that each of `devices` devices needs, at most.
    pub fn device_bytes(&self, devices: usize, strategy: Strategy) -> u64 {
        let divides = match strategy {
            Strategy::Replicate => false,
            Strategy::Exchange => self.folds_a_matrix,
            Strategy::Aggregate | Strategy::Gather => true,
        };
        if !divides {
            return self.whole_bytes;
        }
        self.whole_bytes - self.divided_bytes + self.divided_bytes.div_ceil(devices as u64)
    }
}

/// A strategy for a database, with what follows from it and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// The strategy.
    pub strategy: Strategy,
    /// Bytes of the database that each device holds, at most.
    pub device_bytes: u64,
    /// Why, in words.
    pub reason: String,
}

impl Strategy {
    /// The strategy for a database; `None` if it does not fit the devices in any.
    ///
    /// What fits everywhere is replicated once there are as many queries as devices: no device then waits for
    /// another. A single query, or a database that fits only in shares, is divided, since every device's bandwidth
    /// is wanted. A fold of a matrix is exchanged. Polynomials are folded where they are; a batch's expansions are
    /// divided and gathered where devices reach each other directly, since leaves are large (1 GiB for 32 queries,
    /// GPIR section 6), and done by every device otherwise.
    pub fn choose(devices: usize, memory_bytes: u64, links: Links, demand: Demand) -> Option<Division> {
        let share = demand.device_bytes(devices, Self::Gather);
        let whole = demand.whole_bytes <= memory_bytes;
        if devices == 1 || (whole && demand.batch >= devices) {
            let reason = if devices == 1 { "there is one" } else { "each answers queries of its own" };
            return whole.then(|| Division {
                strategy: Self::Replicate,
                device_bytes: demand.whole_bytes,
                reason: reason.into(),
            });
        }
        let divided = if whole { "a query is answered by all" } else { "too large for one" };
        let (strategy, how) = match (demand.folds_a_matrix, links) {
            (true, _) => (Self::Exchange, "each folds its rows, and the parts of answers meet"),
            (false, _) if demand.batch == 1 => (Self::Aggregate, "a lone query is expanded on each"),
            (false, Links::Direct) => (Self::Gather, "each expands its queries and copies the leaves to all"),
            (false, Links::Host) => {
                (Self::Aggregate, "leaves are too large for the link: each expands every query")
            }
        };
        let reason = format!("{divided}; {how}");
        (share <= memory_bytes).then_some(Division { strategy, device_bytes: share, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(devices: usize, memory_bytes: u64, links: Links, demand: Demand) -> Option<Strategy> {
        Strategy::choose(devices, memory_bytes, links, demand).map(|division| division.strategy)
    }

    const DEMAND: Demand = Demand { whole_bytes: 100, divided_bytes: 80, folds_a_matrix: true, batch: 32 };

    #[test]
    fn names_are_read_as_they_are_written() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        assert!("shard".parse::<Strategy>().is_err());
    }

    #[test]
    fn what_fits_everywhere_is_replicated_for_a_batch() {
        for links in [Links::Direct, Links::Host] {
            assert_eq!(chosen(4, 100, links, DEMAND), Some(Strategy::Replicate));
            assert_eq!(chosen(1, 100, links, Demand { batch: 1, ..DEMAND }), Some(Strategy::Replicate));
        }
    }

    #[test]
    fn a_single_query_and_what_is_too_large_are_divided() {
        let polynomials = Demand { folds_a_matrix: false, ..DEMAND };
        assert_eq!(chosen(4, 99, Links::Direct, DEMAND), Some(Strategy::Exchange));
        assert_eq!(chosen(4, 100, Links::Host, Demand { batch: 1, ..DEMAND }), Some(Strategy::Exchange));
        assert_eq!(chosen(4, 99, Links::Direct, polynomials), Some(Strategy::Gather));
        assert_eq!(chosen(4, 99, Links::Host, polynomials), Some(Strategy::Aggregate));
        let one = Demand { batch: 1, ..polynomials };
        assert_eq!(chosen(4, 99, Links::Direct, one), Some(Strategy::Aggregate));
    }

    #[test]
    fn what_does_not_fit_in_shares_is_refused() {
        // 20 bytes everywhere and 20 of 80 on each of four.
        assert_eq!(chosen(4, 40, Links::Direct, DEMAND), Some(Strategy::Exchange));
        assert_eq!(chosen(4, 39, Links::Direct, DEMAND), None);
        assert_eq!(chosen(1, 99, Links::Direct, DEMAND), None);
    }

    #[test]
    fn what_is_divided_is_a_share_on_each() {
        let bytes = |demand: Demand| Strategy::ALL.map(|strategy| demand.device_bytes(4, strategy));
        assert_eq!(bytes(DEMAND), [100, 40, 40, 40]);
        assert_eq!(bytes(Demand { folds_a_matrix: false, ..DEMAND }), [100, 100, 40, 40]);
    }

    #[test]
    fn the_reason_says_what_decided() {
        let reason = |memory, links, demand| {
            let division = Strategy::choose(4, memory, links, demand).unwrap();
            (division.device_bytes, division.reason)
        };
        let polynomials = Demand { folds_a_matrix: false, ..DEMAND };
        assert_eq!(reason(100, Links::Host, DEMAND), (100, "each answers queries of its own".into()));
        let (bytes, one) = reason(100, Links::Host, Demand { batch: 1, ..DEMAND });
        assert!(bytes == 40 && one.starts_with("a query is answered by all; each folds its rows"), "{one}");
        let (bytes, link) = reason(99, Links::Host, polynomials);
        assert!(bytes == 40 && link.starts_with("too large for one; leaves are too large"), "{link}");
        assert!(reason(99, Links::Direct, polynomials).1.ends_with("copies the leaves to all"));
    }
}

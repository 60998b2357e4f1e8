//! Division of data and work among a group of devices.

use std::fmt;
use std::str::FromStr;

use crate::Share;

/// Division of data and work among a group of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Every device holds everything and answers its part of a batch.
    Replicate,
    /// Devices hold shares of the matrix. After the fold they exchange answers, so that each device
    /// has all words of its part of the batch.
    Exchange,
    /// Devices hold shares of all data, and each device expands every query.
    Aggregate,
    /// Devices hold shares of all data. Each device expands its part of the batch, and all devices
    /// use the leaves.
    Gather,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 4] = [Self::Replicate, Self::Exchange, Self::Aggregate, Self::Gather];

    /// Returns true if each device holds only its own rows of the database's matrix.
    pub fn divides_matrices(self) -> bool {
        self != Self::Replicate
    }

    /// Returns true if each device holds only its own rows of a matrix of plaintext polynomials.
    pub fn divides_plain(self) -> bool {
        matches!(self, Self::Aggregate | Self::Gather)
    }

    /// Returns the part of the database's matrix that a device with `share` holds: all of it if
    /// matrices are not divided.
    pub fn of_matrices(self, share: Share) -> Share {
        if self.divides_matrices() { share } else { Share::WHOLE }
    }

    /// Returns the part of a matrix of plaintext polynomials that a device with `share` holds: all
    /// of it if these are not divided.
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

/// Connection between devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// From memory to memory, at hundreds of GB/s.
    Direct,
    /// Through the host, at tens of GB/s.
    Host,
}

/// Requirements of a database on a group of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Bytes that every device needs to answer on its own.
    pub whole_bytes: u64,
    /// Bytes of `whole_bytes` that can be divided: the database's matrix, or its plaintext
    /// polynomials if there is no matrix.
    pub divided_bytes: u64,
    /// True if the database is first folded as a matrix; false if it is folded as polynomials by
    /// expanded queries.
    pub folds_a_matrix: bool,
    /// Queries in a batch.
    pub batch: usize,
}

impl Demand {
    /// Returns an upper bound on the bytes that each of `devices` devices needs.
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

/// Strategy for a database, with its consequences and the reason for its choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// The strategy.
    pub strategy: Strategy,
    /// Upper bound on the bytes of the database that each device holds.
    pub device_bytes: u64,
    /// Reason for the choice, in words.
    pub reason: String,
}

impl Strategy {
    /// Chooses the strategy for a database; returns `None` if no strategy fits the database on the
    /// devices.
    ///
    /// A database that fits every device is replicated if the batch has at least as many queries as
    /// there are devices: no device then waits for another. A single query, or a database that fits
    /// only in shares, is divided, to use the bandwidth of every device. If the database is folded
    /// as a matrix, the answers are exchanged. Polynomials are folded on the devices that hold
    /// them. If devices reach each other directly, a batch's expansions are divided and gathered.
    /// Otherwise every device computes all expansions, since leaves are large (1 GiB for 32
    /// queries, GPIR section 6).
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
        // Each of four devices holds the 20 bytes that cannot be divided, and 20 of the 80 bytes
        // that can.
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

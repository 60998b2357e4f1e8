//! Look-ups with their secrets marked, by client code alone.
//!
//! Two programs run them. `constant-time-answers` (an example, built as the tests are) runs client and servers and writes a
//! [`transcript`]. `constant-time` runs the client under valgrind and reads the servers' half from that transcript. All
//! randomness is of fixed seeds, so both clients send the same bytes.

pub mod look_ups;
mod tables;
pub mod transcript;

use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::registry::NAMES;

use crate::look_ups::Servers;

/// Protocols with queries that bring their keys.
const PER_QUERY: [&str; 2] = ["exppack-simple-per-query", "exppack-double-per-query"];
/// A fetch of several records with one query.
const BINS: &str = "bins";

/// The names of all kinds of look-ups.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain([BINS]).chain(PER_QUERY)
}

/// Runs the look-ups of a kind.
///
/// # Panics
/// If there is no such kind, if a look-up gives a wrong value, or if marks of secrets were lost on the way.
pub fn run(kind: &str, servers: &mut dyn Servers) {
    match kind {
        BINS => look_ups::from_bins(servers),
        protocol if NAMES.contains(&protocol) => look_ups::of(protocol, KeyDelivery::Registered, servers),
        kind if PER_QUERY.contains(&kind) => {
            look_ups::of(kind.trim_end_matches("-per-query"), KeyDelivery::PerQuery, servers);
        }
        _ => panic!("no such kind: {kind}; there are {}", kinds().collect::<Vec<_>>().join(", ")),
    }
}

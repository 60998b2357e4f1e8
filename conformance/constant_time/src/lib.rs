//! Look-ups with their secrets marked, running client code only.
//!
//! Two programs run the look-ups. `constant-time-answers` (an example, built like the tests) runs
//! client and servers and writes a [`transcript`]. `constant-time` runs the client under valgrind
//! and reads the servers' messages from that transcript. All randomness comes from fixed seeds, so
//! both clients send the same bytes.

pub mod look_ups;
mod tables;
pub mod transcript;

use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::registry::NAMES;

use crate::look_ups::Servers;

/// Names of the kinds whose queries carry their keys.
const PER_QUERY: [&str; 2] = ["exppack-simple-per-query", "exppack-double-per-query"];
/// Names of the kinds that fetch several records with one query: from two servers, and from one
/// server.
const BINS: &str = "bins";
const PACKED_BINS: &str = "packed-bins";

/// Returns the names of all kinds of look-ups.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain([BINS, PACKED_BINS]).chain(PER_QUERY)
}

/// Runs the look-ups of a kind.
///
/// # Panics
/// If the kind is unknown, a look-up returns a wrong value, or marks of secrets were lost.
pub fn run(kind: &str, servers: &mut dyn Servers) {
    match kind {
        BINS => look_ups::from_bins(servers),
        PACKED_BINS => look_ups::from_packed_bins(servers),
        protocol if NAMES.contains(&protocol) => look_ups::of(protocol, KeyDelivery::Registered, servers),
        kind if PER_QUERY.contains(&kind) => {
            look_ups::of(kind.trim_end_matches("-per-query"), KeyDelivery::PerQuery, servers);
        }
        _ => panic!("no such kind: {kind}; there are {}", kinds().collect::<Vec<_>>().join(", ")),
    }
}

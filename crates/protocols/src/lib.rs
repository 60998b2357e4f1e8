//! PIR protocols as client and server halves over bytes, and keyword look-up over any of them.
//!
//! - [`index`]: what an index protocol is: a client half and a server half that exchange bytes.
//! - [`simple`], [`double`], [`exppack_simple`], [`exppack_double`], [`double_pack`], [`hybrid`], [`onion`]: the
//!   protocols with one server; [`dpf`]: those with two.
//! - [`steps`]: what protocols are composed of.
//! - [`table`]: records with checksums, and look-ups by index or by key over any index protocol.
//! - [`keyword`]: how keys map to buckets; [`delta`]: what has changed since a table was built.
//! - [`proof`]: that a record is the one that the operator sealed.
//! - [`hint_rows`]: which parts of a hint a client already has; [`signature`]: whose version it is.
//! - [`grid`]: where records lie; [`parameters`]: what the parameters of every protocol tell.
//! - [`choice`]: a protocol with its parameter sets, at a level of security; [`planner`]: which to choose.
//! - [`registry`]: the protocols by name: the one place that lists them.

mod bytes;
pub mod choice;
pub mod delta;
pub mod double;
pub mod double_pack;
pub mod dpf;
mod error;
pub mod exppack_double;
pub mod exppack_simple;
pub mod grid;
pub mod hex;
pub mod hint_rows;
pub mod hybrid;
pub mod index;
pub mod keyword;
mod oblivious;
pub mod onion;
pub mod parameters;
mod patch;
pub mod planner;
pub mod proof;
pub mod registry;
pub mod signature;
pub mod simple;
pub mod steps;
pub mod table;

pub use error::ProtocolError;
pub use index::{IndexClient, Pair, PairIndexClient, Prepared, PreparedKeys, Query, Responder, Sizes};
pub use patch::{ChangedRecord, LastingHint, PatchedFiles};
pub use spirea_dpf::{Party, PrfKind};
pub use table::{Table, TableClient, TableKind};

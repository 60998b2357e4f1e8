//! PIR protocols as client and server halves over bytes, and keyword look-up over any of them.
//!
//! - [`protocol`]: definition of a protocol; [`client`] and [`responder`]: its halves, which
//!   exchange bytes; [`keys`]: the evaluation keys of both.
//! - [`partial`]: the answer of a share of a database; [`Sharded`]: the servers of all shares as
//!   one.
//! - [`protocols`]: one folder for each; [`steps`]: their components; [`mod@registry`]: the list of
//!   protocols.
//! - [`bins`]: bins of records; one query retrieves a record of each bin.
//! - [`parameters`]: properties that every protocol's parameters give; [`grid`]: positions of
//!   records; [`choice`]: a protocol with its parameter sets, at a level of security; [`planner`]:
//!   the choice among protocols.
//! - [`table`]: records with checksums, and look-ups by index or by key over any protocol.
//!   [`keyword`]: mapping of keys to buckets; [`delta`]: changes since a table was built;
//!   [`proof`]: proof that the operator sealed a record; [`signature`]: the publisher of a version;
//!   [`hint_rows`]: the parts of a hint that a client already has.
//! - [`files`]: the files of a database, as protocols read and write them.

pub mod bins;
mod bytes;
pub mod choice;
pub mod client;
mod error;
pub mod files;
pub mod grid;
pub mod hex;
pub mod keys;
mod life;
#[macro_use]
mod list;
mod names;
mod oblivious;
mod opening;
mod packing;
pub mod parameters;
pub mod partial;
pub mod planner;
mod process;
pub mod protocol;
pub mod protocols;
mod query;
pub mod registry;
pub mod responder;
mod sharded;
pub mod steps;
pub mod table;

/// The locks of [`life`].
mod sync {
    pub use std::sync::{PoisonError, RwLock, RwLockReadGuard};
}

pub use bins::Bins;
pub use client::{AnyIndexClient, IndexClient, Prepared};
pub use error::{ProtocolError, Result};
pub use files::{ChangedRecord, Files, PatchedFiles, Precomputation};
pub use keys::{ClientKeys, PreparedKeys, SavedKeys};
pub use life::Ended;
pub use names::{FileHash, KeysHash, PlaceSalt, Salt, Version};
pub use opening::{Opening, Role};
pub use parameters::Sizes;
pub use partial::{BatchDigest, Partial};
pub use protocol::{Holdings, Protocol, Serve};
pub use protocols::{double, double_pack, dpf, exppack_double, exppack_simple, hybrid, onion, simple};
pub use query::Query;
pub use responder::Responder;
pub use sharded::Sharded;
pub use spirea_dpf::{Party, PrfKind};
pub use table::{Table, TableClient, TableKind, delta, hint_rows, keyword, layout, proof, rows, signature};

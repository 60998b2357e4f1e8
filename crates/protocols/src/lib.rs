//! PIR protocols as client and server halves over bytes, and keyword look-up over any of them.
//!
//! - [`index`]: what an index protocol is: a client half and a server half that exchange bytes.
//! - [`simple`]: SimplePIR, the first of them.
//! - [`table`]: records with checksums, and look-ups by index or by key over any index protocol.
//! - [`keyword`]: how keys map to buckets.
//! - [`grid`]: where records lie; [`parameters`]: what the parameters of every protocol tell.
//! - [`registry`]: the protocols by name: the one place that lists them.

mod bytes;
mod error;
pub mod grid;
pub mod hex;
pub mod index;
pub mod keyword;
pub mod parameters;
pub mod registry;
pub mod simple;
pub mod table;

pub use error::ProtocolError;
pub use index::{IndexClient, Prepared, PreparedKeys, Query, Responder, Sizes};
pub use table::{Table, TableClient, TableKind};

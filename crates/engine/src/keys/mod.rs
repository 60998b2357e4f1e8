//! Clients' evaluation keys: registered once, named by their hash, held within bounds.
//!
//! Keys are prepared for the database that they were registered for and held in memory in that form. Where
//! there is a folder, the client's bytes are on disk too, and survive a restart. Memory and disk are bounded
//! each, and the least recently used keys leave first; a client has a part of each, and one that fills its part
//! displaces its own keys. Keys that nobody has used for long expire. Keys that have left memory alone are prepared
//! again when a query names them; keys that have left both are unknown, and their client uploads them again.
//! Servers of the same databases may share what clients uploaded: [`SharedKeys`].

mod disk;
mod id;
mod lru;
mod options;
mod registry;
mod usage;

pub use disk::KeyFolderError;
pub use id::KeyOwner;
pub use options::{ClientBudget, KeyOptions};
pub use registry::{Clock, KeyRegistry, SharedKeys};
pub use usage::{Amount, Departures, KeyEvents, KeyUsage};

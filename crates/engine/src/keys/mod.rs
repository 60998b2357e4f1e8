//! Clients' evaluation keys: registered once, named by their hash, held within bounds.
//!
//! Keys are prepared for the database that they were registered for, and held in memory in that
//! form. If a folder is configured, the client's bytes are also on disk and survive a restart.
//! Memory and disk each have a limit, and the least recently used keys leave first. Each client has
//! a limit within each of them; a client that exceeds it displaces only its own keys. Keys that
//! nobody has used for a long time expire.
//!
//! Keys that have left only memory are prepared again when a query names them. Keys that have left
//! both memory and disk are unknown, and their client uploads them again. Servers of the same
//! databases may share what clients uploaded: [`SharedKeys`].

mod disk;
mod id;
mod lru;
mod options;
mod registry;
mod usage;

pub use disk::KeyFolderError;
pub use id::KeyOwner;
pub use lru::{Budget, Lru};
pub use options::{ClientBudget, KeyOptions};
pub use registry::{Clock, KeyRegistry, SharedKeys};
pub use usage::{Amount, Departures, KeyEvents, KeyUsage};

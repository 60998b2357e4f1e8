//! Tables, snapshots and repositories on disk, read and queried as clients do.

mod aimed;
mod apple;
mod changes;
mod compression;
mod copies;
mod damage;
mod deltas;
mod duplicates;
mod empty;
mod faults;
mod formats;
mod hostile;
mod ipc;
mod json;
mod layout;
mod lists;
mod memory;
mod prepared;
mod proofs;
mod refusals;
mod repository;
mod round_trip;
mod rows;
mod stored_bytes;
mod types;

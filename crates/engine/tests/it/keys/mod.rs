//! Evaluation keys: registered, evicted, stored, damaged, and in use meanwhile.

mod expiry;
mod fixture;
mod in_use;
mod kept;
mod registered;
mod shared;

//! What tests of several crates are made of: tables, snapshots, and responders that do as they are told.
//!
//! For tests alone: what cannot do as it says panics.
//!
//! - [`table`], [`params`] and [`identity`]: what a database is, where nothing of it is computed.
//! - [`scripted`] and [`keyed`]: databases whose responders are told what to answer.
//! - [`snapshots`]: snapshots on disk, built and written by hand, and the [`hooked`] databases that answer from them.
//! - [`Inputs`] and [`hostile`]: inputs from a seed, and checks of what anybody may send.
//! - [`LookUps`]: look-ups through the bytes of real clients and servers.

mod hook;
pub mod hooked;
pub mod hostile;
mod identity;
mod inputs;
pub mod keyed;
mod look_ups;
pub mod scripted;
pub mod snapshots;
mod table;

pub use hook::{Hook, gate, no_hook};
pub use identity::{VERSION, identity, params};
pub use inputs::{Inputs, inputs};
pub use look_ups::LookUps;
pub use table::table;

//! Test fixtures of several crates: tables, snapshots, and responders that follow a script.
//!
//! For tests only: every helper panics on failure.
//!
//! - [`table`], [`params`] and [`identity`]: descriptions of databases, without computing any.
//! - [`scripted`] and [`keyed`]: databases whose responders give prescribed answers.
//! - [`snapshots`]: snapshots on disk, built or written by hand; [`hooked`]: databases that answer
//!   from them.
//! - [`Inputs`] and [`hostile`]: inputs from a seed, and checks of untrusted input.
//! - [`program`]: programs as a person runs them; [`proxy`]: a proxy that alters what they receive.
//! - [`LookUps`]: look-ups through the bytes of real clients and servers.

mod hook;
pub mod hooked;
pub mod hostile;
mod identity;
mod inputs;
pub mod keyed;
mod look_ups;
pub mod program;
pub mod proxy;
pub mod scripted;
pub mod snapshots;
mod table;

pub use hook::{Hook, gate, no_hook};
pub use identity::{VERSION, identity, params};
pub use inputs::{Inputs, inputs};
pub use look_ups::LookUps;
pub use table::table;

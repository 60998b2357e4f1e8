//! The steps that make up protocols, and their common parts.
//!
//! Each step has a file with its shape, its work, its noise and both halves: `scalar_fold`,
//! `reinterpret`, `expand`, `rotate`, `packer` and `pack`, `select` (`rgsw_fold`), `mod_switch`.
//! `ring` has the common parts of the steps on rings.
//!
//! - `check`: checks of requests and answers; `shape`: choice and refusal of shapes.
//! - [`Work`]: work of a step; `noise`: bounds and estimates of failures; `numbers`: numbers that a
//!   client decodes.
//! - [`Folded`]: parameters of a database whose first step is `scalar_fold`; `query`: layout of its
//!   queries' bytes.
//! - [`LweHint`]: the hint of a fold; `changes`: differences that patch it.
//! - `packed`: the protocols with one fold and packing, `exppack-simple` and `hybrid`;
//!   `packing_client` and `packed_server`: the halves of all packing protocols; `one_shot`: packing
//!   for queries that carry their keys.

pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod expand;
pub(crate) mod folded;
pub(crate) mod hint;
pub(crate) mod mod_switch;
pub(crate) mod noise;
pub(crate) mod numbers;
pub(crate) mod one_shot;
pub(crate) mod pack;
pub(crate) mod packed;
pub(crate) mod packed_server;
pub(crate) mod packer;
pub(crate) mod packing_client;
pub(crate) mod query;
pub(crate) mod reinterpret;
pub(crate) mod ring;
pub(crate) mod rotate;
pub(crate) mod scalar_fold;
pub(crate) mod select;
pub(crate) mod shape;
mod work;

pub use folded::Folded;
pub use hint::LweHint;
pub use work::{Unit, Work};

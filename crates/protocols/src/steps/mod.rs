//! The steps that protocols are composed of, with what several of them share.
//!
//! A file a step, with its shape, its work, its noise and both halves: `scalar_fold`, `reinterpret`, `expand`, `rotate`,
//! `packer` and `pack`, `select` (`rgsw_fold`), `mod_switch`. `ring` has what those on rings share.
//!
//! - `check`: requests and answers before anything is done with them; `shape`: shapes, chosen and refused.
//! - [`Work`]: what a step does; `noise`: bounds and estimates of failures; `numbers`: what a client decodes.
//! - [`Folded`]: parameters of a database whose first step is `scalar_fold`; `query`: how its queries lie in their bytes.
//! - [`LweHint`]: the hint of a fold; `changes`: what patches it.
//! - `packed`: one fold and packing, whole: `exppack-simple` and `hybrid`; `packing_client` and `packed_server`: the halves
//!   of all that pack; `one_shot`: packing for queries that bring their keys.

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

//! The steps that make up protocols, and their common parts.
//!
//! Each step has a file with its shape, its work, its noise and both halves: `scalar_fold`,
//! `reinterpret`, `select` (`rgsw_fold`), `mod_switch`; those of packing (`expand`, `rotate`,
//! `pack`) are in `src/packing/`. `ring` has the common parts of the steps on rings.
//!
//! - `check`: checks of requests and answers; `shape`: choice and refusal of shapes.
//! - [`Work`]: work of a step; `noise`: bounds and estimates of failures; `numbers`: numbers that a
//!   client decodes.
//! - [`Folded`]: parameters of a database whose first step is `scalar_fold`; `query`: layout of its
//!   queries' bytes.
//! - [`LweHint`]: the hint of a fold; `changes`: differences that patch it.

pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod folded;
pub(crate) mod hint;
pub(crate) mod mod_switch;
pub(crate) mod noise;
pub(crate) mod numbers;
pub(crate) mod query;
pub(crate) mod reinterpret;
pub(crate) mod ring;
pub(crate) mod scalar_fold;
pub(crate) mod select;
pub(crate) mod shape;
mod work;

pub use folded::Folded;
pub(crate) use hint::FirstRows;
pub use hint::LweHint;
pub use work::{Unit, Work};

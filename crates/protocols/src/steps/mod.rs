//! The steps that protocols are composed of, with what several of them share.
//!
//! - `check`: requests and answers before anything is done with them; `shape`: shapes, chosen and refused.
//! - [`Work`]: what a step does; `noise`: bounds on failures.
//! - [`Folded`]: parameters of a database whose first step is `scalar_fold`; `query`: how its queries lie in their bytes.
//! - `lwe`: rounding of what a fold leaves; [`LweHint`]: the hint; `changes`: what patches it.
//! - `reinterpret`: the second fold. `ring`: `expand`, `pack`, `rgsw_fold` and `mod_switch`.
//! - `packed`: one fold and packing, whole: `exppack-simple` and `hybrid`.

pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod folded;
pub(crate) mod hint;
pub(crate) mod lwe;
pub(crate) mod noise;
pub(crate) mod packed;
pub(crate) mod query;
pub(crate) mod reinterpret;
pub(crate) mod ring;
pub(crate) mod shape;
mod work;

pub use folded::Folded;
pub use hint::LweHint;
pub use work::{Unit, Work};

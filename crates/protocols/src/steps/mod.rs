//! The steps that protocols are composed of, with what several of them share.
//!
//! - `check`: requests and answers before anything is done with them.
//! - [`Folded`]: parameters of a database whose first step is `scalar_fold`.
//! - `lwe`: rounding of what a fold leaves; [`LweHint`]: the hint.
//! - `ring`: `expand`, `pack`, `rgsw_fold` and `mod_switch`, both halves; [`RingKeys`]: the keys they need.
//! - `noise`: bounds on failures.

pub(crate) mod check;
pub(crate) mod folded;
pub(crate) mod lwe;
pub(crate) mod lwe_hint;
pub(crate) mod noise;
pub(crate) mod ring;

pub use folded::Folded;
pub use lwe_hint::LweHint;
pub use ring::RingKeys;

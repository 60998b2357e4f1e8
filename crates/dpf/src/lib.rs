//! Distributed point functions: keys of two parties whose evaluations differ at one secret point.
//!
//! The tree is that of Boyle, Gilboa and Ishai ("Function secret sharing: improvements and
//! extensions", CCS 2016, section 3). A key is the seed of a binary tree with a correction word for
//! each level. Each party expands its tree. The two trees are equal off the path to the secret
//! point and independent on it. [GPU-DPF section III-A] and [IM-PIR section 2.3] use the same tree.
//!
//! - [`prf`]: the pseudorandom functions that expand seeds, as types; [`PrfKind`] names them at run
//!   time.
//! - [`Domain`]: the number of points, the kind of a point's output, and the length of a key.
//! - [`generate`] and [`select`]: the keys of a point; [`evaluate`]: one party's share at a point.
//!
//! [GPU-DPF section III-A]: https://arxiv.org/abs/2301.10904
//!
//! [IM-PIR section 2.3]: https://arxiv.org/abs/2502.12516

#[cfg(target_endian = "big")]
compile_error!("leaves are read as little-endian words");

mod block;
mod domain;
mod error;
mod evaluate;
mod generate;
mod key;
mod output;
mod party;
pub mod prf;

pub use block::{Block, CONTROL, LEAF_BLOCKS, Leaf};
pub use domain::{Domain, MAX_POINTS};
pub use error::DpfError;
pub use evaluate::{Subtree, evaluate, evaluate_all};
pub use generate::{generate, select};
pub use key::{Key, Level};
pub use output::{Bit, Output, OutputKind};
pub use party::Party;
pub use prf::{Prf, PrfKind, PrfVisitor};

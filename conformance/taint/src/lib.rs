//! The client's WebAssembly module, interpreted with its secrets marked.
//!
//! Every bit has a mark, in registers and in memory: whether it depends on a secret. The surroundings mark what is drawn and
//! what is asked for; each operation marks the bits of its result that a marked bit may change; and a branch, a call, an
//! address or a division that a mark reaches is told. The client ends marks where `spirea_math::secret::declassify` says
//! why. (docs/constant-time.md)

pub mod error;
mod floats;
mod function;
mod instance;
mod instruction;
mod lanes;
mod machine;
mod marked;
mod memory;
pub mod module;
mod translate;
pub mod visit;

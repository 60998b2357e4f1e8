//! Interpreter for the client's WebAssembly module, with its secrets marked.
//!
//! Every bit in registers and memory has a mark that tells if it depends on a secret. The
//! environment marks randomness and the requested keys. Each operation marks the bits of its result
//! that a marked bit may change. A branch, a call, an address or a division that depends on a
//! marked bit is reported. The client ends marks where `spirea_math::secret::declassify` states a
//! reason. (docs/constant-time.md)

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

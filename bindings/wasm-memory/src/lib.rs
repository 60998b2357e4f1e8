//! Messages in the memory of a WebAssembly instance, and randomness from JavaScript, for all
//! modules for JavaScript.

mod message;
#[cfg(target_arch = "wasm32")]
mod randomness;

pub use message::{Message, Mismatch, pieces};

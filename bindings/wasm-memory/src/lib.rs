//! Messages in the memory of a WebAssembly instance, and randomness from JavaScript: what the modules for JavaScript share.

mod message;
#[cfg(target_arch = "wasm32")]
mod randomness;

pub use message::{Message, Mismatch, pieces};

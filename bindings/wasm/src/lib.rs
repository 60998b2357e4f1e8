//! The client for JavaScript: [`spirea_client`]'s conversations over the memory of a WebAssembly instance.
//!
//! There is no logic of its own here: what is sent when, what is tried again, and what is believed is decided by the client
//! that every other program uses. An instance has one client. JavaScript writes a message into its memory, calls an export,
//! and reads the message that this left (`spirea_wasm_memory`); it does what a step says (`shim`) and hands back what came
//! of it. The package `clients/ts` is the other half.
//!
//! An instance draws all randomness from its import `random`, which is `crypto.getRandomValues`.

mod abi;
mod cache;
mod environment;
mod errors;
mod rules;
mod shim;
#[cfg(feature = "timing")]
mod timing;
#[cfg(feature = "vectors")]
mod vectors;

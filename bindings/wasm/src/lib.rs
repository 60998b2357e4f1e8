//! The client for JavaScript: conversations of [`spirea_client`] over the memory of a WebAssembly
//! instance.
//!
//! The module has no logic of its own: order of requests, retries and verification are those of the
//! client that every other program uses. An instance has one client. JavaScript writes a message
//! into the instance's memory, calls an export, and reads the message that the export leaves
//! (`spirea_wasm_memory`). It performs the action that a step returns (`shim`), and passes the
//! result back. The package `clients/ts` is the other half.
//!
//! An instance draws all randomness from its import `random`, which is `crypto.getRandomValues`.

mod abi;
mod cache;
#[cfg(test)]
mod contract;
mod environment;
mod errors;
mod rules;
mod shim;
#[cfg(feature = "timing")]
mod timing;
#[cfg(feature = "vectors")]
mod vectors;

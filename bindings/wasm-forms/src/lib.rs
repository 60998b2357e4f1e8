//! The rules for forms of keys for JavaScript: [`spirea_normalise`] over messages in the memory of
//! a WebAssembly instance.
//!
//! A client loads this module for tables whose keys have a form, and for domains with their
//! parents. JavaScript writes a message, calls an export of `abi`, and reads the message that the
//! export leaves (`spirea_wasm_memory`).

mod abi;
mod rules;

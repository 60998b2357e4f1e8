//! ExpPack (D): DoublePIR without a hint for the client (VIPIR sections 3.2 and 3.5).
//!
//! The two folds are those of [`double`](super::double). The second fold's results for the fixed
//! rows, 2560 LWE ciphertexts for each byte of a unit, are packed, so their hint stays with the
//! server. The moving rows are few and are sent unpacked: packing them would cost 3840 transforms
//! and save only 5 KiB. Steps: `scalar_fold`, `reinterpret`, `scalar_fold`, `expand`, `pack`,
//! `mod_switch`.

mod client;
mod params;
mod prepare;
mod server;

pub use client::Client;
pub use params::{ExppackDouble, Params};

//! Batching: the selection of requests that are computed together, and its timing.
//!
//! [`Batcher`] decides which requests form a batch and when, and [`Pace`] how long waiting to share
//! a scan is worthwhile. Neither has a clock or a thread. The engine runs them in real time;
//! [`simulation`] runs them in virtual time, to predict a server or an accelerator.

mod batcher;
mod pace;
pub mod simulation;

pub use batcher::{Batch, Batcher, Full, Load, Next, Request, RequestNumber, Terms, Window};
pub use pace::{Pace, PaceMeter};

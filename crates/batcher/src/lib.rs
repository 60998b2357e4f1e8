//! Which requests are computed together, and when.
//!
//! [`Batcher`] decides which and when, [`Pace`] how long sharing a scan is worth waiting for. Neither has a clock or a
//! thread: the engine runs them in real time, and [`simulation`] in virtual time, for whoever asks what a server or an
//! accelerator would do.

mod batcher;
mod pace;
pub mod simulation;

pub use batcher::{Batch, Batcher, Full, Load, Next, Request, RequestNumber, Terms, Window};
pub use pace::{Pace, PaceMeter};

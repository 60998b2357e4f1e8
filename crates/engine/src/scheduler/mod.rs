//! When which batch is computed, and its computation.
//!
//! Queries of many clients share a scan of the database: [`Batcher`] decides which and when, [`Pace`] how long that
//! is worth waiting for. One thread computes one batch after another; the backend spreads a batch over all cores, so
//! a second thread would gain nothing. The queue is bounded: a request that finds it full is refused at once, with
//! an estimate of when there may be room. A request whose caller has gone leaves the queue at once and frees its
//! place and memory.

mod answer;
mod batcher;
mod pace;
mod queue;
pub mod simulation;

pub use answer::{Clock, DatabaseQueries, Steps};
pub use batcher::{Batch, Batcher, Full, Load, Next, Request, RequestNumber, Terms, Window};
pub use pace::{Pace, PaceMeter};
pub use queue::{Answers, Scheduler, Ticket};

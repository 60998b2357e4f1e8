//! When which batch is computed, and its computation.
//!
//! Queries of many clients share a scan of the database: [`Batcher`] decides which and when, [`Pace`] how long that
//! is worth waiting for. One thread computes one batch after another; the backend spreads a batch over all cores, so
//! a second thread would gain nothing. Where other machines compute, there are as many batches at the same time as they
//! have slots for, a thread each. The queue is bounded: a request that finds it full is refused at once, with
//! an estimate of when there may be room. A request whose caller has gone leaves the queue at once and frees its
//! place and memory.

mod answer;
mod lane;
mod queue;
mod trace;

pub use answer::{Clock, DatabaseQueries, Steps};
pub(crate) use lane::Lane;
pub use queue::{Answers, Scheduler, Slots, Ticket};
pub use spirea_batcher::{
    Batch, Batcher, Full, Load, Next, Pace, PaceMeter, Request, RequestNumber, Terms, Window, simulation,
};
pub use trace::{TraceContext, WrongTrace, current_trace};

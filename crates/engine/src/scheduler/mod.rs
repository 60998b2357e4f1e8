//! Schedule and computation of batches.
//!
//! Queries of many clients share a scan of the database: [`Batcher`] decides which queries are
//! computed together and when, and [`Pace`] how long waiting for more is worthwhile. One thread
//! computes one batch after another; the backend spreads a batch over all cores, so a second thread
//! would gain nothing. If other machines compute, the number of concurrent batches is that of their
//! slots, with one thread for each.
//!
//! The queue is bounded: a request that finds it full is refused at once, with an estimate of when
//! there may be room. If a request's caller goes away, the request leaves the queue at once and
//! frees its place and memory.

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

//! From bytes to bytes: databases, admission and the answering of queries.
//!
//! An [`Engine`] holds databases by name, each in the versions that are [`Served`], and the
//! evaluation [`keys`] of their clients. It has one [`scheduler`], or one for each version if other
//! machines compute. [`Engine::submit`] admits a request or refuses it at once, and returns a
//! [`Ticket`], a future of its answers. The computation runs on a separate thread, never on the
//! caller's. No part of a query is ever logged.

mod asleep;
mod database;
mod engine;
mod error;
pub mod keys;
mod load;
mod reservation;
pub mod scheduler;
mod served;

pub use database::{Database, HintFile, Identity, LossHandler, MAX_REQUEST_BYTES};
pub use engine::{Asked, Engine, State, Status};
pub use error::{EngineError, LoadError};
pub use keys::{KeyEvents, KeyOptions, KeyOwner, KeyRegistry, KeyUsage};
pub use reservation::{ComputeTurn, Reservation};
pub use scheduler::{
    Answers, DatabaseQueries, Load, Steps, Ticket, TraceContext, Window, WrongTrace, current_trace,
};
pub use served::{MOST_VERSIONS, Served};

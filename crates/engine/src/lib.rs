//! From bytes to bytes: databases, admission and the answering of queries.
//!
//! An [`Engine`] holds databases by name, each in the versions that are [`Served`], the evaluation [`keys`] of their
//! clients, and one [`scheduler`], or one for each version where other machines compute. [`Engine::submit`] admits a request, or refuses it at once, and gives a [`Ticket`], a
//! future of its answers; the computation runs on a thread of its own and never on the caller's. Nothing of a query is
//! ever logged.

mod database;
mod engine;
mod error;
pub mod keys;
mod load;
mod lock;
mod reservation;
pub mod scheduler;
mod served;

pub use database::{Database, HintFile, Identity, LossHandler, MAX_REQUEST_BYTES};
pub use engine::{Asked, Engine, State, Status};
pub use error::{EngineError, LoadError};
pub use keys::{KeyEvents, KeyOptions, KeyOwner, KeyRegistry, KeyUsage};
pub use lock::lock;
pub use reservation::{ComputeTurn, Reservation};
pub use scheduler::{
    Answers, DatabaseQueries, Load, Steps, Ticket, TraceContext, Window, WrongTrace, current_trace,
};
pub use served::{MOST_VERSIONS, Served};

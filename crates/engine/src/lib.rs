//! From bytes to bytes: databases, admission and the answering of queries.
//!
//! An [`Engine`] holds databases by name and one [`scheduler`]. [`Engine::submit`] admits a request, or
//! refuses it at once, and gives a [`Ticket`], a future of its answers; the computation runs on a thread of
//! its own and never on the caller's. Nothing of a query is ever logged.

mod database;
mod engine;
mod error;
mod load;
pub mod scheduler;

pub use database::{Database, HintFile, Identity, MAX_REQUEST_BYTES};
pub use engine::{Engine, State, Status};
pub use error::{EngineError, LoadError};
pub use scheduler::{Answers, Load, Ticket};

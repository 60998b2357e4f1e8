//! The engine with scripted responders: admission, scheduling, remote databases, evaluation keys.

mod engine;
mod keys;
mod remote;
mod scheduler;

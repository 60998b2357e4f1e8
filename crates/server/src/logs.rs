//! Structured logs on standard error.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::fmt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::LogConfig;

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends the log of this process to standard error.
///
/// # Errors
/// If it goes somewhere already.
pub fn init_logs(LogConfig { format, level }: LogConfig) -> Result<(), TryInitError> {
    let colours = io::stderr().is_terminal();
    let subscriber =
        fmt().with_writer(io::stderr).with_ansi(colours).with_max_level(level).with_target(false);
    match format {
        LogFormat::Text => subscriber.finish().try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).finish().try_init(),
    }
}

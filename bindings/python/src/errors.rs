//! Errors of the crates as exceptions of `spirea.errors`.

use pyo3::prelude::*;
use spirea_client::ClientError;
use spirea_protocols::ProtocolError;
use spirea_server::ServeError;
use spirea_store::StoreError;

/// What becomes an exception.
#[derive(Debug)]
pub struct Failure {
    class: &'static str,
    message: String,
    /// Of what a server refused, the HTTP status.
    status: Option<u16>,
}

impl Failure {
    /// An exception of this class of `spirea.errors`.
    pub fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), status: None }
    }

    /// Something was stopped.
    pub fn stopped() -> Self {
        Self::new("StoppedError", "stopped before it was done")
    }

    /// The exception.
    pub fn raise(self, py: Python<'_>) -> PyErr {
        let instance = || {
            let class = py.import("spirea.errors")?.getattr(self.class)?;
            let instance = class.call1((&self.message,))?;
            if let Some(status) = self.status {
                instance.setattr("status", status)?;
            }
            Ok::<_, PyErr>(instance)
        };
        instance().map_or_else(|error| error, PyErr::from_value)
    }
}

/// A message whose options are those of a call: `--max-value` is `max_value` there.
fn as_arguments(message: &str) -> String {
    let (mut text, mut rest) = (String::new(), message);
    while let Some(start) = rest.find("--") {
        let (before, option) = rest.split_at(start);
        let end = option.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(option.len());
        let name = option[2..end].trim_end_matches('-');
        text += before;
        match name {
            "" => text += "--",
            name => text += &name.replace('-', "_"),
        }
        rest = &option[2 + name.len()..];
    }
    text + rest
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let class = match &error {
            StoreError::DuplicateKeys { .. } => "DuplicateKeyError",
            StoreError::Malformed { .. }
            | StoreError::NoSuchColumn { .. }
            | StoreError::Null { .. }
            | StoreError::Empty { .. }
            | StoreError::Oversize { .. } => "TableError",
            StoreError::BadOption(_) | StoreError::Protocol(ProtocolError::BadRequest(_)) => "OptionError",
            StoreError::Stopped => "StoppedError",
            _ => "BuildError",
        };
        Self::new(class, as_arguments(&error.to_string()))
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let class = if matches!(error, ServeError::Setting(_)) { "OptionError" } else { "ServerError" };
        Self::new(class, as_arguments(&error.to_string()))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let class = match error.cause() {
            ClientError::BadAddress(_)
            | ClientError::BadOption(_)
            | ClientError::HintTooLarge { .. }
            | ClientError::NoCacheFolder
            | ClientError::WeakPrf { .. }
            | ClientError::Protocol(ProtocolError::BadRequest(_)) => "OptionError",
            ClientError::Wire(_)
            | ClientError::WrongConfig(_)
            | ClientError::UnexpectedStatus { .. }
            | ClientError::DifferentSnapshots { .. }
            | ClientError::StillStale
            | ClientError::Unusable(_)
            | ClientError::Changing => "VersionError",
            ClientError::Unreachable(_)
            | ClientError::UnknownHost(_)
            | ClientError::Untrusted(_)
            | ClientError::TimedOut(_)
            | ClientError::Broken(_) => "UnreachableError",
            ClientError::Refused { .. } | ClientError::KeysForgotten => "RefusedError",
            ClientError::HintCorrupted
            | ClientError::KeysEnded
            | ClientError::KeysChanged
            | ClientError::Protocol(_) => "AnswerError",
            ClientError::Stopped => "StoppedError",
            _ => "LookUpError",
        };
        let status = match error.cause() {
            ClientError::Refused { status, .. } => Some(*status),
            _ => None,
        };
        Self { status, ..Self::new(class, as_arguments(&error.to_string())) }
    }
}

/// What is wrong with options; `otherwise` is the class of errors that have none of their own.
pub fn of_options(error: anyhow::Error, otherwise: &'static str) -> Failure {
    if let Some(error) = error.downcast_ref::<clap::Error>() {
        let text = error.render().to_string();
        let first = text.split("\n\n").next().unwrap_or_default();
        return Failure::new("OptionError", as_arguments(first.trim_start_matches("error: ")));
    }
    match error.downcast::<StoreError>() {
        Ok(error) => error.into(),
        Err(error) => Failure::new(otherwise, as_arguments(&format!("{error:#}"))),
    }
}

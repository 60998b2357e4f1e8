//! Errors of the crates as exceptions of `spirea.errors`.

use pyo3::prelude::*;
use spirea_cli::explained;
use spirea_client::ClientError;
use spirea_protocols::ProtocolError;
use spirea_server::ServeError;
use spirea_store::StoreError;

/// Data of an exception.
#[derive(Debug)]
pub struct Failure {
    class: &'static str,
    message: String,
    /// HTTP status, if a server refused.
    status: Option<u16>,
    /// Address of the server, if a look-up failed.
    url: Option<String>,
}

impl Failure {
    /// Creates an exception of this class of `spirea.errors`.
    pub fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), status: None, url: None }
    }

    /// Creates the exception of a stopped call.
    pub fn stopped() -> Self {
        Self::new("StoppedError", "stopped before it was done")
    }

    /// Adds the server's address to a failed look-up, if there is only one server: the error itself
    /// need not name that server.
    pub fn at(mut self, urls: &[String]) -> Self {
        if let [url] = urls
            && self.class != "OptionError"
            && self.class != "StoppedError"
        {
            self.url.get_or_insert_with(|| url.clone());
        }
        self
    }

    /// Makes the exception.
    pub fn raise(self, py: Python<'_>) -> PyErr {
        let instance = || {
            let class = py.import("spirea.errors")?.getattr(self.class)?;
            let instance = class.call1((&self.message,))?;
            if let Some(status) = self.status {
                instance.setattr("status", status)?;
            }
            if let Some(url) = &self.url {
                instance.setattr("url", url)?;
            }
            Ok::<_, PyErr>(instance)
        };
        instance().map_or_else(|error| error, PyErr::from_value)
    }
}

/// Replaces the command's options in a message by arguments of a call: `--max-value` becomes
/// `max_value`. An option follows the start, a space, a quote or a bracket. Text between double
/// quotes stays as it is, because it is a key or a name from outside and may contain anything.
fn as_arguments(message: &str) -> String {
    let (mut text, mut rest, mut is_quoted) = (String::with_capacity(message.len()), message, false);
    while let Some(next) = rest.chars().next() {
        let before = text.chars().next_back();
        let begins = before.is_none_or(|c| c.is_whitespace() || "'`([<".contains(c));
        match rest.strip_prefix("--").filter(|_| begins && !is_quoted).map(name_of_option) {
            Some(name) if !name.is_empty() => {
                text += &name.replace('-', "_");
                rest = &rest[2 + name.len()..];
            }
            _ => {
                is_quoted ^= next == '"' && before != Some('\\');
                text.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    text
}

/// Returns the name at the start of the text after two hyphens.
fn name_of_option(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(text.len());
    let name = text[..end].trim_end_matches('-');
    if name.starts_with('-') { "" } else { name }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let class = match &error {
            StoreError::DuplicateKeys { .. } => "DuplicateKeyError",
            StoreError::Malformed { .. }
            | StoreError::NoSuchColumn { .. }
            | StoreError::NoSuchField { .. }
            | StoreError::Null { .. }
            | StoreError::Empty { .. }
            | StoreError::Oversize { .. }
            | StoreError::UnexpectedRows { .. } => "TableError",
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
            | ClientError::Proxy(_)
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
        let message = error.to_string();
        // Other errors contain a server's text and name no option.
        let names_options = class == "OptionError" || matches!(error.cause(), ClientError::Untrusted(_));
        let message = if names_options { as_arguments(&message) } else { message };
        Self { status, url: error.url().map(str::to_owned), ..Self::new(class, message) }
    }
}

/// Converts an error in options. `otherwise` is the class of errors without a class of their own.
pub fn of_options(error: anyhow::Error, otherwise: &'static str) -> Failure {
    if let Some(error) = error.downcast_ref::<clap::Error>() {
        let text = error.render().to_string();
        let first = text.split("\n\n").next().unwrap_or_default();
        return Failure::new("OptionError", as_arguments(first.trim_start_matches("error: ")));
    }
    match error.downcast::<StoreError>() {
        Ok(error) => error.into(),
        Err(error) => Failure::new(otherwise, as_arguments(&explained(&error))),
    }
}

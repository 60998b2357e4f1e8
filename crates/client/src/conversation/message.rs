use bytes::Bytes;

use crate::ClientError;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A request without a body.
    Get,
    /// A request with a body.
    Post,
}

/// A request to a server. The sender adds a token if the server requires one, follows no
/// redirection, and requests no content encoding of the response.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// URL: the server's address as the client was given it, and a path.
    pub url: String,
    /// Headers, with names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Bytes,
}

/// Shows the length of the body, not its bytes.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} {:?}, {} bytes", self.method, self.url, self.headers, self.body.len())
    }
}

/// The beginning of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its status.
    pub status: u16,
    /// The header `ETag`.
    pub etag: Option<String>,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The response's head.
    Head(Head),
    /// The next piece of its body; an empty piece is the end.
    Piece(Bytes),
    /// No response, or the rest of a response is missing.
    Failed(TransportError),
}

/// Reason why a request got no response or only a part, with the transport's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportError {
    /// Nothing listens at the address.
    Unreachable(String),
    /// The host name has no address.
    UnknownHost(String),
    /// The request timed out.
    TimedOut(String),
    /// The connection broke.
    Broken(String),
    /// The server is not known to be the intended one; with a remedy.
    Untrusted(String),
    /// The response is not HTTP.
    Unusable(String),
    /// The address is invalid.
    BadAddress(String),
    /// A proxy that the request must go through refuses it.
    Proxy(String),
}

impl TransportError {
    /// Changes the message.
    #[cfg(feature = "http")]
    pub(crate) fn map(self, change: impl FnOnce(String) -> String) -> Self {
        let (make, words): (fn(String) -> Self, _) = match self {
            Self::Unreachable(words) => (Self::Unreachable, words),
            Self::UnknownHost(words) => (Self::UnknownHost, words),
            Self::TimedOut(words) => (Self::TimedOut, words),
            Self::Broken(words) => (Self::Broken, words),
            Self::Untrusted(words) => (Self::Untrusted, words),
            Self::Unusable(words) => (Self::Unusable, words),
            Self::BadAddress(words) => (Self::BadAddress, words),
            Self::Proxy(words) => (Self::Proxy, words),
        };
        make(change(words))
    }

    /// Returns true if the same request may succeed a little later.
    pub(super) fn passes(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::TimedOut(_) | Self::Broken(_))
    }
}

impl From<TransportError> for ClientError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Unreachable(words) => Self::Unreachable(words),
            TransportError::UnknownHost(words) => Self::UnknownHost(words),
            TransportError::TimedOut(words) => Self::TimedOut(words),
            TransportError::Broken(words) => Self::Broken(words),
            TransportError::Untrusted(words) => Self::Untrusted(words),
            TransportError::Unusable(words) => Self::Unusable(words),
            TransportError::BadAddress(words) => Self::BadAddress(words),
            TransportError::Proxy(words) => Self::Proxy(words),
        }
    }
}

use bytes::Bytes;

use crate::ClientError;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Has no body.
    Get,
    /// Has one.
    Post,
}

/// A request to a server. A token, if the server wants one, is added by whoever sends it, who follows no redirection and
/// asks for no encoding of the response.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Where to: the address of a server as the client was given it, and a path.
    pub url: String,
    /// Its headers, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Bytes,
}

/// Shows lengths only of what is sent.
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

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The response's head.
    Head(Head),
    /// A piece of its body, the next one; an empty one is its end.
    Piece(Bytes),
    /// No response, or no more of it.
    Failed(TransportError),
}

/// Why a request brought no response, or not the whole, with what the transport says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportError {
    /// There is nothing at the address.
    Unreachable(String),
    /// Its host has no address.
    UnknownHost(String),
    /// It took too long.
    TimedOut(String),
    /// The connection broke.
    Broken(String),
    /// The server at the other end is not known to be the one that was meant; with what can be done about it.
    Untrusted(String),
    /// What came is not HTTP.
    Unusable(String),
    /// The address cannot be one.
    BadAddress(String),
}

impl TransportError {
    /// Whether the same request may succeed a little later.
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
        }
    }
}

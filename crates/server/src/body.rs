//! Request bodies, bounded by a length known from the database's parameters, a memory budget, and a
//! time.

use std::io::{self, Read};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::Limits;
use crate::access::{Caller, Share};
use crate::memory::Memory;
use crate::pace::{Pace, Rate};
use crate::refused::Refused;

/// A body that has been read; dropping its last clone releases its memory.
#[derive(Clone)]
pub(crate) struct Received {
    pub bytes: Bytes,
    _reserved: Arc<(OwnedSemaphorePermit, Share)>,
}

/// A message that is being received.
pub(crate) struct Upload {
    body: Body,
    declared: Option<u64>,
    /// True if the endpoint accepts the content type.
    accepted: bool,
}

impl Upload {
    /// Returns the message of a request, whose content type must be that of protobuf.
    pub fn new(request: Request) -> Self {
        let accepted = has_type(request.headers(), spirea_wire::CONTENT_TYPE);
        Self { accepted, ..Self::of_any_type(request) }
    }

    /// Returns the message of a request with any content type, or none.
    pub fn of_any_type(request: Request) -> Self {
        let (parts, body) = request.into_parts();
        Self { body, declared: declared_bytes(&parts.headers), accepted: true }
    }

    /// Reads the message, of at most `limit` bytes, which must come at `rate` or faster.
    pub async fn receive(
        self,
        limit: u64,
        rate: Rate,
        memory: &Memory,
        caller: &Caller,
    ) -> Result<Received, Refused> {
        if !self.accepted {
            return Err(Refused::wrong_content_type(spirea_wire::CONTENT_TYPE));
        }
        let expected = self.declared.unwrap_or(limit);
        if expected > limit {
            return Err(Refused::too_large(limit));
        }
        let share = caller.body_share(expected)?;
        let permit = memory.take(expected).ok_or_else(Refused::short_of_memory)?;
        let bytes = Paced::new(self.body, rate).collect(expected).await?;
        Ok(Received { bytes, _reserved: Arc::new((permit, share)) })
    }
}

/// Returns the length that a request's headers declare for its body.
pub fn declared_bytes(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads the body of a request to a program's own router: at most `most` bytes, at the minimum rate
/// of `limits`. The buffer grows with the received bytes, to less than twice their number.
///
/// # Errors
/// [`BodyError`].
pub async fn read_body(body: Body, most: u64, limits: &Limits) -> Result<Bytes, BodyError> {
    Paced::new(body, limits.read_rate()).collect(most).await
}

/// Reason why a body is not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body is longer than allowed.
    #[error("the body is longer than {0} bytes")]
    Long(u64),
    /// The body came below the minimum rate.
    #[error("the body came too slowly")]
    Slow,
    /// The body ended early.
    #[error("the body ended early")]
    Broken,
}

impl BodyError {
    /// Returns the status that refuses the request.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Long(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }
}

impl From<BodyError> for Refused {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Long(most) => Self::too_large(most),
            BodyError::Slow => Self::slow_body(),
            BodyError::Broken => Self::broken_body(),
        }
    }
}

/// A body with a minimum rate for its frames.
pub(crate) struct Paced {
    body: Body,
    pace: Pace,
    /// Arrival of the last frame.
    came: Instant,
}

impl Paced {
    pub fn new(body: Body, rate: Rate) -> Self {
        let now = Instant::now();
        Self { body, pace: Pace::new(now, rate), came: now }
    }

    /// Reads the whole body, of at most `most` bytes. The buffer grows with the received bytes, not
    /// to the allowed length.
    async fn collect(mut self, most: u64) -> Result<Bytes, BodyError> {
        let mut bytes = BytesMut::new();
        while let Some(data) = self.next().await? {
            if (bytes.len() + data.len()) as u64 > most {
                return Err(BodyError::Long(most));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.freeze())
    }

    /// Waits for the next data; `None` at the end. The time between two calls does not count
    /// against the client.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        self.pace.skip(self.came.elapsed());
        loop {
            let next = timeout_at(self.pace.deadline(), self.body.frame()).await;
            self.came = Instant::now();
            let Some(frame) = next.map_err(|_| BodyError::Slow)? else { return Ok(None) };
            let frame = frame.map_err(|_| BodyError::Broken)?;
            if let Ok(data) = frame.into_data() {
                self.pace.moved(self.came, data.len());
                return Ok(Some(data));
            }
        }
    }
}

/// A paced body as a blocking reader, for threads that may block.
pub(crate) struct BodyReader {
    frames: Paced,
    rest: Bytes,
    runtime: Handle,
}

impl BodyReader {
    /// Reads frames on `runtime`, to which the body's connection belongs.
    pub fn new(frames: Paced, runtime: Handle) -> Self {
        Self { frames, rest: Bytes::new(), runtime }
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.runtime.block_on(self.frames.next()).map_err(io::Error::other)? {
                Some(data) => self.rest = data,
                None => return Ok(0),
            }
        }
        let count = self.rest.len().min(buffer.len());
        self.rest.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

/// Returns true if a body has this content type, ignoring parameters.
pub(crate) fn has_type(headers: &HeaderMap, wanted: &str) -> bool {
    let essence = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()?.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(wanted))
}

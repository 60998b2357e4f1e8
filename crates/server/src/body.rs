//! Bodies: read within a length known from the database's parameters, a budget of memory, and time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::access::{Caller, Share};
use crate::refused::Refused;

/// The slowest upload that is waited for, in bytes a second, on top of the time allowed for a pause.
const SLOWEST_UPLOAD: u64 = 16 << 10;

/// Memory for bodies, shared by all requests.
pub(crate) struct BodyMemory {
    permits: Arc<Semaphore>,
    total: u32,
}

impl BodyMemory {
    /// Bytes of one permit of the semaphore.
    const UNIT: u64 = 1 << 10;

    pub fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes / Self::UNIT).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 4);
        Self { permits: Arc::new(Semaphore::new(total as usize)), total }
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> u64 {
        (u64::from(self.total) - self.permits.available_permits() as u64) * Self::UNIT
    }

    /// Takes memory for a body. A body that exceeds all there is takes all of it.
    fn take(&self, bytes: u64) -> Result<OwnedSemaphorePermit, Refused> {
        let units = u32::try_from(bytes.div_ceil(Self::UNIT)).unwrap_or(u32::MAX).min(self.total);
        Arc::clone(&self.permits).try_acquire_many_owned(units).map_err(|_| Refused::short_of_memory())
    }
}

/// A body that has been read, and the memory it takes until this is dropped.
pub(crate) struct Received {
    pub bytes: Bytes,
    _memory: OwnedSemaphorePermit,
    _share: Share,
}

/// A message on its way.
pub(crate) struct Upload {
    body: Body,
    declared: Option<u64>,
    protobuf: bool,
}

impl Upload {
    pub fn new(request: Request) -> Self {
        let (parts, body) = request.into_parts();
        let headers = &parts.headers;
        let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        Self { body, declared, protobuf: has_type(headers, spirea_wire::CONTENT_TYPE) }
    }

    /// Reads the message, which has at most `limit` bytes. A pause longer than `pause` ends it, and so does a
    /// rate below [`SLOWEST_UPLOAD`].
    pub async fn receive(
        mut self,
        limit: u64,
        pause: Duration,
        memory: &BodyMemory,
        caller: &Caller,
    ) -> Result<Received, Refused> {
        if !self.protobuf {
            return Err(Refused::wrong_content_type(spirea_wire::CONTENT_TYPE));
        }
        let expected = self.declared.unwrap_or(limit);
        if expected > limit {
            return Err(Refused::too_large(limit));
        }
        let share = caller.body_share(expected)?;
        let permit = memory.take(expected)?;
        let deadline = Instant::now() + pause + Duration::from_secs(expected / SLOWEST_UPLOAD);
        // Memory grows with what has come, not with what was announced.
        let mut bytes = BytesMut::new();
        loop {
            let next = timeout_at(deadline.min(Instant::now() + pause), self.body.frame());
            let Some(frame) = next.await.map_err(|_| Refused::slow_body())? else { break };
            let frame = frame.map_err(|_| Refused::broken_body())?;
            let Some(data) = frame.data_ref() else { continue };
            if (bytes.len() + data.len()) as u64 > expected {
                return Err(Refused::too_large(limit));
            }
            bytes.extend_from_slice(data);
        }
        Ok(Received { bytes: bytes.freeze(), _memory: permit, _share: share })
    }
}

/// Whether a body is of this content type, whatever parameters it has.
pub(crate) fn has_type(headers: &HeaderMap, wanted: &str) -> bool {
    let essence = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()?.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(wanted))
}

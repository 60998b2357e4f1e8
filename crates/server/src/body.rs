//! Bodies: read within a length known from the database's parameters, a budget of memory, and time.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use crate::refused::Refused;

/// The slowest upload that is waited for, in bytes a second; beside the time allowed for a pause.
const SLOWEST_UPLOAD: u64 = 16 << 10;
/// The most of a refused body that is read, and for how long.
const DISCARD_BYTES: usize = 64 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Memory for bodies, shared by all requests.
pub(crate) struct BodyMemory {
    permits: Semaphore,
    total: u32,
}

impl BodyMemory {
    /// Bytes of one permit of the semaphore.
    const UNIT: u64 = 1 << 10;

    pub fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes / Self::UNIT).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 4);
        Self { permits: Semaphore::new(total as usize), total }
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> u64 {
        (u64::from(self.total) - self.permits.available_permits() as u64) * Self::UNIT
    }

    /// Takes memory for a body; one that exceeds all there is waits for nothing and gets all.
    fn take(&self, bytes: u64) -> Result<SemaphorePermit<'_>, Refused> {
        let units = u32::try_from(bytes.div_ceil(Self::UNIT)).unwrap_or(u32::MAX).min(self.total);
        self.permits.try_acquire_many(units).map_err(|_| Refused::short_of_memory())
    }
}

/// A body that has been read, and the memory it takes until this is dropped.
pub(crate) struct Received<'a> {
    pub bytes: Bytes,
    _memory: SemaphorePermit<'a>,
}

/// A body on its way.
pub(crate) struct Upload {
    body: Body,
    declared: Option<u64>,
    awaits_consent: bool,
}

impl Upload {
    pub fn new(headers: &HeaderMap, body: Body) -> Self {
        let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        Self { body, declared, awaits_consent: headers.contains_key(EXPECT) }
    }

    /// Reads the body, which has at most `limit` bytes. A pause longer than `pause` ends it, and so does a
    /// rate below [`SLOWEST_UPLOAD`].
    pub async fn receive<'a>(
        &mut self,
        limit: u64,
        pause: Duration,
        memory: &'a BodyMemory,
    ) -> Result<Received<'a>, Refused> {
        let expected = self.declared.unwrap_or(limit);
        if expected > limit {
            return Err(Refused::too_large(limit));
        }
        let permit = memory.take(expected)?;
        let deadline = Instant::now() + pause + Duration::from_secs(expected / SLOWEST_UPLOAD);
        // Memory grows with what has come, not with what was announced.
        let mut bytes = BytesMut::new();
        loop {
            let next = timeout_at(deadline.min(Instant::now() + pause), self.body.frame());
            match next.await {
                Err(_) => return Err(Refused::slow_body()),
                Ok(None) => return Ok(Received { bytes: bytes.freeze(), _memory: permit }),
                Ok(Some(Err(_))) => return Err(Refused::broken_body()),
                Ok(Some(Ok(frame))) => {
                    let Some(data) = frame.data_ref() else { continue };
                    if (bytes.len() + data.len()) as u64 > expected {
                        return Err(Refused::too_large(limit));
                    }
                    bytes.extend_from_slice(data);
                }
            }
        }
    }

    /// Reads what is left and throws it away, while the response is already being sent: a client that is
    /// still sending would otherwise see a broken connection in place of the response.
    pub fn discard(mut self) {
        // A client that waits for consent has sent nothing yet.
        if self.awaits_consent {
            return;
        }
        tokio::spawn(timeout(DISCARD_TIME, async move {
            let mut read = 0;
            while let Some(Ok(frame)) = self.body.frame().await {
                read += frame.data_ref().map_or(0, Bytes::len);
                if read > DISCARD_BYTES {
                    break;
                }
            }
        }));
    }
}

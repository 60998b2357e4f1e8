//! Drains a request's body that is still arriving after the request has been answered.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::EXPECT;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Limits for draining a body nobody wants: bytes and time.
const DISCARD_BYTES: usize = 64 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// A request's body. When dropped, it reads and discards the rest of the body while the response is
/// being sent. Otherwise a client that is still sending would see a broken connection instead of
/// the response.
pub(crate) struct Drained {
    /// `None` when nothing is left to drain.
    body: Option<Incoming>,
    /// True if the client sends its body only after the server asks for it (`Expect`).
    awaits_consent: bool,
}

impl Drained {
    pub fn attach(request: Request<Incoming>) -> Request<Self> {
        let awaits_consent = request.headers().contains_key(EXPECT);
        request.map(|body| Self { body: Some(body), awaits_consent })
    }
}

impl Body for Drained {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.awaits_consent = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        if self.awaits_consent || self.is_end_stream() {
            return;
        }
        // There is no runtime any more when the server is ending.
        let (Some(mut body), Ok(runtime)) = (self.body.take(), Handle::try_current()) else { return };
        runtime.spawn(timeout(DISCARD_TIME, async move {
            let mut read = 0;
            while let Some(Ok(frame)) = body.frame().await {
                read += frame.data_ref().map_or(0, Bytes::len);
                if read > DISCARD_BYTES {
                    break;
                }
            }
        }));
    }
}

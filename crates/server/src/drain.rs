//! What a client is still sending when its request has been answered.

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

/// The most of a body that is read for nobody, and for how long.
const DISCARD_BYTES: usize = 64 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// A request's body. When it is dropped, what has not come yet is read and thrown away, while the response is
/// already being sent: a client that is still sending would otherwise see a broken connection in place of the
/// response.
pub(crate) struct Drained {
    /// `None` when there is nothing to wait for any more.
    body: Option<Incoming>,
    /// Whether the client waits with its body until somebody asks for it.
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
        // Outside the runtime, the server is at its end.
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

//! Values held until a response has been sent or its client has gone.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// Bytes of a body that are passed on in one piece: one HTTP/2 frame. The protocol buffers one
/// piece of each stalled response.
const PIECE_BYTES: usize = 16 << 10;

/// A value that a response can hold.
pub(crate) trait Hold: Send + Sync + 'static {
    /// Notes that `bytes` of the response have left this program's buffers.
    fn sent(&self, _bytes: usize) {}
}

/// A response's body with a value. The value is dropped with the body's last piece, that is, once
/// that piece has been written. While the client grants no credit for the piece, the value stays.
pub(crate) struct Held<T> {
    body: Body,
    /// Rest of the frame that is being passed on.
    rest: Bytes,
    held: Arc<T>,
}

impl<T: Hold> Held<T> {
    /// Attaches a value that lives until the response has been sent.
    pub fn attach(response: Response, held: T) -> Response {
        let held = Arc::new(held);
        response.map(|body| Body::new(Self { body, rest: Bytes::new(), held }))
    }

    fn next_piece(&mut self) -> Bytes {
        let bytes = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        Bytes::from_owner(Piece { bytes, held: Arc::clone(&self.held) })
    }
}

impl<T: Hold> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.next_piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, of_body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// A piece of a body that is being sent.
struct Piece<T: Hold> {
    bytes: Bytes,
    held: Arc<T>,
}

impl<T: Hold> AsRef<[u8]> for Piece<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: Hold> Drop for Piece<T> {
    fn drop(&mut self) {
        self.held.sent(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {

    use http_body_util::BodyExt as _;
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Watched(Arc<Mutex<Vec<usize>>>);

    impl Hold for Watched {
        fn sent(&self, bytes: usize) {
            self.0.lock().push(bytes);
        }
    }

    #[tokio::test]
    async fn a_value_is_held_until_the_last_piece_has_left() {
        let sent = Arc::default();
        let all = PIECE_BYTES + 5;
        let response = Response::new(Body::from(vec![7; all]));
        let mut body = Held::attach(response, Watched(Arc::clone(&sent))).into_body();
        assert_eq!(body.size_hint().exact(), Some(all as u64));
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(
            (first.len(), body.size_hint().exact(), body.is_end_stream()),
            (PIECE_BYTES, Some(5), false)
        );
        let last = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(body.is_end_stream() && body.frame().await.is_none());
        drop(body);
        drop(first);
        assert_eq!((&sent.lock()[..], Arc::strong_count(&sent)), (&[PIECE_BYTES][..], 2));
        drop(last);
        assert_eq!((&sent.lock()[..], Arc::strong_count(&sent)), (&[PIECE_BYTES, 5][..], 1));
    }
}

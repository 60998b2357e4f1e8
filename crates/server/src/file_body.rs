//! Bodies of responses that are read from a file in pieces.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use bytes::Bytes;
use http_body::Frame;
use spirea_backend::StoredFile;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::range::Slice;

/// Bytes of each read.
const PIECE_BYTES: u64 = 32 << 10;

/// Part of a file as a body. It has no exact size, because it is never in memory as a whole.
pub(crate) struct FileBody {
    file: StoredFile,
    /// Remaining bytes, for which no read has begun.
    rest: Slice,
    /// The piece that is being read.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl FileBody {
    /// Creates a body with the bytes `slice` of a file.
    pub fn new(file: StoredFile, slice: Slice) -> Self {
        Self { file, rest: slice, reading: None }
    }

    /// Begins to read the next piece; `None` at the end.
    fn begin(&mut self) -> Option<JoinHandle<io::Result<Bytes>>> {
        let (start, length) = (self.rest.start, self.rest.length.min(PIECE_BYTES));
        self.rest = Slice { start: start + length, length: self.rest.length - length };
        let file = self.file.clone();
        let read = move || {
            let mut piece = vec![0; length as usize];
            file.read_exact_at(&mut piece, start)?;
            Ok(piece.into())
        };
        (length > 0).then(|| spawn_blocking(read))
    }
}

impl HttpBody for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(mut reading) = self.reading.take().or_else(|| self.begin()) else {
            return Poll::Ready(None);
        };
        let Poll::Ready(read) = Pin::new(&mut reading).poll(context) else {
            self.reading = Some(reading);
            return Poll::Pending;
        };
        Poll::Ready(Some(read.map_err(io::Error::other).flatten().map(Frame::data)))
    }
}

//! Lines of a stream's input, which a thread reads ahead.

use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, bail};
use spirea_store::changes::Grouping;

/// Bytes that are read at once. At most two such chunks are read ahead of the lines in use.
pub const CHUNK_BYTES: usize = 64 << 10;

/// A piece of input, in the order of reading.
pub enum Piece {
    /// Bytes.
    Bytes(Vec<u8>),
    /// Beginning of a file of this name.
    Begin(String),
    /// End of the file.
    End,
}

/// Lines of an input that a thread reads.
pub struct Lines {
    pieces: Receiver<io::Result<Piece>>,
    /// Name of the input in messages.
    name: String,
    /// Bytes that were received. Bytes from `start` on belong to no returned line yet.
    buffer: Vec<u8>,
    start: usize,
    /// Number of bytes of the buffer that were searched for the end of the line.
    searched: usize,
    /// True if the last returned line was the last line of its file.
    ended: bool,
}

/// The next part of an input.
pub enum Next<'a> {
    /// A line, without its line feed.
    Line(&'a [u8]),
    /// The beginning of a file of this name.
    Begin(String),
    /// The end of the file.
    End,
    /// Nothing came by the given time.
    Due,
    /// The end of the input.
    Over,
}

impl Lines {
    /// Begins to read an input, which messages call `name`.
    pub fn read(input: impl Read + Send + 'static, name: &str) -> io::Result<Self> {
        Self::pieces(name, move |pieces| {
            send_bytes(input, pieces);
        })
    }

    /// Runs `send` on a new thread, and reads the pieces that it sends. The thread ends when these
    /// lines are dropped.
    pub fn pieces(
        name: &str,
        send: impl FnOnce(&SyncSender<io::Result<Piece>>) + Send + 'static,
    ) -> io::Result<Self> {
        // The channel has no buffer: the thread reads one piece ahead, and waits until it is taken.
        let (sender, pieces) = sync_channel(0);
        thread::Builder::new().name("spirea-stream".into()).spawn(move || send(&sender))?;
        Ok(Self { pieces, name: name.into(), buffer: Vec::new(), start: 0, searched: 0, ended: false })
    }

    /// Returns the next line, beginning or end. Waits for it until `due`.
    pub fn next(&mut self, due: Option<Instant>) -> anyhow::Result<Next<'_>> {
        loop {
            if let Some(length) = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n') {
                let (start, end) = (self.start, self.searched + length);
                (self.start, self.searched) = (end + 1, end + 1);
                return Ok(Next::Line(&self.buffer[start..end]));
            }
            self.searched = self.buffer.len();
            if std::mem::take(&mut self.ended) {
                return Ok(Next::End);
            }
            if self.searched - self.start > Grouping::MOST_LINE_BYTES {
                bail!("{}: a line longer than {} MiB", self.name, Grouping::MOST_LINE_BYTES >> 20);
            }
            let received = match due {
                Some(due) => self.pieces.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => self.pieces.recv().map_err(RecvTimeoutError::from),
            };
            match received.map(|piece| piece.with_context(|| self.name.clone())) {
                Ok(piece) => match piece? {
                    Piece::Bytes(bytes) => {
                        self.buffer.drain(..self.start);
                        self.searched -= self.start;
                        self.start = 0;
                        self.buffer.extend_from_slice(&bytes);
                    }
                    Piece::Begin(name) => return Ok(Next::Begin(name)),
                    Piece::End if self.start < self.buffer.len() => {
                        self.ended = true;
                        return Ok(Next::Line(self.rest()));
                    }
                    Piece::End => return Ok(Next::End),
                },
                Err(RecvTimeoutError::Timeout) => return Ok(Next::Due),
                Err(RecvTimeoutError::Disconnected) if self.start < self.buffer.len() => {
                    return Ok(Next::Line(self.rest()));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(Next::Over),
            }
        }
    }

    /// Takes the last line, which has no line feed.
    fn rest(&mut self) -> &[u8] {
        let start = std::mem::replace(&mut self.start, self.buffer.len());
        &self.buffer[start..]
    }
}

/// Reads an input until it ends or fails, or until the receiver is dropped. Returns true if the
/// input ended.
pub fn send_bytes(mut input: impl Read, pieces: &SyncSender<io::Result<Piece>>) -> bool {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = input.read(&mut chunk).map(|length| {
            chunk.truncate(length);
            chunk
        });
        let fails = match &read {
            Ok(chunk) if chunk.is_empty() => return true,
            Ok(_) => false,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => true,
        };
        if pieces.send(read.map(Piece::Bytes)).is_err() || fails {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_they_are_cut() {
        struct Bytes(Vec<u8>);
        impl Read for Bytes {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = usize::from(!self.0.is_empty());
                buffer[..count].copy_from_slice(&self.0.drain(..count).collect::<Vec<_>>());
                Ok(count)
            }
        }
        for (text, expected) in
            [("", &[][..]), ("\n", &[""]), ("a\nbc\n\nd", &["a", "bc", "", "d"]), ("a\n", &["a"])]
        {
            let mut lines = Lines::read(Bytes(text.into()), "input").unwrap();
            let mut found = Vec::new();
            while let Next::Line(line) = lines.next(None).unwrap() {
                found.push(String::from_utf8(line.to_vec()).unwrap());
            }
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn files_end_with_their_last_line() {
        let mut lines = Lines::pieces("folder", |pieces| {
            for (name, text) in [("a", "1\n2\n"), ("b", ""), ("c", "3\n4")] {
                pieces.send(Ok(Piece::Begin(name.into()))).unwrap();
                assert!(send_bytes(text.as_bytes(), pieces));
                pieces.send(Ok(Piece::End)).unwrap();
            }
        })
        .unwrap();
        let mut found = Vec::new();
        loop {
            found.push(match lines.next(None).unwrap() {
                Next::Line(line) => String::from_utf8(line.to_vec()).unwrap(),
                Next::Begin(name) => format!("<{name}"),
                Next::End => ">".into(),
                Next::Due => unreachable!("nothing is due"),
                Next::Over => break,
            });
        }
        assert_eq!(found, ["<a", "1", "2", ">", "<b", ">", "<c", "3", "4", ">"]);
    }
}

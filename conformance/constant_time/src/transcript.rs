//! Transcript of the messages between a client and its servers, in order.
//!
//! Each message is its length as 8 bytes, little-endian, and its bytes. A transcript holds the hint
//! and the evaluation keys of each table, then every query and every answer of each look-up.

use std::io::{self, Read, Write};

use spirea_protocols::registry::ProtocolParams;

use crate::look_ups::Servers;

/// Appends a message.
///
/// # Errors
/// Those of writing.
pub fn write(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    to.write_all(&(message.len() as u64).to_le_bytes())?;
    to.write_all(message)
}

/// Servers that replay their recorded messages to the same client.
pub struct Recorded<R>(pub R);

impl<R: Read> Recorded<R> {
    fn next(&mut self) -> Vec<u8> {
        let mut length = [0; 8];
        self.0.read_exact(&mut length).expect("the transcript has another message");
        let length = u64::from_le_bytes(length);
        let mut message = Vec::new();
        let read = self.0.by_ref().take(length).read_to_end(&mut message).expect("the transcript is read");
        assert_eq!(read as u64, length, "the transcript ends within a message");
        message
    }

    /// Checks that the client sends the recorded message.
    fn sent(&mut self, message: &[u8]) {
        assert!(
            self.next() == message,
            "the transcript is of another client: build constant-time-answers again"
        );
    }
}

impl<R: Read> Servers for Recorded<R> {
    fn open(&mut self, _: &ProtocolParams, _: Vec<Vec<u8>>) -> Vec<u8> {
        self.next()
    }

    fn register(&mut self, keys: &[u8]) {
        self.sent(keys);
    }

    fn answer(&mut self, queries: &[Vec<u8>]) -> Vec<Vec<u8>> {
        queries.iter().for_each(|query| self.sent(query));
        queries.iter().map(|_| self.next()).collect()
    }
}

//! Messages in the instance's memory: the length of a head, the head as JSON, and a body of bytes.
//!
//! Head and body may be secret, since they contain questions and answers. A message is erased
//! before the next one takes its place.

use std::fmt::{Display, Formatter};

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::{Zeroize as _, Zeroizing};

/// Length of the field with the head's length, in bytes.
const LENGTH_BYTES: usize = 4;

/// Error for a message that this module cannot read, because JavaScript and the module have
/// different versions.
#[derive(Debug)]
pub struct Mismatch;

impl Display for Mismatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("the package's files do not belong together; install all of one version")
    }
}

/// Buffer for one message.
#[derive(Default)]
pub struct Message(Zeroizing<Vec<u8>>);

impl Message {
    /// Makes room for a message of `length` bytes, after erasing the former one.
    pub fn make_room(&mut self, length: usize) -> &mut [u8] {
        self.0.zeroize();
        self.0.resize(length, 0);
        &mut self.0
    }

    /// Returns the message's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes a message, after erasing the former one.
    pub fn write(&mut self, head: &impl Serialize, body: &[u8]) {
        let head = Zeroizing::new(serde_json::to_vec(head).expect("heads are plain data"));
        self.0.zeroize();
        self.0.reserve_exact(LENGTH_BYTES + head.len() + body.len());
        self.0.extend_from_slice(&(head.len() as u32).to_le_bytes());
        self.0.extend_from_slice(&head);
        self.0.extend_from_slice(body);
    }

    /// Takes the message out of the buffer and erases it; returns the head and the body.
    ///
    /// # Errors
    /// [`Mismatch`] if the buffer has no message, or a message with another head.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<(T, Zeroizing<Vec<u8>>), Mismatch> {
        let message = std::mem::take(&mut self.0);
        let (length, rest) = message.split_first_chunk::<LENGTH_BYTES>().ok_or(Mismatch)?;
        let (head, body) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(Mismatch)?;
        // The parser's error may quote the head, so it is dropped.
        let head = serde_json::from_slice(head).map_err(|_| Mismatch)?;
        Ok((head, Zeroizing::new(body.to_vec())))
    }
}

/// Splits a body into pieces of these lengths.
///
/// # Errors
/// [`Mismatch`] if the body is shorter.
pub fn pieces(lengths: &[usize], mut body: &[u8]) -> Result<Vec<Zeroizing<Vec<u8>>>, Mismatch> {
    let next = |&length| {
        let piece = body.split_off(..length).ok_or(Mismatch)?;
        Ok(Zeroizing::new(piece.to_vec()))
    };
    lengths.iter().map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_what_a_body_is_made_of() {
        let slices = |lengths: &[usize]| -> Result<Vec<Vec<u8>>, Mismatch> {
            Ok(pieces(lengths, b"abc")?.iter().map(|piece| piece.to_vec()).collect())
        };
        assert_eq!(slices(&[1, 0, 2]).unwrap(), [b"a".to_vec(), Vec::new(), b"bc".to_vec()]);
        assert!(slices(&[1, 3]).is_err());
    }
}

//! Messages in the instance's memory: the length of a head, the head as JSON, and bytes.
//!
//! Both may be secret, what is asked for or what was answered: a message is erased before the next one takes its place.

use std::fmt::{Display, Formatter};

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::{Zeroize as _, Zeroizing};

/// Bytes of the head's length.
const LENGTH_BYTES: usize = 4;

/// What JavaScript asks for is nothing that this half knows: the two are of different versions.
#[derive(Debug)]
pub struct Mismatch;

impl Display for Mismatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("the package's files do not belong together; install all of one version")
    }
}

/// One message's place.
#[derive(Default)]
pub struct Message(Zeroizing<Vec<u8>>);

impl Message {
    /// Room for one of so many bytes.
    pub fn make_room(&mut self, length: usize) -> &mut [u8] {
        self.0.zeroize();
        self.0.resize(length, 0);
        &mut self.0
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Puts one in its place.
    pub fn write(&mut self, head: &impl Serialize, body: &[u8]) {
        let head = Zeroizing::new(serde_json::to_vec(head).expect("heads are plain data"));
        self.0.zeroize();
        self.0.reserve_exact(LENGTH_BYTES + head.len() + body.len());
        self.0.extend_from_slice(&(head.len() as u32).to_le_bytes());
        self.0.extend_from_slice(&head);
        self.0.extend_from_slice(body);
    }

    /// The head and the body of the one that is there, which is erased.
    ///
    /// # Errors
    /// [`Mismatch`] if it is none, or another head is wanted.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<(T, Zeroizing<Vec<u8>>), Mismatch> {
        let message = std::mem::take(&mut self.0);
        let (length, rest) = message.split_first_chunk::<LENGTH_BYTES>().ok_or(Mismatch)?;
        let (head, body) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(Mismatch)?;
        // What the parser says of a head may repeat it.
        let head = serde_json::from_slice(head).map_err(|_| Mismatch)?;
        Ok((head, Zeroizing::new(body.to_vec())))
    }
}

/// The pieces of these lengths, of which a body is made.
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

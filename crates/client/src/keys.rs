use std::time::Duration;

use bytes::Bytes;
use spirea_wire::{KeysHash, KeysPiece, KeysRequest, KeysResponse, Part, Request, Version};

use crate::ClientError;

/// Context of the hash that keeps a client's requests at one replica.
const AFFINITY: &str = "spirea 2026 affinity of keys";

/// A session's evaluation keys, which its server must have before it can answer. They hold no
/// secret, but tell which look-ups come from one client.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    pub(crate) version: Version,
    pub(crate) part: Part,
    pub(crate) bytes: &'a [u8],
    pub(crate) blake3: KeysHash,
}

impl Keys<'_> {
    /// Maximum time for which one ring secret is used, and for which look-ups name the same keys. A
    /// look-up that has begun is finished under its keys.
    ///
    /// The time is that of the session's [`Clock`](crate::Clock). On most systems the system's
    /// clock stands still while the machine is suspended, so this limit then counts only the time
    /// during which the machine is awake. The only consequence is that look-ups can be linked for
    /// longer.
    pub const LONGEST_USE: Duration = Duration::from_secs(24 * 3600);

    /// Returns the bytes of the keys.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Returns the BLAKE3 hash of the bytes, by which the session's requests name the keys.
    pub fn blake3(&self) -> &KeysHash {
        &self.blake3
    }

    /// Returns the body of the request that registers the keys.
    pub fn request(&self) -> Vec<u8> {
        let keys = Bytes::copy_from_slice(self.bytes);
        KeysRequest { version: self.version, part: self.part, keys }.encode()
    }

    /// Returns the bodies of the requests that register the keys, in order: one, or pieces if it
    /// would have more than `most` bytes.
    pub(crate) fn requests(&self, most: u64) -> Vec<Vec<u8>> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if self.bytes.len().saturating_add(KeysPiece::ENVELOPE_BYTES) <= most {
            return vec![self.request()];
        }
        let length = most.saturating_sub(KeysPiece::ENVELOPE_BYTES).max(1);
        let piece = |(i, bytes): (usize, &[u8])| {
            let Self { version, part, blake3: whole, .. } = *self;
            KeysPiece { version, part, whole, start: i * length, bytes: Bytes::copy_from_slice(bytes) }
                .encode()
        };
        self.bytes.chunks(length).enumerate().map(piece).collect()
    }

    /// Returns the value of the header by which a balancer can send all requests that name these
    /// keys to the same replica: 32 hexadecimal digits, which reveal no more than the keys' hash.
    pub(crate) fn affinity(&self) -> String {
        let digest = blake3::derive_key(AFFINITY, self.blake3.as_bytes());
        blake3::Hash::from_bytes(digest).to_hex()[..32].to_owned()
    }

    /// Returns an encoded request followed by keys, for a server that does not know them.
    pub fn join(request: &Bytes, keys: &[Keys<'_>]) -> Bytes {
        Request::with_keys(request, keys.iter().map(|keys| (keys.part, keys.bytes))).into()
    }

    /// Checks the response to [`Keys::request`].
    ///
    /// # Errors
    /// [`ClientError::Wire`] if the bytes are not such a response, [`ClientError::KeysChanged`] if
    /// the server received other keys.
    pub fn check(&self, response: Bytes) -> Result<(), ClientError> {
        let KeysResponse { blake3 } = KeysResponse::decode(response)?;
        if blake3 == self.blake3 { Ok(()) } else { Err(ClientError::KeysChanged) }
    }
}

#[cfg(test)]
mod tests {
    use spirea_wire::{KeysUpload, Lengths, Limits};

    use super::*;

    #[test]
    fn keys_are_one_request_or_pieces_that_add_up_to_them() {
        let bytes: Vec<u8> = (0..1000).map(|i| i as u8).collect();
        let keys = Keys {
            version: Version::new([1; 32]),
            part: Part::Base,
            bytes: &bytes,
            blake3: KeysHash::new([2; 32]),
        };
        let base = Lengths { query_bytes: 1, answer_bytes: 1, keys_bytes: bytes.len() };
        let limits = Limits { base, delta: None, max_batch: 1 };
        assert_eq!(keys.requests(1128), [keys.request()]);
        for most in [1127, 628, 200, 129] {
            let mut joined = Vec::new();
            for request in keys.requests(most) {
                assert!(request.len() as u64 <= most);
                let KeysUpload::Piece(piece) = KeysUpload::decode(request.into(), &limits).unwrap() else {
                    panic!("it is a piece")
                };
                assert_eq!(
                    (piece.start, piece.whole, piece.version),
                    (joined.len(), KeysHash::new([2; 32]), Version::new([1; 32]))
                );
                joined.extend_from_slice(&piece.bytes);
            }
            assert_eq!(joined, bytes);
        }
    }
}

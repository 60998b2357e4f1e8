use std::time::Duration;

use bytes::Bytes;
use spirea_wire::{KeysHash, KeysRequest, KeysResponse, Part, Version};

use crate::ClientError;

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
    /// The time is that of the session's [`Clock`](crate::Clock). The system's clock stands still
    /// on most systems while the machine is suspended, so the keys of such a machine are used for
    /// this much time awake. Only the link between look-ups lasts longer for it.
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

//! Requests of a coordinator to the server of a share: a batch of queries, with lengths given by
//! the parameters.

use std::collections::HashSet;

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::limits::check_length;
use crate::{KeysHash, Version, WireError};

const REQUEST: &str = "request to a share";
/// First bytes of a request: its name and its format.
const MAGIC: &[u8; 8] = b"SPIRPAR1";
/// Bytes before keys and queries.
const HEADER_BYTES: u64 = 8 + 32 + 4 + 4;
/// Bytes of a key's hash.
const HASH_BYTES: u64 = 32;
/// Bytes of the place of a query's keys in the list of keys.
const PLACE_BYTES: u64 = 4;

/// Limits on a request to a share, from the database's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLimits {
    /// Maximum number of queries in a batch.
    pub max_batch: usize,
    /// Bytes of a query.
    pub query_bytes: usize,
    /// Presence of evaluation keys: a share needs those of each query's client, or none.
    pub keyed: Keyed,
}

/// Presence of evaluation keys in the requests to a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyed {
    /// Each query names its client's keys.
    Keys,
    /// No query names keys.
    NoKeys,
}

impl ShareLimits {
    /// Returns the maximum bytes of a request.
    pub fn request_bytes(&self) -> u64 {
        self.bytes_of(self.max_batch as u64, self.max_batch as u64)
    }

    /// Returns the maximum number of queries in a request of `bytes` bytes.
    pub fn most_queries(&self, bytes: u64) -> usize {
        let per_query = self.bytes_of(0, 1) - self.bytes_of(0, 0);
        let fitting = bytes.saturating_sub(HEADER_BYTES) / per_query.max(1);
        usize::try_from(fitting).unwrap_or(usize::MAX).min(self.max_batch)
    }

    /// Returns the bytes of a request of `queries` queries under `keys` keys.
    fn bytes_of(&self, keys: u64, queries: u64) -> u64 {
        let query_bytes = self.query_bytes as u64;
        let (keys, place) = match self.keyed {
            Keyed::Keys => (keys * HASH_BYTES, PLACE_BYTES),
            Keyed::NoKeys => (0, 0),
        };
        queries.saturating_mul(place + query_bytes).saturating_add(HEADER_BYTES + keys)
    }
}

/// A batch of queries to the server of a share:
///
/// | bytes | content |
/// |---|---|
/// | 8 | `SPIRPAR1` |
/// | 32 | the version of the snapshot |
/// | 4 | the number of keys, little-endian; 0 if a share needs none |
/// | 4 | the number of queries, at least 1, little-endian |
/// | 32 for each key | the keys' hashes, without duplicates |
/// | 4 for each query | the place of its keys among them, from 0 on, little-endian; absent without keys |
/// | the rest | the queries, one after another, each of the length in the parameters |
///
/// The request says nothing about clients except which keys belong to the same client; a server
/// knows the keys by their hashes. `Debug` shows only lengths.
#[derive(Clone, PartialEq, Eq)]
pub struct ShareRequest {
    /// The snapshot that the queries are for.
    pub version: Version,
    /// Hashes of the queries' keys, each once; empty if a share needs none.
    pub keys: Vec<KeysHash>,
    /// The queries, each with the place of its keys, or `None` if a share needs none.
    pub queries: Vec<(Option<usize>, Bytes)>,
}

impl std::fmt::Debug for ShareRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (keys, queries) = (self.keys.len(), self.queries.len());
        f.debug_struct("ShareRequest").field("keys", &keys).field("queries", &queries).finish_non_exhaustive()
    }
}

impl ShareRequest {
    /// Encodes the request as a message.
    ///
    /// # Panics
    /// Panics if queries name keys but there are none, or name none but there are some.
    pub fn encode(&self) -> Bytes {
        let content: usize = self.queries.iter().map(|(_, query)| PLACE_BYTES as usize + query.len()).sum();
        let mut bytes =
            BytesMut::with_capacity(HEADER_BYTES as usize + self.keys.len() * HASH_BYTES as usize + content);
        bytes.put_slice(MAGIC);
        bytes.put_slice(self.version.as_bytes());
        bytes.put_u32_le(self.keys.len() as u32);
        bytes.put_u32_le(self.queries.len() as u32);
        self.keys.iter().for_each(|hash| bytes.put_slice(hash.as_bytes()));
        for (place, _) in &self.queries {
            assert_eq!(place.is_some(), !self.keys.is_empty(), "all queries name keys, or none");
            if let Some(place) = place {
                bytes.put_u32_le(*place as u32);
            }
        }
        self.queries.iter().for_each(|(_, query)| bytes.put_slice(query));
        bytes.freeze()
    }

    /// Decodes a request. The queries share the memory of `body`.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] if the body is longer than any request within `limits`,
    /// [`WireError::Malformed`] if the bytes are not a request, or their length differs from the
    /// numbers in the request and the parameters.
    pub fn decode(body: &Bytes, limits: &ShareLimits) -> Result<Self, WireError> {
        check_length(body.len(), limits.request_bytes())?;
        let malformed = |detail: String| WireError::malformed(REQUEST, detail);
        let Some((header, _)) = body.split_first_chunk::<{ HEADER_BYTES as usize }>() else {
            return Err(malformed("it has no header".into()));
        };
        if header[..8] != *MAGIC {
            return Err(malformed(
                "it does not begin as one of this format: run one release everywhere".into(),
            ));
        }
        let number = |at: usize| {
            u64::from(u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]))
        };
        let (keys, queries) = (number(40), number(44));
        if queries == 0 || queries > limits.max_batch as u64 {
            return Err(malformed(format!("1 to {} queries, not {queries}", limits.max_batch)));
        }
        let named = match limits.keyed {
            Keyed::Keys => 1..=queries,
            Keyed::NoKeys => 0..=0,
        };
        if !named.contains(&keys) {
            return Err(malformed(format!("{keys} keys of {queries} queries")));
        }
        let expected = limits.bytes_of(keys, queries);
        if body.len() as u64 != expected {
            let found = body.len();
            return Err(malformed(format!(
                "{found} bytes, not {expected}, of {keys} keys and {queries} queries"
            )));
        }
        let (keys, queries) = (keys as usize, queries as usize);
        let (hashes, rest) = body[HEADER_BYTES as usize..].split_at(keys * HASH_BYTES as usize);
        let hashes: Vec<KeysHash> = hashes.as_chunks().0.iter().copied().map(KeysHash::new).collect();
        if hashes.iter().collect::<HashSet<_>>().len() < hashes.len() {
            return Err(malformed("it names keys twice".into()));
        }
        let named = if keys == 0 { 0 } else { queries };
        let places = rest[..named * PLACE_BYTES as usize]
            .as_chunks()
            .0
            .iter()
            .map(|&place| u32::from_le_bytes(place) as usize);
        let mut places = places.map(|place| match place < keys {
            true => Ok(Some(place)),
            false => Err(malformed(format!("a query names keys number {place} of {keys}"))),
        });
        let first = body.len() - queries * limits.query_bytes;
        let query = |index: usize| {
            let place = places.next().transpose()?.flatten();
            let start = first + index * limits.query_bytes;
            Ok((place, body.slice(start..start + limits.query_bytes)))
        };
        let queries = (0..queries).map(query).collect::<Result<_, WireError>>()?;
        let version = *header[8..].first_chunk().expect("the header has 48 bytes");
        Ok(Self { version: Version::new(version), keys: hashes, queries })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: ShareLimits = ShareLimits { max_batch: 5, query_bytes: 3, keyed: Keyed::Keys };
    const NO_KEYS: ShareLimits = ShareLimits { keyed: Keyed::NoKeys, ..KEYS };

    fn request(keys: usize, places: &[usize]) -> ShareRequest {
        let query = |(index, place): (usize, &usize)| {
            ((keys > 0).then_some(*place), Bytes::from(vec![index as u8; 3]))
        };
        ShareRequest {
            version: Version::new([7; 32]),
            keys: (0..keys).map(|key| KeysHash::new([key as u8; 32])).collect(),
            queries: places.iter().enumerate().map(query).collect(),
        }
    }

    #[test]
    fn a_request_survives_the_wire() {
        for (limits, request) in [
            (NO_KEYS, request(0, &[0])),
            (NO_KEYS, request(0, &[0; 5])),
            (KEYS, request(1, &[0, 0, 0])),
            (KEYS, request(2, &[1, 0, 1, 1, 0])),
        ] {
            let bytes = request.encode();
            assert!(bytes.len() as u64 <= limits.request_bytes());
            assert_eq!(ShareRequest::decode(&bytes, &limits).unwrap(), request);
            for length in 0..bytes.len() {
                assert!(ShareRequest::decode(&bytes.slice(..length), &limits).is_err(), "{length}");
            }
            let longer = Bytes::from([&bytes[..], &[0]].concat());
            assert!(ShareRequest::decode(&longer, &limits).is_err());
        }
        for (limits, keys) in [(NO_KEYS, 0), (KEYS, 1)] {
            for queries in 1..=5 {
                let bytes = request(keys, &[0; 5][..queries]).encode().len() as u64;
                assert!(limits.most_queries(bytes) >= queries, "{bytes} bytes of {queries} queries");
                assert!(limits.most_queries(bytes - 33) < queries, "{bytes} bytes of {queries} queries");
            }
            assert_eq!((limits.most_queries(0), limits.most_queries(u64::MAX)), (0, 5));
        }
        assert_eq!(request(5, &[0; 5]).encode().len() as u64, KEYS.request_bytes());
        assert_eq!(request(0, &[0; 5]).encode().len() as u64, NO_KEYS.request_bytes());
    }

    #[test]
    fn what_contradicts_the_parameters_is_refused() {
        let wrong = [
            (ShareLimits { max_batch: 50, ..NO_KEYS }, request(1, &[0]), "1 keys of 1 queries"),
            (KEYS, request(0, &[0]), "0 keys"),
            (KEYS, request(2, &[0]), "2 keys of 1"),
            (KEYS, request(1, &[1]), "number 1 of 1"),
            (NO_KEYS, request(0, &[]), "not 0"),
            (KEYS, ShareRequest { keys: vec![KeysHash::new([1; 32]); 2], ..request(2, &[0, 1]) }, "twice"),
        ];
        for (limits, request, message) in wrong {
            let error = ShareRequest::decode(&request.encode(), &limits).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
        let error = ShareRequest::decode(&request(0, &[0; 6]).encode(), &NO_KEYS).unwrap_err();
        assert!(matches!(error, WireError::TooLarge { .. }), "{error}");
        let mut other = request(0, &[0]).encode().to_vec();
        other[7] = b'2';
        let error = ShareRequest::decode(&other.into(), &NO_KEYS).unwrap_err();
        assert!(error.to_string().contains("format"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_an_error(bytes: Vec<u8>, keys in 0u8..9, queries in 0u8..9) {
            let mut body = MAGIC.to_vec();
            body.extend([1; 32]);
            body.extend([keys, 0, 0, 0, queries, 0, 0, 0]);
            body.extend(bytes);
            for limits in [KEYS, NO_KEYS] {
                if let Ok(request) = ShareRequest::decode(&body.clone().into(), &limits) {
                    prop_assert_eq!(&request.encode()[..], &body[..]);
                }
            }
        }
    }
}

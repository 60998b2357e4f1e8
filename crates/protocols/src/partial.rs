//! The partial answer of a database's share, for the server that combines the partials of all
//! shares.

use spirea_backend::Share;

use crate::ProtocolError;
use crate::bytes::take;
use crate::query::Query;

/// A share's partial result for a batch of queries, as bytes that machines exchange:
///
/// | bytes | what |
/// |---|---|
/// | 4 | index of the share, from 0 on, little-endian |
/// | 4 | number of shares, little-endian |
/// | 32 | BLAKE3 of the batch: for each query its length in 8 bytes, little-endian, and its bytes |
/// | all others | the rows' result for each query in order; the parameters give its length |
///
/// A partial reveals no more about the queries than they do themselves, so servers may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    share: Share,
    bytes: Vec<u8>,
}

/// Identifies a batch of queries: BLAKE3 of their bytes, as in a [`Partial`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchDigest([u8; DIGEST_BYTES]);

impl BatchDigest {
    /// Computes the digest of some queries, in order.
    pub fn of(queries: &[Query<'_>]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for query in queries {
            hasher.update(&(query.bytes.len() as u64).to_le_bytes()).update(query.bytes);
        }
        Self(hasher.finalize().into())
    }
}

const DIGEST_BYTES: usize = 32;

impl Partial {
    /// Bytes before the rows' results.
    pub const HEADER_BYTES: usize = 8 + DIGEST_BYTES;

    /// Creates the partial of `share` from the rows' results.
    pub(crate) fn new(share: Share, queries: &[Query<'_>], content: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(Self::HEADER_BYTES + content.len());
        for number in [share.index(), share.count()] {
            bytes.extend((number as u32).to_le_bytes());
        }
        bytes.extend(BatchDigest::of(queries).0);
        bytes.extend(content);
        Self { share, bytes }
    }

    /// Parses a partial of another server. Its length is checked against the parameters when
    /// partials are combined: a network reader must stop at
    /// [`Responder::partial_bytes`](crate::Responder::partial_bytes).
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the header is missing or names no valid share.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ProtocolError> {
        if bytes.len() < Self::HEADER_BYTES {
            return Err(malformed(format!("{} bytes are no header", bytes.len())));
        }
        let mut rest = &bytes[..];
        let mut number =
            || take(&mut rest, 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let (index, count) = (number().unwrap_or(0), number().unwrap_or(0));
        let share =
            Share::new(index as usize, count as usize).map_err(|error| malformed(error.to_string()))?;
        Ok(Self { share, bytes })
    }

    /// Returns its bytes, for sending.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns its bytes, consuming it.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns its share.
    pub fn share(&self) -> Share {
        self.share
    }

    /// Returns true if it belongs to the batch with this digest.
    pub fn is_of(&self, batch: &BatchDigest) -> bool {
        self.digest() == batch.0
    }

    fn digest(&self) -> &[u8] {
        &self.bytes[8..Self::HEADER_BYTES]
    }

    fn content(&self) -> &[u8] {
        &self.bytes[Self::HEADER_BYTES..]
    }
}

/// Returns the contents of the shares' partials for a batch, in the order of the shares. `expected`
/// returns the bytes of a share.
///
/// # Errors
/// [`ProtocolError::Malformed`] unless there is one partial of each share, all for this batch and
/// of the expected length.
pub(crate) fn contents<'a>(
    queries: &[Query<'_>],
    partials: &'a [Partial],
    expected: impl Fn(Share) -> usize,
) -> Result<Vec<(Share, &'a [u8])>, ProtocolError> {
    let mut ordered: Vec<&Partial> = partials.iter().collect();
    ordered.sort_by_key(|partial| partial.share.index());
    let count = partials.len();
    if count == 0
        || ordered.iter().enumerate().any(|(index, partial)| partial.share.index() != index)
        || ordered.iter().any(|partial| partial.share.count() != count)
    {
        return Err(malformed(format!("{count} partials are not one of each share")));
    }
    let batch = BatchDigest::of(queries);
    for partial in &ordered {
        let (share, found) = (partial.share, partial.content().len());
        let wanted = expected(share);
        if found != wanted {
            let index = share.index();
            return Err(malformed(format!("that of share {index} has {found} bytes, not {wanted}")));
        }
        if !partial.is_of(&batch) {
            return Err(malformed(format!("that of share {} is of another batch", share.index())));
        }
    }
    Ok(ordered.into_iter().map(|partial| (partial.share, partial.content())).collect())
}

fn malformed(detail: String) -> ProtocolError {
    ProtocolError::malformed("partial", detail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(bytes: &[u8]) -> Query<'_> {
        Query { bytes, keys: None }
    }

    proptest! {
        #[test]
        fn partials_survive(index in 0usize..9, content: Vec<u8>) {
            let share = Share::new(index, 9).unwrap();
            let partial = Partial::new(share, &[query(&[1, 2])], &content);
            prop_assert_eq!(partial.as_bytes().len(), Partial::HEADER_BYTES + content.len());
            let read = Partial::from_bytes(partial.as_bytes().to_vec()).unwrap();
            prop_assert_eq!((read.share(), read.content()), (share, &content[..]));
            prop_assert_eq!(read, partial);
        }

        #[test]
        fn any_bytes_are_a_partial_or_an_error(bytes: Vec<u8>) {
            let queries = [query(&[1])];
            if let Ok(partial) = Partial::from_bytes(bytes) {
                prop_assert!(contents(&queries, &[partial], |_| 1).is_err());
            }
        }
    }

    #[test]
    fn only_one_partial_of_each_share_of_one_batch_is_taken() {
        let [one, other] = [[query(&[1, 2]), query(&[3])], [query(&[1]), query(&[2, 3])]];
        let of = |queries: &[Query<'_>], index, count, length| {
            Partial::new(Share::new(index, count).unwrap(), queries, &vec![index as u8; length])
        };
        let bytes = |share: Share| share.index() + 1;
        let [first, second] = [of(&one, 0, 2, 1), of(&one, 1, 2, 2)];
        let shares: Vec<_> = first.share().all().collect();
        for partials in [[first.clone(), second.clone()], [second.clone(), first.clone()]] {
            let found = contents(&one, &partials, bytes).unwrap();
            assert_eq!(found, [(shares[0], &[0][..]), (shares[1], &[1, 1][..])]);
        }
        let wrong = [
            vec![],
            vec![first.clone()],
            vec![first.clone(), first.clone()],
            vec![first.clone(), of(&one, 1, 3, 2)],
            vec![first.clone(), of(&one, 1, 2, 1)],
            vec![first.clone(), of(&one, 1, 2, 3)],
            vec![first.clone(), of(&other, 1, 2, 2)],
            vec![first, second, of(&one, 2, 3, 3)],
        ];
        for partials in wrong {
            let error = contents(&one, &partials, bytes).unwrap_err();
            assert!(matches!(error, ProtocolError::Malformed { what: "partial", .. }), "{partials:?}");
        }
    }
}

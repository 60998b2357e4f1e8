//! What a share of a database answers, on its way to the server that makes an answer of all shares' parts.

use spirea_backend::Share;

use crate::ProtocolError;
use crate::bytes::take;
use crate::query::Query;

/// What the rows of one share make of a batch of queries, as bytes that machines exchange:
///
/// | bytes | what |
/// |---|---|
/// | 4 | number of the share, from 0 on, little-endian |
/// | 4 | how many shares there are, little-endian |
/// | 32 | BLAKE3 of the batch: of each query its length in 8 bytes, little-endian, and its bytes |
/// | all others | query by query what the rows make of it, as long as the parameters say |
///
/// It says nothing of the queries that they do not say themselves: servers may see it, as they see queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    share: Share,
    bytes: Vec<u8>,
}

/// What tells batches of queries apart: BLAKE3 of their bytes, as a [`Partial`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchDigest([u8; DIGEST_BYTES]);

impl BatchDigest {
    /// That of some queries, in order.
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
    /// Bytes before what the rows make of the queries.
    pub const HEADER_BYTES: usize = 8 + DIGEST_BYTES;

    /// What the rows of `share` make of a batch.
    pub(crate) fn new(share: Share, queries: &[Query<'_>], content: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(Self::HEADER_BYTES + content.len());
        for number in [share.index(), share.count()] {
            bytes.extend((number as u32).to_le_bytes());
        }
        bytes.extend(BatchDigest::of(queries).0);
        bytes.extend(content);
        Self { share, bytes }
    }

    /// Takes what another server has sent. Its length is checked by the parameters when it is combined: whoever reads it
    /// from a network stops at [`Responder::partial_bytes`](crate::Responder::partial_bytes).
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if it has no header or names a share that there is not.
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

    /// Its bytes, to be sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its bytes, given away.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whose it is.
    pub fn share(&self) -> Share {
        self.share
    }

    /// Whether it is of a batch with this digest.
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

/// What the shares make of a batch, in the order of the shares. `expected` tells the bytes of a share.
///
/// # Errors
/// [`ProtocolError::Malformed`] unless there is one of each share, all of this batch and as long as expected.
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

//! Any bytes decode to a message of Apple's clients, or give an error. The contents of a message
//! decode to queries and evaluation keys, or give an error. Any bytes also decode to a private
//! token or a request in binary form, or give an error.
#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use spirea_apple::keyword::Bucket;
use spirea_apple::messages::{ConfigRequest, EncryptedIndices, EvaluationKeys, Inbound, Requests};
use spirea_apple::ohttp::{BinaryRequest, MAX_FIELD_BYTES, MAX_FIELDS};
use spirea_apple::privacy_pass::{Token, TokenKey};
use spirea_apple::{Compression, EvaluationKey, KeyConfig, Query, Set, Shape};

/// A shard whose queries have one ciphertext, and whose keys have one Galois element.
static SHAPE: LazyLock<Shape> = LazyLock::new(|| Shape::new(Set::Logt5, 1, 2, 2048).unwrap());
static KEYS: LazyLock<KeyConfig> = LazyLock::new(|| KeyConfig::new(Set::Logt5, [&*SHAPE], Compression::Max));

/// Decodes a message, and checks that encoding and decoding it again gives the same message.
fn read_back<M: Inbound + Clone + PartialEq + std::fmt::Debug>(bytes: &Bytes) -> Option<M> {
    let message = M::from_bytes(bytes.clone()).ok()?;
    assert_eq!(M::from_bytes(message.encode_to_vec().into()), Ok(message.clone()));
    Some(message)
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(bucket) = Bucket::from_bytes(bytes) {
        assert!(bucket.to_bytes().iter().eq(&bytes[..bucket.serialized_bytes()]));
    }
    let _ = (Token::from_authorization(bytes), TokenKey::from_spki(bytes));
    if let Ok(token) = Token::from_bytes(bytes) {
        assert_eq!(token.as_bytes(), bytes);
    }
    if let Ok(request) = BinaryRequest::from_bytes(bytes.into()) {
        let fields = request.fields.iter().map(|(name, value)| name.len() + value.len());
        assert!(request.fields.len() <= MAX_FIELDS && fields.sum::<usize>() <= MAX_FIELD_BYTES);
        assert!(request.content.len() < bytes.len());
    }
    let bytes = Bytes::copy_from_slice(bytes);
    read_back::<ConfigRequest>(&bytes);
    let query = |indices: &EncryptedIndices| {
        let _ = Query::parse(&SHAPE, indices);
    };
    if let Some(indices) = read_back::<EncryptedIndices>(&bytes) {
        query(&indices);
    }
    for request in read_back::<Requests>(&bytes).into_iter().flat_map(|requests| requests.requests) {
        request.pir_request.and_then(|request| request.query).iter().for_each(query);
    }
    for upload in read_back::<EvaluationKeys>(&bytes).into_iter().flat_map(|upload| upload.keys) {
        if let Some(key) = upload.evaluation_key {
            let _ = EvaluationKey::parse(&KEYS, &key);
        }
    }
});

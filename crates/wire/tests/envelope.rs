//! Byte-exact vectors of every message, and what becomes of damaged ones.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use spirea_wire::{
    Code, Config, DatabaseState, KeysRequest, KeysResponse, Limits, Listing, MAX_KEYS_RESPONSE_BYTES,
    Refusal, Request, Response, Summary, WireError,
};

const LIMITS: Limits = Limits { query_bytes: 3, answer_bytes: 2, max_batch: 2, keys_bytes: 5 };

fn request() -> Request {
    Request {
        version: [7; 32],
        keys: Some([8; 32]),
        queries: vec![Bytes::from_static(&[1, 2, 3]), Bytes::from_static(&[4, 5, 6])],
    }
}

fn response() -> Response {
    Response {
        version: [7; 32],
        answers: vec![Bytes::from_static(&[8, 9]), Bytes::from_static(&[10, 11])],
        compute: Duration::from_micros(300),
    }
}

fn upload() -> KeysRequest {
    KeysRequest { keys: Bytes::from_static(&[1, 2, 3, 4, 5]) }
}

fn receipt() -> KeysResponse {
    KeysResponse { blake3: [8; 32] }
}

fn config() -> Config {
    Config {
        name: "urls".into(),
        version: [7; 32],
        protocol_params: Bytes::from_static(b"{}"),
        table: Bytes::from_static(b"[]"),
        hint_bytes: 128,
        hint_blake3: [9; 32],
        limits: LIMITS,
        party: Some(1),
    }
}

fn refusal() -> Refusal {
    Refusal {
        code: Code::StaleVersion,
        message: "old".into(),
        remedy: "fetch".into(),
        accepted: true,
        current_version: Some([6; 32]),
    }
}

fn listing() -> Listing {
    let database = Summary { name: "urls".into(), state: DatabaseState::Ready, version: [7; 32] };
    Listing { databases: vec![database] }
}

/// Every message with its bytes, spelled out field by field.
fn vectors() -> [(&'static str, Vec<u8>, Vec<u8>); 7] {
    let field = |start: &[u8], byte: u8| [start, &[byte; 32][..]].concat();
    let version = field(&[0x12, 32], 7);
    [
        (
            "request",
            request().encode(),
            [&[0x08, 1][..], &version, &[0x1a, 3, 1, 2, 3], &[0x1a, 3, 4, 5, 6], &field(&[0x22, 32], 8)]
                .concat(),
        ),
        (
            "response",
            response().encode(),
            [&[0x08, 1][..], &version, &[0x1a, 2, 8, 9], &[0x1a, 2, 10, 11], &[0x20, 0xac, 0x02]].concat(),
        ),
        (
            "configuration",
            config().encode(),
            [
                &[0x08, 1][..],
                b"\x12\x04urls",
                &field(&[0x1a, 32], 7),
                b"\x22\x02{}",
                b"\x2a\x02[]",
                &field(&[0x32, 37, 0x08, 0x80, 0x01, 0x12, 32], 9),
                &[0x38, 3, 0x40, 2, 0x48, 2, 0x50, 5, 0x58, 2],
            ]
            .concat(),
        ),
        (
            "error",
            refusal().encode(),
            [&[0x08, 1, 0x10, 7][..], b"\x1a\x03old", b"\x22\x05fetch", &[0x28, 1], &field(&[0x32, 32], 6)]
                .concat(),
        ),
        (
            "list",
            listing().encode(),
            [&[0x08, 1][..], &[0x12, 42], b"\x0a\x04urls", &[0x10, 2], &field(&[0x1a, 32], 7)].concat(),
        ),
        ("upload of keys", upload().encode(), [0x08, 1, 0x12, 5, 1, 2, 3, 4, 5].to_vec()),
        (
            "response to an upload of keys",
            receipt().encode(),
            [&[0x08, 1][..], &field(&[0x12, 32], 8)].concat(),
        ),
    ]
}

/// Decodes as every message; what comes out is within the limits.
fn decode_all(bytes: &Bytes) {
    if let Ok(request) = Request::decode(bytes.clone(), &LIMITS) {
        assert!((1..=LIMITS.max_batch).contains(&request.queries.len()));
        assert!(request.queries.iter().all(|query| query.len() == LIMITS.query_bytes));
        assert_eq!(Request::decode(request.encode().into(), &LIMITS), Ok(request));
    }
    if let Ok(response) = Response::decode(bytes.clone(), &LIMITS, 2) {
        assert_eq!(response.answers.len(), 2);
        assert!(response.answers.iter().all(|answer| answer.len() == LIMITS.answer_bytes));
        assert_eq!(Response::decode(response.encode().into(), &LIMITS, 2), Ok(response));
    }
    if let Ok(upload) = KeysRequest::decode(bytes.clone(), &LIMITS) {
        assert_eq!(upload.keys.len(), LIMITS.keys_bytes);
        assert_eq!(KeysRequest::decode(upload.encode().into(), &LIMITS), Ok(upload));
    }
    if let Ok(receipt) = KeysResponse::decode(bytes.clone()) {
        assert_eq!(KeysResponse::decode(receipt.encode().into()), Ok(receipt));
    }
    if let Ok(config) = Config::decode(bytes.clone()) {
        assert_eq!(Config::decode(config.encode().into()), Ok(config));
    }
    if let Ok(refusal) = Refusal::decode(bytes.clone()) {
        assert_eq!(Refusal::decode(refusal.encode().into()), Ok(refusal));
    }
    if let Ok(listing) = Listing::decode(bytes.clone()) {
        assert_eq!(Listing::decode(listing.encode().into()), Ok(listing));
    }
}

#[test]
fn messages_are_these_bytes() {
    for (name, encoded, expected) in vectors() {
        assert_eq!(encoded, expected, "{name}");
    }
    assert_eq!(Request::decode(request().encode().into(), &LIMITS), Ok(request()));
    assert_eq!(Response::decode(response().encode().into(), &LIMITS, 2), Ok(response()));
    assert_eq!(KeysRequest::decode(upload().encode().into(), &LIMITS), Ok(upload()));
    assert_eq!(KeysResponse::decode(receipt().encode().into()), Ok(receipt()));
    assert_eq!(Config::decode(config().encode().into()), Ok(config()));
    assert_eq!(Refusal::decode(refusal().encode().into()), Ok(refusal()));
    assert_eq!(Listing::decode(listing().encode().into()), Ok(listing()));
}

#[test]
fn a_configuration_names_one_of_two_parties_or_none() {
    for party in [None, Some(0), Some(1)] {
        let config = Config { party, ..config() };
        assert_eq!(Config::decode(config.encode().into()), Ok(config));
    }
    // Servers of protocols with one server have never sent the field.
    let named = config().encode();
    let (unnamed, field) = named.split_at(named.len() - 2);
    assert_eq!(field, [0x58, 2]);
    let config = Config { party: None, ..config() };
    assert_eq!((config.encode().as_slice(), Config::decode(unnamed.to_vec().into())), (unnamed, Ok(config)));
    let third = [unnamed, &[0x58, 3]].concat();
    assert!(matches!(Config::decode(third.into()), Err(WireError::Malformed { .. })));
}

#[test]
fn truncated_messages_are_errors_or_shorter_lists() {
    let whole = request().encode();
    for length in 0..whole.len() {
        let bytes = Bytes::copy_from_slice(&whole[..length]);
        // Cut between two queries or before the keys, it is a request with fewer: HTTP's own length tells.
        if let Ok(shorter) = Request::decode(bytes, &LIMITS) {
            assert!(request().queries.starts_with(&shorter.queries), "{length} bytes");
            assert_eq!(shorter.keys, None, "{length} bytes");
        }
    }
    let whole = upload().encode();
    for length in 0..whole.len() {
        assert!(
            KeysRequest::decode(Bytes::copy_from_slice(&whole[..length]), &LIMITS).is_err(),
            "{length} bytes"
        );
    }
    let whole = response().encode();
    for length in 0..whole.len() {
        // The time of computation is the one part that may be missing.
        match Response::decode(Bytes::copy_from_slice(&whole[..length]), &LIMITS, 2) {
            Err(_) => (),
            Ok(shorter) => assert_eq!(shorter.answers, response().answers, "{length} bytes"),
        }
    }
    for (_, whole, _) in vectors() {
        for length in 0..whole.len() {
            decode_all(&Bytes::copy_from_slice(&whole[..length]));
        }
    }
}

#[test]
fn flipped_bits_are_errors_or_messages_within_the_limits() {
    for (_, whole, _) in vectors() {
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                decode_all(&flipped.into());
            }
        }
    }
}

#[test]
fn other_formats_are_told_from_broken_messages() {
    for (name, whole, _) in vectors() {
        for (start, found) in [(&[0x08, 2][..], 2), (&[0x08, 0x80, 0x80, 4], 1 << 16)] {
            let bytes = Bytes::from([start, &whole[2..]].concat());
            let error = match name {
                "request" => Request::decode(bytes, &LIMITS).unwrap_err(),
                "response" => Response::decode(bytes, &LIMITS, 2).unwrap_err(),
                "configuration" => Config::decode(bytes).unwrap_err(),
                "error" => Refusal::decode(bytes).unwrap_err(),
                "upload of keys" => KeysRequest::decode(bytes, &LIMITS).unwrap_err(),
                "response to an upload of keys" => KeysResponse::decode(bytes).unwrap_err(),
                _ => Listing::decode(bytes).unwrap_err(),
            };
            assert_eq!(error, WireError::Format { found }, "{name}");
        }
    }
    let without = Bytes::from(request().encode()).slice(2..);
    assert_eq!(Request::decode(without, &LIMITS), Err(WireError::Format { found: 0 }));
    assert_eq!(Config::decode(Bytes::new()), Err(WireError::Format { found: 0 }));
}

#[test]
fn lengths_are_checked_before_anything_else() {
    // One byte over the limit, of bytes that are no message at all.
    let limit = LIMITS.request_bytes();
    let oversized = Bytes::from(vec![0xff; limit as usize + 1]);
    assert_eq!(Request::decode(oversized, &LIMITS), Err(WireError::TooLarge { bytes: limit + 1, limit }));
    // Within the limit of bytes, many empty queries: refused at the first, before a list of them is made.
    let many = Bytes::from([&[0x08, 1][..], &[0x1a, 0].repeat(400)].concat());
    let error = Request::decode(many, &LIMITS).unwrap_err().to_string();
    assert!(error.contains("0 bytes where the parameters say 3"), "{error}");
    let three = Request { queries: vec![Bytes::from_static(&[0; 3]); 3], ..request() };
    let error = Request::decode(three.encode().into(), &LIMITS).unwrap_err().to_string();
    assert!(error.contains("more than 2"), "{error}");
    let none = Request { queries: vec![], ..request() };
    assert!(Request::decode(none.encode().into(), &LIMITS).is_err());
    assert!(Response::decode(response().encode().into(), &LIMITS, 1).is_err());
    assert!(Response::decode(response().encode().into(), &LIMITS, 3).is_err());
    let limit = LIMITS.keys_request_bytes();
    let oversized = Bytes::from(vec![0xff; limit as usize + 1]);
    assert_eq!(KeysRequest::decode(oversized, &LIMITS), Err(WireError::TooLarge { bytes: limit + 1, limit }));
    let oversized = Bytes::from(vec![0xff; MAX_KEYS_RESPONSE_BYTES as usize + 1]);
    assert!(matches!(KeysResponse::decode(oversized), Err(WireError::TooLarge { .. })));
    // A length field of 2^63 bytes.
    let huge = Bytes::from([&[0x08, 1, 0x1a][..], &[0x80; 8], &[0x80, 0x01]].concat());
    assert!(Request::decode(huge, &LIMITS).is_err());
}

#[test]
fn limits_do_not_overflow_and_admit_the_largest_request() {
    let most = usize::MAX;
    let vast = Limits { query_bytes: most, answer_bytes: most, max_batch: most, keys_bytes: most };
    assert_eq!((vast.request_bytes(), vast.keys_request_bytes()), (u64::MAX, u64::MAX));
    for (query_bytes, max_batch) in [(0, 1), (127, 3), (128, 256), (1 << 20, 16)] {
        let limits = Limits { query_bytes, answer_bytes: 1, max_batch, keys_bytes: query_bytes };
        let bytes = Bytes::from(vec![5; query_bytes]);
        let request =
            Request { version: [1; 32], keys: Some([2; 32]), queries: vec![bytes.clone(); max_batch] };
        assert_eq!(Request::decode(request.encode().into(), &limits), Ok(request));
        let upload = KeysRequest { keys: bytes };
        assert_eq!(KeysRequest::decode(upload.encode().into(), &limits), Ok(upload));
    }
}

#[test]
fn later_fields_are_passed_over() {
    // Field 15: a number, a fixed one of each width, and bytes.
    let later: &[u8] = &[0x78, 5, 0x7d, 1, 2, 3, 4, 0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7a, 2, 0, 0];
    let bytes = Bytes::from([&request().encode()[..], later].concat());
    assert_eq!(Request::decode(bytes, &LIMITS), Ok(request()));
}

#[test]
fn keys_are_as_long_as_the_parameters_say_and_their_names_are_hashes() {
    let without = Request { keys: None, ..request() };
    assert_eq!(Request::decode(without.encode().into(), &LIMITS), Ok(without.clone()));
    for length in [1, 31, 33] {
        let named = [&without.encode()[..], &[0x22, length], &vec![0; length as usize]].concat();
        let error = Request::decode(named.into(), &LIMITS).unwrap_err().to_string();
        assert!(error.contains(&format!("keys has {length} bytes, not 32")), "{error}");
    }
    for length in [0, 4, 6] {
        let upload = KeysRequest { keys: vec![1; length].into() };
        let error = KeysRequest::decode(upload.encode().into(), &LIMITS).unwrap_err().to_string();
        assert!(error.contains(&format!("keys of {length} bytes where the parameters say 5")), "{error}");
    }
    let twice = [&upload().encode()[..], &upload().encode()[2..]].concat();
    assert!(KeysRequest::decode(twice.into(), &LIMITS).unwrap_err().to_string().contains("more than 1"));
    assert!(KeysResponse::decode(Bytes::from_static(&[0x08, 1])).is_err());
}

#[test]
fn debug_output_has_no_query_and_no_keys() {
    let secret = Bytes::from_static(b"secret");
    let request = Request { queries: vec![secret.clone()], ..request() };
    assert!(!format!("{request:?}").contains("secret"));
    assert!(!format!("{:?}", KeysRequest { keys: secret }).contains("secret"));
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
        decode_all(&bytes.into());
    }

    #[test]
    fn spliced_messages_are_messages_or_errors(
        first in 0usize..7, second in 0usize..7, cut in 0usize..200, resume in 0usize..200, noise: Vec<u8>,
    ) {
        let (head, tail) = (&vectors()[first].1, &vectors()[second].1);
        let spliced = [&head[..cut.min(head.len())], &noise, &tail[resume.min(tail.len())..]].concat();
        decode_all(&spliced.into());
    }
}

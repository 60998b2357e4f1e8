//! Byte-exact vectors of every message, and the treatment of damaged messages.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use spirea_protocols::FileHash;
use spirea_wire::{
    Code, Config, DatabaseState, KeysHash, KeysPiece, KeysRequest, KeysResponse, KeysUpload, Lengths, Limits,
    Listing, MAX_KEYS_RESPONSE_BYTES, Part, PartConfig, Queries, Refusal, Request, Response, Summary,
    Version, WireError,
};

const BASE: Lengths = Lengths { query_bytes: 3, answer_bytes: 2, keys_bytes: 5 };
/// Limits of a version without a delta.
const PLAIN: Limits = Limits { base: BASE, delta: None, max_batch: 2 };
const LIMITS: Limits =
    Limits { delta: Some(Lengths { query_bytes: 1, answer_bytes: 4, keys_bytes: 2 }), ..PLAIN };

fn queries() -> Queries {
    Queries {
        keys: Some(KeysHash::new([8; 32])),
        queries: vec![Bytes::from_static(&[1, 2, 3]), Bytes::from_static(&[4, 5, 6])],
    }
}

fn request() -> Request {
    let delta = Queries {
        keys: Some(KeysHash::new([9; 32])),
        queries: vec![Bytes::from_static(&[7]), Bytes::from_static(&[8])],
    };
    Request { version: Version::new([7; 32]), base: queries(), delta: Some(delta) }
}

/// Returns a request to a version without a delta.
fn plain() -> Request {
    Request { delta: None, ..request() }
}

fn response() -> Response {
    Response {
        version: Version::new([7; 32]),
        newest: Version::new([6; 32]),
        answers: vec![Bytes::from_static(&[8, 9]), Bytes::from_static(&[10, 11])],
        delta_answers: Some(vec![Bytes::from_static(&[1; 4]), Bytes::from_static(&[2; 4])]),
        compute: Duration::from_micros(300),
    }
}

fn upload() -> KeysRequest {
    KeysRequest { version: Version::new([7; 32]), part: Part::Delta, keys: Bytes::from_static(&[1, 2]) }
}

fn receipt() -> KeysResponse {
    KeysResponse { blake3: KeysHash::new([8; 32]) }
}

fn part(lengths: Lengths) -> PartConfig {
    PartConfig {
        protocol_params: Bytes::from_static(b"{}"),
        table: Bytes::from_static(b"[]"),
        hint_bytes: 128,
        hint_blake3: FileHash::new([9; 32]),
        lengths,
        manifest: Bytes::from_static(b"{ }"),
    }
}

fn config() -> Config {
    Config {
        name: "urls".into(),
        version: Version::new([7; 32]),
        base: part(BASE),
        delta: LIMITS.delta.map(part),
        max_batch: 2,
        party: Some(1),
        versions: vec![Version::new([7; 32]), Version::new([6; 32])],
        signature: Bytes::from_static(b"[]"),
        request_bytes: 300,
    }
}

fn piece() -> KeysPiece {
    KeysPiece {
        version: Version::new([7; 32]),
        part: Part::Base,
        whole: KeysHash::new([8; 32]),
        start: 3,
        bytes: Bytes::from_static(&[1, 2]),
    }
}

fn refusal() -> Refusal {
    Refusal {
        code: Code::StaleVersion,
        message: "old".into(),
        remedy: "fetch".into(),
        accepted: true,
        current_version: Some(Version::new([6; 32])),
    }
}

fn listing() -> Listing {
    let database =
        Summary { name: "urls".into(), state: DatabaseState::Ready, version: Version::new([7; 32]) };
    Listing { databases: vec![database] }
}

/// Returns every message with its bytes, spelled out field by field.
fn vectors() -> [(&'static str, Vec<u8>, Vec<u8>); 8] {
    let field = |start: &[u8], byte: u8| [start, &[byte; 32][..]].concat();
    let version = field(&[0x12, 32], 7);
    let part = [b"\x0a\x02{}\x12\x02[]", &field(&[0x1a, 37, 0x08, 0x80, 0x01, 0x12, 32], 9)[..]].concat();
    [
        (
            "request",
            request().encode(),
            [
                &[0x08, 1][..],
                &version,
                &[0x1a, 3, 1, 2, 3],
                &[0x1a, 3, 4, 5, 6],
                &field(&[0x22, 32], 8),
                &[0x2a, 1, 7, 0x2a, 1, 8],
                &field(&[0x32, 32], 9),
            ]
            .concat(),
        ),
        (
            "response",
            response().encode(),
            [
                &[0x08, 1][..],
                &version,
                &[0x1a, 2, 8, 9],
                &[0x1a, 2, 10, 11],
                &[0x2a, 4, 1, 1, 1, 1],
                &[0x2a, 4, 2, 2, 2, 2],
                &field(&[0x32, 32], 6),
                &[0x39, 0x2c, 1, 0, 0, 0, 0, 0, 0],
            ]
            .concat(),
        ),
        (
            "configuration",
            config().encode(),
            [
                &[0x08, 1][..],
                b"\x12\x04urls",
                &field(&[0x1a, 32], 7),
                &[0x22, 58],
                &part,
                &[0x20, 3, 0x28, 2, 0x30, 5],
                b"\x3a\x03{ }",
                &[0x2a, 58],
                &part,
                &[0x20, 1, 0x28, 4, 0x30, 2],
                b"\x3a\x03{ }",
                &[0x30, 2, 0x38, 2],
                &field(&[0x42, 32], 7),
                &field(&[0x42, 32], 6),
                b"\x4a\x02[]",
                &[0x50, 0xac, 2],
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
        ("upload of keys", upload().encode(), [&[0x08, 1][..], &version, &[0x1a, 2, 1, 2, 0x20, 1]].concat()),
        (
            "piece of keys",
            piece().encode(),
            [&[0x08, 1][..], &version, &[0x1a, 2, 1, 2, 0x28, 3], &field(&[0x32, 32], 8)].concat(),
        ),
        (
            "response to an upload of keys",
            receipt().encode(),
            [&[0x08, 1][..], &field(&[0x12, 32], 8)].concat(),
        ),
    ]
}

/// Decodes the bytes as every message; decoded messages must be within the limits.
fn decode_all(bytes: &Bytes) {
    for limits in [LIMITS, PLAIN] {
        if let Ok((request, keys)) = Request::decode_with_keys(bytes.clone(), &limits) {
            assert_eq!(Request::version(bytes), Ok(request.version));
            let sent = keys.iter().map(|(part, keys)| (*part, &keys[..]));
            let again = Request::with_keys(&request.encode(), sent).into();
            assert_eq!(Request::decode_with_keys(again, &limits), Ok((request.clone(), keys)));
            assert_eq!(request.delta.is_some(), limits.delta.is_some());
            for (lengths, asked) in limits.parts().zip([Some(&request.base), request.delta.as_ref()]) {
                let queries = &asked.unwrap().queries;
                assert_eq!(queries.len(), request.base.queries.len());
                assert!((1..=limits.max_batch).contains(&queries.len()));
                assert!(queries.iter().all(|query| query.len() == lengths.query_bytes));
            }
            assert_eq!(Request::decode(request.encode().into(), &limits), Ok(request));
        }
        if let Ok(response) = Response::decode(bytes.clone(), &limits, 2) {
            assert_eq!(response.delta_answers.is_some(), limits.delta.is_some());
            for (lengths, answers) in
                limits.parts().zip([Some(&response.answers), response.delta_answers.as_ref()])
            {
                assert_eq!(answers.unwrap().len(), 2);
                assert!(answers.unwrap().iter().all(|answer| answer.len() == lengths.answer_bytes));
            }
            assert_eq!(Response::decode(response.encode().into(), &limits, 2), Ok(response));
        }
        if let Ok(upload) = KeysUpload::decode(bytes.clone(), &limits) {
            let (version, encoded) = match &upload {
                KeysUpload::Whole(whole) => (whole.version, whole.encode()),
                KeysUpload::Piece(piece) => {
                    let most = limits.parts().map(|lengths| lengths.keys_bytes).max().unwrap();
                    assert!(!piece.bytes.is_empty() && piece.start + piece.bytes.len() <= most);
                    (piece.version, piece.encode())
                }
            };
            assert_eq!(KeysRequest::version(bytes), Ok(version));
            assert_eq!(KeysUpload::decode(encoded.into(), &limits), Ok(upload));
        }
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
fn a_response_is_as_long_however_long_it_took() {
    let took = |compute| Response { compute, ..response() }.encode().len();
    let lengths = [0, 1, 127, 128, 1 << 40, u64::MAX].map(|micros| took(Duration::from_micros(micros)));
    assert!(lengths.iter().all(|&length| length == lengths[0]), "{lengths:?}");
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
    let third = [&config().encode()[..], &[0x38, 3]].concat();
    assert!(matches!(Config::decode(third.into()), Err(WireError::Malformed { .. })));
}

#[test]
fn truncated_messages_are_errors_or_shorter_lists() {
    let whole = request().encode();
    for length in 0..whole.len() {
        let bytes = Bytes::copy_from_slice(&whole[..length]);
        // Cut between two queries or before the keys, the bytes are a valid request with fewer
        // queries; HTTP's length detects this.
        if let Ok(shorter) = Request::decode(bytes, &LIMITS) {
            let (base, delta) = (request().base, request().delta.unwrap());
            let shorter_delta = shorter.delta.unwrap();
            assert!(base.queries.starts_with(&shorter.base.queries), "{length} bytes");
            assert!(delta.queries.starts_with(&shorter_delta.queries), "{length} bytes");
            assert!(shorter_delta.keys.is_none(), "{length} bytes");
        }
    }
    // All fields but the last are required.
    let whole = upload().encode();
    for length in 0..whole.len() - 2 {
        assert!(
            KeysRequest::decode(Bytes::copy_from_slice(&whole[..length]), &LIMITS).is_err(),
            "{length} bytes"
        );
    }
    // All fields but the time are required.
    let whole = response().encode();
    for length in 0..whole.len() - 9 {
        assert!(
            Response::decode(Bytes::copy_from_slice(&whole[..length]), &LIMITS, 2).is_err(),
            "{length} bytes"
        );
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
    // This body exceeds the limit by one byte, and is not a message.
    let limit = LIMITS.request_bytes();
    let oversized = Bytes::from(vec![0xff; limit as usize + 1]);
    assert_eq!(Request::decode(oversized, &LIMITS), Err(WireError::TooLarge { bytes: limit + 1, limit }));
    // This body is within the limit but has many empty queries. It is refused at the first query,
    // before a list of queries is built.
    let many = Bytes::from([&[0x08, 1][..], &[0x1a, 0].repeat(400)].concat());
    let error = Request::decode(many, &LIMITS).unwrap_err().to_string();
    assert!(error.contains("0 bytes where the parameters say 3"), "{error}");
    let three = Queries { queries: vec![Bytes::from_static(&[0; 3]); 3], ..queries() };
    let three = Request { base: three, ..request() };
    let error = Request::decode(three.encode().into(), &LIMITS).unwrap_err().to_string();
    assert!(error.contains("more than 2"), "{error}");
    let none = Request { base: Queries { queries: vec![], ..queries() }, ..request() };
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
    let lengths = Lengths { query_bytes: most, answer_bytes: most, keys_bytes: most };
    let vast = Limits { base: lengths, delta: Some(lengths), max_batch: most };
    assert_eq!((vast.request_bytes(), vast.keys_request_bytes()), (u64::MAX, u64::MAX));
    for (query_bytes, max_batch) in [(0, 1), (127, 3), (128, 256), (1 << 20, 16)] {
        let lengths = Lengths { query_bytes, answer_bytes: 1, keys_bytes: query_bytes };
        let limits = Limits { base: lengths, delta: Some(lengths), max_batch };
        let bytes = Bytes::from(vec![5; query_bytes]);
        let most = Queries { keys: Some(KeysHash::new([2; 32])), queries: vec![bytes.clone(); max_batch] };
        let request = Request { version: Version::new([1; 32]), base: most.clone(), delta: Some(most) };
        let keys = [Part::Base, Part::Delta].map(|part| (part, &bytes[..]));
        let largest = Request::with_keys(&request.encode(), keys.into_iter());
        assert_eq!(Request::decode(largest.into(), &limits), Ok(request));
        let upload = KeysRequest { version: Version::new([1; 32]), part: Part::Base, keys: bytes };
        assert_eq!(KeysRequest::decode(upload.encode().into(), &limits), Ok(upload));
    }
}

#[test]
fn a_request_asks_the_parts_that_the_version_has_and_all_as_often() {
    assert_eq!(Request::decode(plain().encode().into(), &PLAIN), Ok(plain()));
    let error = Request::decode(plain().encode().into(), &LIMITS).unwrap_err().to_string();
    assert!(error.contains("0 queries to the delta and 2 to the base"), "{error}");
    assert!(Request::decode(request().encode().into(), &PLAIN).is_err());
    let one = Queries { queries: vec![Bytes::from_static(&[7])], ..queries() };
    let uneven = Request { delta: Some(one), ..request() };
    let error = Request::decode(uneven.encode().into(), &LIMITS).unwrap_err().to_string();
    assert!(error.contains("1 queries to the delta and 2 to the base"), "{error}");
    let without = Response { delta_answers: None, ..response() };
    assert_eq!(Response::decode(without.encode().into(), &PLAIN, 2), Ok(without.clone()));
    assert!(Response::decode(without.encode().into(), &LIMITS, 2).is_err());
    assert!(Response::decode(response().encode().into(), &PLAIN, 2).is_err());
    let error = KeysRequest::decode(upload().encode().into(), &PLAIN).unwrap_err().to_string();
    assert!(error.contains("for the delta of a version that has none"), "{error}");
}

#[test]
fn requests_name_their_version_before_they_are_decoded() {
    assert_eq!(Request::version(&request().encode()), Ok(Version::new([7; 32])));
    assert_eq!(KeysRequest::version(&upload().encode()), Ok(Version::new([7; 32])));
    let named = [&request().encode()[..], &[0x12, 1, 0]].concat();
    assert!(matches!(Request::version(&named), Err(WireError::Malformed { .. })));
    assert!(matches!(Request::version(&[0x08, 1]), Err(WireError::Malformed { .. })));
    assert_eq!(Request::version(&[0x08, 2]), Err(WireError::Format { found: 2 }));
}

#[test]
fn later_fields_are_passed_over() {
    // Field 15 as a number, as fixed numbers of both widths, and as bytes.
    let later: &[u8] = &[0x78, 5, 0x7d, 1, 2, 3, 4, 0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7a, 2, 0, 0];
    let bytes = Bytes::from([&request().encode()[..], later].concat());
    assert_eq!(Request::decode(bytes, &LIMITS), Ok(request()));
}

#[test]
fn keys_are_as_long_as_the_parameters_say_and_their_names_are_hashes() {
    let without = Request { base: Queries { keys: None, ..queries() }, ..plain() };
    assert_eq!(Request::decode(without.encode().into(), &PLAIN), Ok(without.clone()));
    for length in [1, 31, 33] {
        let named = [&without.encode()[..], &[0x22, length], &vec![0; length as usize]].concat();
        let error = Request::decode(named.into(), &PLAIN).unwrap_err().to_string();
        assert!(error.contains(&format!("keys has {length} bytes, not 32")), "{error}");
    }
    for (part, lengths, right) in [(Part::Base, [0, 4, 6], 5), (Part::Delta, [0, 1, 5], 2)] {
        for length in lengths {
            let upload = KeysRequest { part, keys: vec![1; length].into(), ..upload() };
            let error = KeysRequest::decode(upload.encode().into(), &LIMITS).unwrap_err().to_string();
            assert!(
                error.contains(&format!("keys of {length} bytes where the parameters say {right}")),
                "{error}"
            );
        }
    }
    let twice = [&upload().encode()[..], &[0x1a, 2, 1, 2]].concat();
    assert!(KeysRequest::decode(twice.into(), &LIMITS).unwrap_err().to_string().contains("more than 1"));
    assert!(KeysResponse::decode(Bytes::from_static(&[0x08, 1])).is_err());
}

#[test]
fn a_piece_lies_within_the_keys() {
    let decode = |piece: KeysPiece| KeysUpload::decode(piece.encode().into(), &LIMITS);
    assert_eq!(decode(piece()), Ok(KeysUpload::Piece(piece())));
    assert!(piece().encode().len() <= piece().bytes.len() + KeysPiece::ENVELOPE_BYTES);
    for (start, length) in [(0, 0), (5, 0), (0, 6), (4, 2), (5, 1), (usize::MAX, 2)] {
        let outside = KeysPiece { start, bytes: vec![1; length].into(), ..piece() };
        let error = decode(outside).unwrap_err().to_string();
        assert!(error.contains("outside the keys"), "{error}");
    }
    let of_delta = KeysPiece { part: Part::Delta, start: 1, ..piece() };
    assert!(decode(of_delta).is_err(), "the delta's keys have two bytes");
    let error = KeysRequest::decode(piece().encode().into(), &LIMITS).unwrap_err().to_string();
    assert!(error.contains("a piece of keys"), "{error}");
}

#[test]
fn keys_travel_behind_the_same_request() {
    let (alone, both) = (request().encode(), [(Part::Base, &[1; 5][..]), (Part::Delta, &[2; 2][..])]);
    let joined = Request::with_keys(&alone, both.into_iter());
    assert!(joined.starts_with(&alone));
    assert_eq!(joined[alone.len()..], [0x3a, 5, 1, 1, 1, 1, 1, 0x42, 2, 2, 2]);
    let sent = both.map(|(part, keys)| (part, Bytes::copy_from_slice(keys)));
    let decoded = Request::decode_with_keys(joined.clone().into(), &LIMITS);
    assert_eq!(decoded, Ok((request(), sent.to_vec())));
    assert_eq!(Request::decode(joined.into(), &LIMITS), Ok(request()));
    assert_eq!(Request::decode_with_keys(alone.clone().into(), &LIMITS), Ok((request(), Vec::new())));

    let refused = |request: &[u8], limits, keys: &[(Part, &[u8])], said: &str| {
        let body = Request::with_keys(request, keys.iter().copied());
        let error = Request::decode_with_keys(body.into(), limits).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    };
    for length in [4, 6, 500] {
        let keys = vec![1; length];
        refused(&alone, &LIMITS, &[(Part::Base, &keys)], "keys of");
    }
    refused(&alone, &LIMITS, &[(Part::Delta, &[1; 5])], "where the parameters say 2");
    let plain = plain().encode();
    refused(&plain, &PLAIN, &[(Part::Delta, &[1; 2])], "where the parameters say 0");
    let twice = Request::with_keys(&alone, [both[0]].into_iter());
    refused(&twice, &LIMITS, &[both[0]], "more than 1");
    let unnamed = Request { base: Queries { keys: None, ..queries() }, ..request() };
    refused(&unnamed.encode(), &LIMITS, &[both[0]], "does not name");
    let needs_none = Limits { base: Lengths { keys_bytes: 0, ..BASE }, ..PLAIN };
    refused(&plain, &needs_none, &[both[0]], "where the parameters say 0");
    assert_eq!(needs_none.request_bytes() + 5 + 11, PLAIN.request_bytes());
}

#[test]
fn debug_output_has_no_query_and_no_keys() {
    let secret = Bytes::from_static(b"secret");
    let asked = Queries { queries: vec![secret.clone()], ..queries() };
    let request = Request { base: asked.clone(), delta: Some(asked), ..request() };
    let upload = KeysRequest { keys: secret, ..upload() };
    for shown in [format!("{request:?}"), format!("{upload:?}")] {
        // The secret must appear neither as text nor as a list of bytes.
        assert!(!shown.contains("secret") && !shown.contains("115, 101"), "{shown}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
        decode_all(&bytes.into());
    }

    #[test]
    fn spliced_messages_are_messages_or_errors(
        first in 0usize..8, second in 0usize..8, cut in 0usize..200, resume in 0usize..200, noise: Vec<u8>,
    ) {
        let (head, tail) = (&vectors()[first].1, &vectors()[second].1);
        let spliced = [&head[..cut.min(head.len())], &noise, &tail[resume.min(tail.len())..]].concat();
        decode_all(&spliced.into());
    }
}

//! The example of RFC 9458 (appendix A), messages that the library `bhttp` writes, and any bytes.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bhttp::{ControlData, Message, Mode, StatusCode};
use chacha20::ChaCha20Rng;
use hpke::aead::AesGcm128;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem, OpModeS, Serializable as _, setup_sender_with_rng};
use proptest::prelude::*;
use rand_core::{CryptoRng, SeedableRng as _};

use super::{
    BinaryRequest, BinaryResponse, Gateway, GatewayKey, GatewayKeyError, MAX_FIELD_BYTES, MAX_FIELDS,
    MessageError, OpenError,
};

/// Returns a value of the example of RFC 9458 (appendix A).
fn vector(name: &str) -> Vec<u8> {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../../conformance/vectors/ohttp.json")).unwrap();
    let hex = vectors[name].as_str().unwrap();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

/// Returns the key of the example, with the id that the example gives it.
fn key() -> GatewayKey {
    let mut key = GatewayKey::new(&vector("skR").try_into().unwrap()).unwrap();
    key.id = vector("key_id")[0];
    key
}

fn gateway() -> Gateway {
    Gateway::new(vec![GatewayKey::new(&[7; 32]).unwrap(), key()]).unwrap()
}

#[test]
fn the_example_of_the_rfc_is_opened_and_answered() {
    // The example's gateway has AES-128-GCM and ChaCha20-Poly1305; this one has the former alone.
    let config = vector("key_config");
    assert_eq!(key().config(), [&config[..35], &[0, 4], &config[37..41]].concat());
    let (message, sealer) = gateway().open(vector("encapsulated_request")).unwrap();
    assert_eq!(message, vector("request"));
    let request = BinaryRequest::from_bytes(message).unwrap();
    assert_eq!((&request.method[..], &request.scheme[..]), (&b"GET"[..], &b"https"[..]));
    assert_eq!((&request.authority[..], &request.path[..]), (&b"example.com"[..], &b"/"[..]));
    assert!(request.fields.is_empty() && request.content.is_empty());
    let sealed = sealer.seal_in_place([vector("response_nonce"), vector("response")].concat());
    assert_eq!(sealed.unwrap(), vector("encapsulated_response"));
    // The example leaves out empty sections at the end, which the writer does not.
    let mut written = Vec::new();
    BinaryResponse { status: 200, fields: Vec::new(), content: b"" }.encode(&mut written);
    assert_eq!(written, [&vector("response")[..], &[0, 0]].concat());
}

#[test]
fn a_changed_or_a_cut_request_is_refused() {
    let (gateway, good) = (gateway(), vector("encapsulated_request"));
    for bit in 0..8 * good.len() {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        // The highest bit of an X25519 key means nothing, but the HPKE context covers it.
        let refused = gateway.open(bad.clone()).unwrap_err();
        match bit / 8 {
            0 if bad[0] == gateway.keys()[0].id => assert_eq!(refused, OpenError::Decryption),
            0 => assert_eq!(refused, OpenError::Key(bad[0])),
            1..7 => assert_eq!(refused, OpenError::Algorithms),
            _ => assert_eq!(refused, OpenError::Decryption),
        }
    }
    for length in 0..good.len() {
        let cut = gateway.open(good[..length].to_vec()).unwrap_err();
        assert_eq!(cut, if length < 55 { OpenError::Truncated } else { OpenError::Decryption });
    }
    // A public key of low order has a shared secret that everyone knows.
    let low = [&good[..7], &[0; 32], &good[39..]].concat();
    assert_eq!(gateway.open(low).unwrap_err(), OpenError::Decryption);
}

#[test]
fn keys_keep_their_id_in_pem_and_der_and_ids_are_unique() {
    let key = GatewayKey::generate().unwrap();
    let pem = key.to_pem();
    let lines: Vec<_> = pem.lines().collect();
    assert_eq!(
        (lines.len(), lines[0], lines[2]),
        (3, "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----")
    );
    let der = STANDARD.decode(lines[1]).unwrap();
    let again = GatewayKey::from_pkcs8(&der).unwrap();
    assert_eq!((again.id(), again.config()), (key.id(), key.config()));
    for bad in [&der[..47], &der[1..], &[&der[..], &[0]].concat(), b""] {
        assert_eq!(GatewayKey::from_pkcs8(bad).unwrap_err(), GatewayKeyError::Malformed);
    }
    assert_eq!(Gateway::new(Vec::new()).unwrap_err(), GatewayKeyError::None);
    assert_eq!(Gateway::new(vec![again, key]).unwrap_err(), GatewayKeyError::SameId(der_id(&der)));
    let text = format!("{:?}", self::key());
    assert_eq!(text, "GatewayKey(1)");
}

fn der_id(der: &[u8]) -> u8 {
    GatewayKey::from_pkcs8(der).unwrap().id()
}

#[test]
fn key_configurations_are_listed_with_their_length() {
    let gateway = gateway();
    let list = gateway.key_configs();
    assert_eq!(list.len(), 2 * (2 + 41));
    for (listed, key) in list.chunks(43).zip(gateway.keys()) {
        assert_eq!(listed, [&[0, 41][..], &key.config()].concat());
    }
}

/// Encapsulates a message under the example's key as a client does.
fn encapsulate(message: &[u8], rng: &mut impl CryptoRng) -> Vec<u8> {
    let header = vector("encapsulated_request")[..7].to_vec();
    let info = [b"message/bhttp request\0", &header[..]].concat();
    let public = <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(&vector("pkR")).unwrap();
    let (encapsulated, mut context) =
        setup_sender_with_rng::<AesGcm128, HkdfSha256, X25519HkdfSha256>(&OpModeS::Base, &public, &info, rng)
            .unwrap();
    let mut ciphertext = message.to_vec();
    let tag = context.seal_inout_detached(hpke::inout::InOutBuf::from(&mut ciphertext[..]), b"").unwrap();
    [&header[..], &encapsulated.to_bytes(), &ciphertext, &tag.to_bytes()].concat()
}

/// Requests as the library `bhttp` writes them.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let text = |bytes: usize| proptest::collection::vec(any::<u8>(), 0..bytes);
    let named = "[a-z][a-z-]{0,20}".prop_filter("the library joins cookies", |name| name != "cookie");
    let field = (named, text(80));
    let fields = move || proptest::collection::vec(field.clone(), 0..8);
    let parts = (text(20), text(20), text(80), text(80));
    let mode = prop_oneof![Just(Mode::KnownLength), Just(Mode::IndeterminateLength)];
    (parts, fields(), text(5000), fields(), mode).prop_map(
        |((method, scheme, authority, path), fields, content, trailers, mode)| {
            let mut message = Message::request(method, scheme, authority, path);
            fields.into_iter().for_each(|(name, value)| message.put_header(name, value));
            message.write_content(content);
            trailers.into_iter().for_each(|(name, value)| message.put_trailer(name, value));
            let mut bytes = Vec::new();
            message.write_bhttp(mode, &mut bytes).unwrap();
            bytes
        },
    )
}

fn by_the_library(bytes: &[u8]) -> Option<Message> {
    Message::read_bhttp(&mut Cursor::new(bytes)).ok()
}

/// Checks that a request equals the one that the library read.
fn same(request: &BinaryRequest, message: &Message) {
    let ControlData::Request { method, scheme, authority, path } = message.control() else {
        panic!("a response")
    };
    assert_eq!((&request.method, &request.scheme), (&method.clone().into(), &scheme.clone().into()));
    assert_eq!((&request.authority, &request.path), (&authority.clone().into(), &path.clone().into()));
    let fields = request.fields.iter().map(|(name, value)| (&name[..], &value[..]));
    let expected = message.header().fields().iter().map(|field| (field.name(), field.value()));
    assert!(fields.eq(expected));
    assert_eq!(request.content, message.content());
}

proptest! {
    #[test]
    fn requests_of_the_library_are_read_and_any_cut_is_an_error_or_leaves_out_whole_parts(
        mut bytes in request(),
        padding in 0..100_usize,
        cut: proptest::sample::Index,
        change in any::<(proptest::sample::Index, u8)>(),
    ) {
        let (whole, message) = (bytes.len(), by_the_library(&bytes).unwrap());
        bytes.resize(whole + padding, 0);
        same(&BinaryRequest::from_bytes(bytes.clone()).unwrap(), &message);

        bytes.truncate(whole);
        let length = cut.index(whole);
        if let Ok(cut) = BinaryRequest::from_bytes(bytes[..length].to_vec()) {
            prop_assert!(cut.content.is_empty() || cut.content == message.content());
        }
        bytes[change.0.index(whole)] ^= change.1;
        let _ = BinaryRequest::from_bytes(bytes);
    }

    #[test]
    fn any_bytes_are_a_request_or_an_error(
        indicator in 0..4_u8,
        rest in proptest::collection::vec(prop_oneof![any::<u8>(), 0..5_u8], 0..400),
    ) {
        let bytes = [&[indicator][..], &rest].concat();
        if let Ok(request) = BinaryRequest::from_bytes(bytes.clone()) {
            prop_assert!(request.fields.len() <= MAX_FIELDS);
            // Compared only if the library reads the message, too: the library refuses messages
            // that end within a section. Messages with cookies are skipped, since the library joins
            // cookies.
            let joined = request.fields.iter().any(|(name, _)| name == "cookie");
            if let Some(message) = by_the_library(&bytes).filter(|_| !joined) {
                same(&request, &message);
            }
        }
    }

    #[test]
    fn any_message_of_any_length_is_opened(message in proptest::collection::vec(any::<u8>(), 0..3000), seed: u64) {
        let sealed = encapsulate(&message, &mut ChaCha20Rng::seed_from_u64(seed));
        prop_assert_eq!(gateway().open(sealed).unwrap().0, message);
    }

    #[test]
    fn any_bytes_are_opened_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(gateway().open(bytes).is_err());
    }

    #[test]
    fn the_library_reads_responses(
        status in 200..600_u16,
        fields in proptest::collection::vec(("[a-z-]{1,20}", proptest::collection::vec(any::<u8>(), 0..200)), 0..5),
        content in proptest::collection::vec(any::<u8>(), 0..20_000),
    ) {
        let listed: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), &value[..])).collect();
        let response = BinaryResponse { status, fields: listed.clone(), content: &content };
        let mut bytes = Vec::new();
        response.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), response.encoded_bytes());
        let message = by_the_library(&bytes).unwrap();
        prop_assert_eq!(message.control().status().map(StatusCode::code), Some(status));
        let found = message.header().fields().iter().map(|field| (field.name(), field.value()));
        let joined = fields.iter().any(|(name, _)| name == "cookie");
        prop_assert!(joined || found.eq(listed.iter().map(|(name, value)| (name.as_bytes(), *value))));
        prop_assert_eq!(message.content(), &content[..]);
    }
}

#[test]
fn chunks_are_joined_in_place() {
    let head = b"\x02\x04POST\x05https\x00\x04/key\x00";
    let body = |rest: &[u8]| BinaryRequest::from_bytes([&head[..], rest].concat());
    let request = body(b"\x03abc\x01d\x02ef\x00\x01t\x01v\x00\x00\x00").unwrap();
    assert_eq!((&request.content[..], request.fields.len()), (&b"abcdef"[..], 0));
    assert_eq!(body(b"\x03abc\x00").unwrap().content, "abc");
    for empty in [&b""[..], b"\x00", b"\x00\x00", b"\x00\x00\x00"] {
        assert_eq!(body(empty).unwrap().content, "");
    }
    for (rest, error) in [
        (&b"\x03abc"[..], MessageError::Truncated),
        (b"\x03ab", MessageError::Truncated),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff", MessageError::Truncated),
        (b"\x03abc\x00\x01t\x01v", MessageError::Truncated),
        (b"\x03abc\x00\x00\x01", MessageError::Padding),
    ] {
        assert_eq!(body(rest), Err(error), "{rest:?}");
    }
}

#[test]
fn fields_are_bounded_in_number_and_size_before_anything_is_computed() {
    let head = b"\x00\x04POST\x05https\x00\x04/key";
    let message = |fields: &[u8]| {
        let length = 0x8000_0000_u32 | fields.len() as u32;
        [&head[..], &length.to_be_bytes(), fields].concat()
    };
    let fields = |count: usize| BinaryRequest::from_bytes(message(&b"\x01a\x00".repeat(count)));
    assert_eq!(fields(MAX_FIELDS).unwrap().fields.len(), MAX_FIELDS);
    assert_eq!(fields(MAX_FIELDS + 1), Err(MessageError::Fields));
    let value = |bytes: usize| {
        let length = 0x4000_u16 | bytes as u16;
        let field = [&b"\x01a"[..], &length.to_be_bytes(), &vec![b'v'; bytes]].concat();
        BinaryRequest::from_bytes(message(&field))
    };
    // The control data counts too: 13 bytes.
    let most = MAX_FIELD_BYTES - 13 - 1;
    assert!(value(most).is_ok());
    assert_eq!(value(most + 1), Err(MessageError::Fields));
    assert_eq!(BinaryRequest::from_bytes(message(b"\x00\x00")), Err(MessageError::NoName));
    assert_eq!(BinaryRequest::from_bytes(message(b"\x01a\x05v")), Err(MessageError::Truncated));
    for framing in [b"\x01", b"\x03", b"\x04"] {
        assert_eq!(BinaryRequest::from_bytes(framing.to_vec()), Err(MessageError::Framing));
    }
    assert_eq!(BinaryRequest::from_bytes(Vec::new()), Err(MessageError::Truncated));
}

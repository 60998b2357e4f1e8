//! Examples of messages and parameters.

use bytes::Bytes;
use spirea_protocols::registry::{NAMES, ProtocolParams};
use spirea_protocols::signature::{PrivateKey, Signature};
use spirea_protocols::table::Table;
use spirea_protocols::{KeysHash, Version, delta};
use spirea_wire::{Code, KeysRequest, Part, Queries, Refusal, Request};

use super::Example;

/// Returns the examples by name. The examples about parameters are computed for the documented
/// `parameters`.
pub fn examples(parameters: &str) -> Vec<Example> {
    vec![
        ("lengths", lengths()),
        ("keys-request", keys_request()),
        ("query-request", query_request()),
        ("error", error()),
        ("versions", versions()),
        ("parameters", lengths_of(parameters)),
        ("signature", signature()),
    ]
}

fn lengths() -> Vec<String> {
    // A value is preceded by its length.
    let length = |value: usize| {
        let payload = Table::index_payload(&vec![0; value]);
        hex::encode(&payload[..payload.len() - value])
    };
    [0, 127, 128, 300, 1 << 20].map(|value| format!("{value}: {}", length(value))).into()
}

fn keys_request() -> Vec<String> {
    let keys = Bytes::from_static(&[0xaa, 0xbb, 0xcc]);
    let message = KeysRequest { version: Version::new([0x11; 32]), part: Part::Delta, keys }.encode();
    let said = ["version: 32 bytes 11", "keys: aabbcc", "delta: true"].map(String::from);
    [&said[..], &[format!("message: {}", hex::encode(message))]].concat()
}

fn query_request() -> Vec<String> {
    let queries = |queries: [&'static [u8]; 2]| Queries {
        keys: Some(KeysHash::new([0x22; 32])),
        queries: queries.map(Bytes::from_static).into(),
    };
    let (base, delta) = (queries([&[1, 2], &[3, 4]]), Some(queries([&[5], &[6]])));
    let message = Request { version: Version::new([0x11; 32]), base, delta }.encode();
    let sent = Request::with_keys(&message, [(Part::Base, &[0xaa, 0xbb, 0xcc][..])].into_iter());
    vec![
        "version: 32 bytes 11".into(),
        "queries: 0102 and 0304".into(),
        "keys: 32 bytes 22".into(),
        "delta queries: 05 and 06".into(),
        "delta keys: 32 bytes 22".into(),
        format!("message: {}", hex::encode(&message)),
        "sent keys: aabbcc".into(),
        format!("with the keys: the same bytes, then {}", hex::encode(&sent[message.len()..])),
    ]
}

fn error() -> Vec<String> {
    let refusal = Refusal {
        code: Code::StaleVersion,
        message: "m".into(),
        remedy: "r".into(),
        accepted: false,
        current_version: Some(Version::new([0x33; 32])),
    };
    vec![
        "code: STALE_VERSION".into(),
        "message: m".into(),
        "remedy: r".into(),
        "accepted: false".into(),
        "current version: 32 bytes 33".into(),
        format!("bytes: {}", hex::encode(refusal.encode())),
    ]
}

fn versions() -> Vec<String> {
    let version = delta::version(Version::new([0x11; 32]), Some(Version::new([0x22; 32])));
    vec!["base: 32 bytes 11".into(), "delta: 32 bytes 22".into(), format!("version: {version}")]
}

/// Returns the lengths for the parameters in the document, which must include each protocol once,
/// in the form that this software writes.
fn lengths_of(parameters: &str) -> Vec<String> {
    let given: Vec<&str> = parameters.lines().filter(|line| line.starts_with('{')).collect();
    let params: Vec<_> =
        given.iter().map(|line| ProtocolParams::from_json(line.as_bytes()).unwrap()).collect();
    assert!(params.iter().map(|params| params.name).eq(NAMES));
    let lines = params.iter().flat_map(|params| {
        let sizes = params.sizes;
        let lengths = format!(
            "  query {}, answer {}, keys {}, hint {}",
            sizes.query_bytes, sizes.answer_bytes, sizes.keys_bytes, sizes.hint_bytes
        );
        [String::from_utf8(params.to_json()).unwrap(), lengths]
    });
    lines.collect()
}

fn signature() -> Vec<String> {
    let (name, created, sequence) = ("domains", "2026-01-31T23:59:59Z", 5);
    let signature =
        Signature::new(&PrivateKey::from_bytes(&[1; 32]), name, &Version::new([0x11; 32]), sequence, created);
    let json: serde_json::Value = serde_json::from_slice(&signature.to_json()).unwrap();
    // Only the signature reveals the statement: Ed25519 has one signature for a key and a message.
    let mut statement = b"spirea 2026 signed version\0".to_vec();
    for text in [name, created] {
        statement.extend((text.len() as u64).to_le_bytes());
        statement.extend(text.as_bytes());
    }
    statement.extend([0x11; 32]);
    statement.extend(u64::to_le_bytes(sequence));
    vec![
        "private key: 32 bytes 01".into(),
        format!("name: {name}"),
        format!("created: {created}"),
        "version: 32 bytes 11".into(),
        format!("sequence: {sequence}"),
        format!("statement: {}", hex::encode(statement)),
        format!("key: {}", json["key"].as_str().unwrap()),
        format!("ed25519: {}", json["ed25519"].as_str().unwrap()),
    ]
}

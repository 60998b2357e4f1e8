//! The link between a configuration and its version: manifests, and the signature over their
//! hashes.

use bytes::Bytes;
use serde_json::{Value, json};
use spirea_math::random::Seed;
use spirea_protocols::proof::Proofs;
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::signature::{Pin, PrivateKey, Signature};
use spirea_protocols::table::{FieldType, KeyForm, KeyStep};
use spirea_protocols::{FileHash, ProtocolError, Salt, Sizes, Table, TableKind, delta};
use spirea_wire::{Config, Lengths, PartConfig, Version};

use crate::{ClientError, Description};

const CREATED: &str = "2026-01-31T23:59:59Z";

fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[1; 32])
}

fn pin() -> Pin {
    Pin { key: key().public(), sequence: 0 }
}

/// Returns the configuration of a table, and the relevant members of its snapshot's manifest.
fn part(kind: TableKind, delta_of: Option<Version>, proofs: Option<Proofs>) -> (PartConfig, Value) {
    let table = Table { salt: Salt::new([3; 32]), proofs, ..spirea_specimens::table(kind, 10, 24) };
    let choice = Choice { protocol: "onion".into(), ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([0; 32]), 10, table.record_bytes()).unwrap();
    let Sizes { query_bytes, answer_bytes, hint_bytes, keys_bytes } = params.sizes;
    let hint_blake3 = FileHash::from(blake3::hash(b""));
    let mut manifest = json!({
        "format": 3,
        "name": "test",
        "table": serde_json::to_value(&table).unwrap(),
        "protocol": serde_json::from_slice::<Value>(&params.to_json()).unwrap(),
        "hint": { "file": "hint.bin", "bytes": hint_bytes, "blake3": hint_blake3 },
        "statistics": { "rows": 10 },
    });
    if let Some(base) = delta_of {
        manifest["delta_of"] = base.to_string().into();
    }
    let config = PartConfig {
        protocol_params: params.to_json().into(),
        table: serde_json::to_vec(&table).unwrap().into(),
        hint_bytes,
        hint_blake3,
        lengths: Lengths { query_bytes, answer_bytes, keys_bytes },
        manifest: serde_json::to_vec(&manifest).unwrap().into(),
    };
    (config, manifest)
}

/// Returns a signed configuration of the version that its manifests define.
fn signed(base: PartConfig, delta: Option<PartConfig>) -> Config {
    let hash = |part: &PartConfig| blake3::hash(&part.manifest).into();
    let version = delta::version(hash(&base), delta.as_ref().map(hash));
    let signature = Signature::new(&key(), "test", &version, 5, CREATED).to_json().into();
    let versions = vec![version];
    Config {
        name: "test".into(),
        version,
        base,
        delta,
        max_batch: 2,
        party: None,
        versions,
        signature,
        request_bytes: 0,
    }
}

fn parse(config: &Config) -> Result<Description, ClientError> {
    Description::parse("test", config.encode().into())
}

fn refusal(config: &Config) -> String {
    match parse(config) {
        Err(ClientError::WrongConfig(detail)) => detail,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_signed_version_vouches_for_table_parameters_hint_and_delta() {
    for proofs in [None, Some(Proofs::blank(10, Salt::new([4; 32])))] {
        let (base, _) = part(TableKind::Index, None, proofs.clone());
        parse(&signed(base.clone(), None)).unwrap().accept(&mut pin()).unwrap();
        let of = blake3::hash(&base.manifest).into();
        let (delta, _) = part(TableKind::Keyword, Some(of), proofs);
        parse(&signed(base, Some(delta))).unwrap().accept(&mut pin()).unwrap();
    }
}

#[test]
fn what_the_manifests_do_not_say_is_refused() {
    let (base, manifest) = part(TableKind::Index, None, Some(Proofs::blank(10, Salt::new([4; 32]))));
    let honest = signed(base.clone(), None);

    // The server sends its own roots with the operator's manifest.
    let mut forged = Proofs::blank(10, Salt::new([4; 32]));
    forged.roots[3] = [7; 16];
    let (lying, _) = part(TableKind::Index, None, Some(forged));
    let beside = PartConfig { manifest: base.manifest.clone(), ..lying.clone() };
    assert!(refusal(&Config { base: beside, ..honest.clone() }).contains("what stands beside it"));
    // The server sends its own manifest with the operator's version.
    assert!(refusal(&Config { base: lying, ..honest.clone() }).contains("not that of its manifests"));
    // The server sends the hash of its own hint.
    let hint = PartConfig { hint_blake3: FileHash::new([9; 32]), ..base.clone() };
    assert!(refusal(&Config { base: hint, ..honest.clone() }).contains("what stands beside it"));
    // The server sends the manifest of another dataset.
    let mut other = manifest;
    other["name"] = "other".into();
    let other = PartConfig { manifest: serde_json::to_vec(&other).unwrap().into(), ..base.clone() };
    assert!(refusal(&signed(other, None)).contains("what stands beside it"));
    let broken = PartConfig { manifest: Bytes::from_static(b"{}"), ..base.clone() };
    assert!(refusal(&Config { base: broken, ..honest.clone() }).contains("missing field"));
    // A delta of another base, a delta in place of the base, and an omitted delta.
    let (delta, _) = part(TableKind::Keyword, Some(Version::new([8; 32])), None);
    assert!(refusal(&signed(base.clone(), Some(delta.clone()))).contains("what stands beside it"));
    assert!(refusal(&signed(delta, None)).contains("what stands beside it"));
    let (delta, _) = part(TableKind::Keyword, Some(blake3::hash(&base.manifest).into()), None);
    let whole = signed(base, Some(delta));
    assert!(refusal(&Config { delta: None, ..whole }).contains("not that of its manifests"));
}

#[test]
fn a_delta_has_the_types_and_the_form_of_its_base() {
    let of = |change: fn(&mut Table)| {
        let (part, _) = part(TableKind::Keyword, None, None);
        let mut table: Table = serde_json::from_slice(&part.table).unwrap();
        change(&mut table);
        PartConfig { table: serde_json::to_vec(&table).unwrap().into(), manifest: Bytes::new(), ..part }
    };
    let hex = |table: &mut Table| {
        let steps = vec![KeyStep::Hex];
        table.key_form = Some(KeyForm { steps, region: None, unicode: None, phone_rules: None });
    };
    let integer = |table: &mut Table| table.types = vec![FieldType::Integer];
    for (base, delta, is_alike) in [
        (of(hex), of(hex), true),
        (of(integer), of(integer), true),
        (of(hex), of(|_| {}), false),
        (of(|_| {}), of(integer), false),
    ] {
        let parsed = parse(&signed(base, Some(delta)));
        assert_eq!(parsed.is_ok(), is_alike, "{parsed:?}");
    }
}

#[test]
fn without_manifests_nothing_is_pinned_and_no_roots_are_taken() {
    let silent = |proofs| PartConfig { manifest: Bytes::new(), ..part(TableKind::Index, None, proofs).0 };
    let bare = Config { base: silent(None), ..signed(part(TableKind::Index, None, None).0, None) };
    let refused = parse(&bare).unwrap().accept(&mut pin()).unwrap_err();
    assert!(matches!(refused, ProtocolError::Untrusted(_)), "{refused}");
    let proven = Config { base: silent(Some(Proofs::blank(10, Salt::new([4; 32])))), ..bare };
    assert!(refusal(&proven).contains("no manifest binds their roots"));
}

//! A complete look-up of every protocol, for clients in other languages. From the same randomness,
//! the reference client makes the same keys and queries, and it decodes the same answers.
//!
//! `SPIREA_WRITE_VECTORS=1 cargo test -p spirea-conformance client_vectors` rewrites the vectors.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use spirea_conformance::{Content, setup, slices};
use spirea_cpu::CpuBackend;
use spirea_math::random::SecretRng;
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::keyword::Copies;
use spirea_protocols::registry::{NAMES, ProtocolParams};
use spirea_protocols::{AnyIndexClient, Prepared};

/// Seeds of the deterministic randomness of [`setup`]'s client, and of its query.
const CLIENT_SEED: u64 = 11;
const QUERY_SEED: u64 = 1;
/// Suffix for the names of tables whose queries carry their keys and are whole.
const PER_QUERY: &str = "-per-query";
/// Suffix for the names of tables whose queries carry their keys and are short.
const SHORT: &str = "-short";
/// Suffix for the names of tables with the ring set `brief`.
const BRIEF: &str = "-brief";
/// Suffix for the names of tables whose hint is rounded.
const ROUNDED: &str = "-rounded";
/// Seed of the records.
const CONTENT_SEED: u64 = 2;

/// Returns a small table's parameters. Records have several parts if the protocol supports parts.
fn parameters(name: &str) -> ProtocolParams {
    let (name, ring) = name.strip_suffix(BRIEF).map_or((name, "fast"), |name| (name, "brief"));
    let brings_keys = name.ends_with(PER_QUERY) || name.ends_with(SHORT);
    let protocol = name.trim_end_matches(PER_QUERY).trim_end_matches(SHORT);
    let (protocol, is_rounded) = match protocol.strip_suffix(ROUNDED) {
        Some(protocol) => (protocol, true),
        None => (protocol, false),
    };
    let grid = |record_bytes: usize, unit_rows: usize, groups: usize, columns: usize| json!({ "records": 40, "record_bytes": record_bytes, "unit_rows": unit_rows, "groups": groups, "columns": columns });
    let seed = "5a".repeat(32);
    let folded =
        |grid: Value| json!({ "protocol": protocol, "set": "module-1280", "seed": seed, "grid": grid });
    let packed = |grid: Value, dropped_bits: u32| {
        let mut params = folded(grid);
        params["ring"] = json!(ring);
        params["dropped_bits"] = json!(dropped_bits);
        if brings_keys {
            params["keys"] = json!("per-query");
        }
        if name.ends_with(SHORT) {
            params["queries"] = json!("short");
        }
        params
    };
    let mut params = match protocol {
        "simple" => json!({
            "protocol": protocol, "set": "paper", "seed": seed, "records": 40, "record_bytes": 40, "rows": 32, "columns": 256
        }),
        "double" => folded(grid(4, 2, 256, 256)),
        "exppack-simple" => packed(grid(5000, 4096, 1, 256), 0),
        "exppack-simple-bins" => {
            let mut params = packed(grid(40, 96, 5, 256), 4);
            params["protocol"] = json!("exppack-simple");
            params
        }
        "exppack-double" => packed(grid(4, 2, 256, 256), 4),
        "double-pack" => packed(grid(3000, 4096, 5, 256), 7),
        "hybrid" if brings_keys => {
            let mut params = packed(grid(5000, 4096, 1, 256), 0);
            params["ring"] = json!("small");
            params
        }
        "hybrid" => {
            let mut params = packed(grid(5000, 4096, 5, 256), 5);
            params["set"] = json!("module-1536");
            params
        }
        "onion" => {
            json!({ "protocol": protocol, "ring": "onion-26", "pad": "a5".repeat(32), "grid": grid(6000, 13312, 5, 4) })
        }
        "dpf-xor-bins" => {
            json!({ "protocol": "dpf-xor", "prf": "aes-128", "shares": "bit", "grid": grid(24, 48, 1, 20), "bins": 5 })
        }
        "dpf-sum-bins" => {
            json!({ "protocol": "dpf-sum", "prf": "chacha12", "shares": "u32", "grid": grid(40, 24, 1, 42), "bins": 7 })
        }
        "dpf-xor" => {
            json!({ "protocol": protocol, "prf": "aes-128", "shares": "bit", "grid": grid(24, 48, 1, 20) })
        }
        _ => json!({ "protocol": protocol, "prf": "chacha20", "shares": "u64", "grid": grid(40, 24, 1, 40) }),
    };
    if is_rounded {
        params["hint_bits"] = json!(17);
    }
    ProtocolParams::from_json(params.to_string().as_bytes()).unwrap()
}

fn vector(name: &str, index: u64) -> String {
    let params = parameters(name);
    let setup = setup(&Arc::new(CpuBackend::new(2).unwrap()), &params, Content::Random(CONTENT_SEED));
    let Prepared { queries, state } =
        setup.client.query(index, &mut SecretRng::deterministic_for_tests(QUERY_SEED)).unwrap();
    let answers = setup.answers(std::slice::from_ref(&queries)).remove(0);
    let record = setup.client.decode(state, &slices(&answers)).unwrap();
    assert_eq!(record, setup.records[index as usize]);
    let hash = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    let hashes = |queries: &[Vec<u8>]| json!(queries.iter().map(|query| hash(query)).collect::<Vec<_>>());
    let hexes = |answers: &[Vec<u8>]| json!(answers.iter().map(hex::encode).collect::<Vec<_>>());
    let mut members = vec![
        ("params", serde_json::from_slice(&params.to_json()).unwrap()),
        ("content", json!(CONTENT_SEED)),
        ("client", json!(CLIENT_SEED)),
        ("query", json!(QUERY_SEED)),
        ("index", json!(index)),
        ("hint_blake3", json!(hash(&setup.hint))),
        ("keys_blake3", json!(setup.client.keys().map(|keys| hash(keys.bytes())))),
        ("queries_blake3", hashes(&queries)),
        ("record", json!(hex::encode(&record))),
        ("answers", hexes(&answers)),
    ];
    if params.key_delivery == Some(KeyDelivery::PerQuery) {
        members.push(("hint", json!(hex::encode(&setup.hint))));
    }
    if params.bins > 1 {
        // Two of these records lie in one bin.
        let wanted = [3, 39, 2, 20];
        let mut rng = SecretRng::deterministic_for_tests(QUERY_SEED);
        let chosen = setup.client.bins().choose(&wanted, &mut rng).unwrap();
        let Prepared { queries, state } = setup.client.query_bins(&chosen.records, &mut rng).unwrap();
        let answers = setup.answers(std::slice::from_ref(&queries)).remove(0);
        let found = setup.client.decode_bins(state, &slices(&answers)).unwrap();
        let records = chosen.records.iter().flat_map(|&index| &setup.records[index as usize]);
        assert!(found.iter().eq(records) && chosen.brought == [true, true, false, true]);
        let fetch = json!({
            "wanted": wanted, "query": QUERY_SEED, "chosen": *chosen.records, "queries_blake3": hashes(&queries),
            "answers": hexes(&answers)
        });
        members.push(("fetch", fetch));
        members.push(("copies", copies(&*setup.client)));
    }
    let lines: Vec<_> = members.iter().map(|(name, value)| format!("  {name:?}: {value}")).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

/// Returns a choice of records for entries with three copies each: more entries than bins, and two
/// entries with the same records.
fn copies(client: &dyn AnyIndexClient) -> Value {
    let wanted = [[3, 39, 2], [20, 3, 3], [3, 39, 2], [3, 20, 2], [2, 20, 39], [8, 17, 25], [39, 3, 17]];
    let bins = client.bins();
    let mut rng = SecretRng::deterministic_for_tests(QUERY_SEED);
    let chosen = bins.choose_copies(wanted.as_flattened(), Copies::Three, &mut rng).unwrap();
    let holders = chosen.brought.iter().zip(chosen.holders.iter());
    let holders: Vec<_> = holders.map(|(&brought, &holder)| brought.then_some(holder)).collect();
    json!({ "wanted": wanted, "query": QUERY_SEED, "chosen": *chosen.records, "holders": holders })
}

#[test]
fn look_ups_are_what_was_committed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/client");
    let one_shot = [PER_QUERY, SHORT]
        .into_iter()
        .flat_map(|form| ["exppack-simple", "exppack-double", "hybrid"].map(|name| format!("{name}{form}")));
    let rounded = ["simple", "double"].map(|name| format!("{name}{ROUNDED}"));
    let names = NAMES
        .into_iter()
        .chain(["dpf-xor-bins", "dpf-sum-bins", "exppack-simple-bins", "exppack-simple-bins-short"])
        .map(str::to_owned);
    let brief = ["exppack-simple", "exppack-simple-short"].map(|name| format!("{name}{BRIEF}"));
    let names = names.chain(one_shot).chain(rounded).chain(brief);
    for protocol in names {
        let computed = vector(&protocol, 17);
        let path = folder.join(format!("{protocol}.json"));
        if std::env::var_os("SPIREA_WRITE_VECTORS").is_some() {
            std::fs::write(path, computed).unwrap();
            continue;
        }
        let committed = std::fs::read_to_string(path).unwrap();
        assert!(computed == committed, "{protocol}: the wire's bytes changed; a new format version is due");
    }
}

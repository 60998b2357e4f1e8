//! The committed vectors of whole look-ups (`conformance/vectors/client`), computed by the code
//! that ships. The feature `vectors` adds this file to a module for tests only.

use serde::{Deserialize, Serialize};
use spirea_math::random::SecretRng;
use spirea_protocols::Prepared;
use spirea_protocols::registry::ProtocolParams;
use spirea_wasm_memory::Message;

/// A vector. The body has the hint, and the answers of the look-up and of the fetch.
#[derive(Deserialize)]
struct Vector {
    params: serde_json::Value,
    /// Seeds of the deterministic randomness.
    client: u64,
    query: u64,
    index: u64,
    hint_bytes: usize,
    answer_bytes: Vec<usize>,
    fetch: Option<Fetch>,
}

/// A fetch of records of several bins by one query.
#[derive(Deserialize)]
struct Fetch {
    wanted: Vec<u64>,
    query: u64,
    answer_bytes: Vec<usize>,
}

/// Result, with the names that vectors use. The body has the record, and then the records of the
/// fetch.
#[derive(Serialize)]
struct Computed {
    keys_blake3: Option<String>,
    queries_blake3: Vec<String>,
    record_bytes: usize,
    fetch: Option<ComputedFetch>,
}

#[derive(Serialize)]
struct ComputedFetch {
    chosen: Vec<u64>,
    queries_blake3: Vec<String>,
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Splits pieces of these lengths off the start of `rest`.
fn taken<'b>(rest: &mut &'b [u8], lengths: &[usize]) -> Vec<&'b [u8]> {
    let next = |&length: &usize| {
        let (taken, others) = rest.split_at(length);
        *rest = others;
        taken
    };
    lengths.iter().map(next).collect()
}

/// Computes the vector in the input.
///
/// # Panics
/// If the input is not a vector, or its answers are wrong.
pub fn compute(input: &mut Message, output: &mut Message) {
    let (vector, body): (Vector, _) = input.take().expect("a vector");
    let mut rest = &body[..];
    let hint = taken(&mut rest, &[vector.hint_bytes]).remove(0);
    let answers = taken(&mut rest, &vector.answer_bytes);
    let params = ProtocolParams::from_json(vector.params.to_string().as_bytes()).expect("parameters");
    let rng = SecretRng::deterministic_for_tests;
    let client = params.client(hint, &[], &mut rng(vector.client)).expect("a client");
    let Prepared { queries, state } = client.query(vector.index, &mut rng(vector.query)).expect("a query");
    let record = client.decode(state, &answers).expect("right answers");
    let mut records = record.to_vec();
    let fetch = vector.fetch.map(|fetch| {
        let rng = &mut rng(fetch.query);
        let chosen = client.bins().choose(&fetch.wanted, rng).expect("records of the table").records;
        let Prepared { queries, state } = client.query_bins(&chosen, rng).expect("a query");
        let answers = taken(&mut rest, &fetch.answer_bytes);
        records.extend_from_slice(&client.decode_bins(state, &answers).expect("right answers"));
        let queries_blake3 = queries.iter().map(|query| hash(query)).collect();
        ComputedFetch { chosen: chosen.to_vec(), queries_blake3 }
    });
    let computed = Computed {
        keys_blake3: client.keys().map(|keys| hash(keys.bytes())),
        queries_blake3: queries.iter().map(|query| hash(query)).collect(),
        record_bytes: record.len(),
        fetch,
    };
    output.write(&computed, &records);
}

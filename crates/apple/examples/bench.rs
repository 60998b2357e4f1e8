//! Times a query of Apple's protocol from the bytes of the request to those of the response, with
//! the client's key in memory: `apple-bench ENTRIES VALUE_BYTES SET ISA THREADS BATCH RUNS`.
//!
//! Prints one JSON object. Times are of the processor, of all threads together, and the least of
//! the runs, because a shared machine only adds to them; with one thread, those of the stages as
//! well. Keys and queries have arbitrary content, which no time depends on.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message as _;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use spirea_apple::keyword::{BucketSize, Tables};
use spirea_apple::messages::{
    Ciphertext, EncryptedIndices, GaloisKey, Inbound as _, PirRequest, RelinKey, Request, Requests, Response,
    Responses, SeededCiphertext, SerializedCiphertext, SerializedCiphertextVec, SerializedEvaluationKey,
    SerializedKeySwitchKey,
};
use spirea_apple::{
    Arithmetic, Compression, Database, EvaluationKey, KeyConfig, Query, Set, Shape, Sizes, Stage,
};
use spirea_backend::Backend as _;
use spirea_cpu::{CpuBackend, Isa};

/// Number of tables of a shard.
const TABLES: usize = 2;
/// Bytes of a polynomial modulo q, and modulo q P.
const POLYNOMIAL_BYTES: [usize; 2] = [28_160, 42_496];
/// Byte that fills polynomials: it makes residues below every prime.
const FILL: u8 = 0x5A;

fn ciphertext(bytes: usize, seed: u8) -> SerializedCiphertext {
    let seeded = SeededCiphertext { poly0: vec![FILL; bytes].into(), seed: vec![seed; 32].into() };
    SerializedCiphertext { form: Some(Ciphertext::Seeded(seeded)) }
}

fn evaluation_key(config: &KeyConfig) -> SerializedEvaluationKey {
    let key = |seed: u8| {
        let ciphertexts = (0..2u8).map(|digit| ciphertext(POLYNOMIAL_BYTES[1], seed + digit)).collect();
        SerializedKeySwitchKey { key_switch_key: Some(SerializedCiphertextVec { ciphertexts }) }
    };
    let elements = config.galois_elements().iter().zip((0..).step_by(2));
    let key_switch_keys: BTreeMap<_, _> =
        elements.map(|(&element, seed)| (element.into(), key(seed))).collect();
    SerializedEvaluationKey {
        galois_key: Some(GaloisKey { key_switch_keys }),
        relin_key: Some(RelinKey { relin_key: Some(key(100)) }),
    }
}

fn request(shape: &Shape) -> Vec<u8> {
    let ciphertexts =
        shape.leaves_of_ciphertexts().zip(1..).map(|(_, seed)| ciphertext(POLYNOMIAL_BYTES[0], seed));
    let query = EncryptedIndices { ciphertexts: ciphertexts.collect(), num_pir_calls: shape.tables() as u64 };
    let pir_request = PirRequest {
        shard_index: 0,
        query: Some(query),
        evaluation_key_metadata: None,
        configuration_hash: vec![0; 32].into(),
        shard_id: None,
        evaluation_key: None,
    };
    let request = Request { usecase: "net.example.lookup.block".into(), pir_request: Some(pir_request) };
    Requests { requests: vec![request] }.encode_to_vec()
}

/// Returns the processor's time of all threads of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the least processor time and wall time of several runs, in seconds.
fn least<T>(runs: usize, mut run: impl FnMut() -> T) -> [f64; 2] {
    (0..runs).fold([f64::INFINITY; 2], |least, _| {
        let (start, wall) = (processor_time(), Instant::now());
        black_box(run());
        let times = [processor_time() - start, wall.elapsed()].map(|time| time.as_secs_f64());
        [least[0].min(times[0]), least[1].min(times[1])]
    })
}

/// Returns the least processor time of each stage of several runs.
fn stages(
    database: &Database<CpuBackend>,
    queries: &[(&Query, &EvaluationKey)],
    runs: usize,
) -> Vec<serde_json::Value> {
    const NAMES: [(Stage, &str); 4] = [
        (Stage::Expansion, "expand"),
        (Stage::Rows, "rows"),
        (Stage::Columns, "columns"),
        (Stage::Division, "divide"),
    ];
    let mut least = [f64::INFINITY; NAMES.len()];
    for _ in 0..runs {
        let mut times = [0.0; NAMES.len()];
        let mut last = processor_time();
        let mut ended = |stage| {
            let now = processor_time();
            let place = NAMES.iter().position(|&(known, _)| known == stage).expect("a known stage");
            times[place] += (now - last).as_secs_f64();
            last = now;
        };
        black_box(database.answer_in_stages(queries, &mut ended).expect("responses"));
        least.iter_mut().zip(times).for_each(|(least, time)| *least = least.min(time));
    }
    let line = |((_, name), seconds)| json!({ "name": name, "seconds": seconds });
    NAMES.into_iter().zip(least).map(line).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [entries, value_bytes, set, isa, threads, batch, runs] = &arguments[..] else {
        return Err("usage: apple-bench ENTRIES VALUE_BYTES SET ISA THREADS BATCH RUNS".into());
    };
    let set = Set::ALL.into_iter().find(|known| known.name() == set).ok_or("an unknown set")?;
    let isa = Isa::available().into_iter().find(|known| known.name() == isa).ok_or("an unknown path")?;
    let (entries, value_bytes): (u32, usize) = (entries.parse()?, value_bytes.parse()?);
    let (threads, batch, runs): (usize, usize, usize) = (threads.parse()?, batch.parse()?, runs.parse()?);

    let keyword = |i: u32| format!("+1555{i:07}").into_bytes();
    let rows: Vec<(Vec<u8>, Vec<u8>)> = (0..entries)
        .map(|i| (keyword(i), i.to_le_bytes().into_iter().cycle().take(value_bytes).collect()))
        .collect();
    let rows = rows.iter().map(|(keyword, value)| (&keyword[..], &value[..]));
    let start = processor_time();
    let tables = Tables::build(set, TABLES, BucketSize::ByPlaintexts, rows)?;
    let table_seconds = (processor_time() - start).as_secs_f64();
    let backend = Arc::new(CpuBackend::with_isa(isa, threads)?);
    let name = backend.name();
    let arithmetic = Arc::new(Arithmetic::new(backend)?);
    let (start, shape) = (processor_time(), tables.shape(set)?);
    let database = Database::new(arithmetic, shape, &tables)?;
    let prepare_seconds = (processor_time() - start).as_secs_f64();
    drop(tables);
    let shape = database.shape();

    let config = KeyConfig::new(set, [shape], Compression::None);
    let key_message = evaluation_key(&config);
    let [key_seconds, _] = least(5, || EvaluationKey::parse(&config, &key_message));
    let key = EvaluationKey::parse(&config, &key_message)?;
    let request = request(shape);
    let parse = || -> Query {
        let requests = Requests::from_bytes(request.clone().into()).expect("a request");
        let query = requests.requests[0].pir_request.as_ref().and_then(|request| request.query.as_ref());
        Query::parse(shape, query.expect("a query")).expect("a query of this shape")
    };
    let answer = |queries: &[Query]| {
        let queries: Vec<_> = queries.iter().map(|query| (query, &key)).collect();
        database.answer(&queries).expect("responses")
    };
    let write = |responses: &[spirea_apple::Response]| -> Vec<Vec<u8>> {
        let message = |response: &spirea_apple::Response| Response { pir_response: Some(response.message()) };
        let message = |response| Responses { responses: vec![message(response)] }.encode_to_vec();
        responses.iter().map(message).collect()
    };
    let queries: Vec<Query> = (0..batch).map(|_| parse()).collect();
    let responses = answer(&queries);
    let [parse_seconds, _] = least(runs, parse);
    let [write_seconds, _] = least(runs, || write(&responses[..1]));
    let [processor_seconds, seconds] =
        least(runs, || write(&answer(&(0..batch).map(|_| parse()).collect::<Vec<_>>())));
    let mut steps = vec![
        json!({ "name": "parse", "seconds": parse_seconds }),
        json!({ "name": "write", "seconds": write_seconds }),
    ];
    // Stages of several threads overlap.
    if threads == 1 {
        let queries: Vec<_> = queries.iter().map(|query| (query, &key)).collect();
        steps.extend(stages(&database, &queries, runs));
    }
    let line = json!({
        "name": "apple",
        "params": set.name(),
        "entries": entries,
        "value_bytes": value_bytes,
        "shape": shape.dimensions(),
        "tables": shape.tables(),
        "backend": name,
        "threads": threads,
        "batch": batch,
        "runs": runs,
        "seconds": processor_seconds,
        "clock": "processor, least of the runs",
        "wall_seconds": seconds,
        "table_seconds": table_seconds,
        "prepare_seconds": prepare_seconds,
        "key_seconds": key_seconds,
        "memory_bytes": Sizes::of(shape, Compression::None).memory_bytes,
        "steps": steps,
    });
    println!("{line}");
    Ok(())
}

//! `spirea-lab bench protocol NAME`: the server's time by step, sizes, preparation, noise, and the
//! prediction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use spirea_backend::{Backend as _, Residence, Timed};
use spirea_console::output::{Format, bytes, print_line, seconds};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::choice::{KeyDelivery, Preference, QueryForm};
use spirea_protocols::parameters::{Failure, FirstFold};
use spirea_protocols::planner::{self, Rates};
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::{Files, Precomputation, PreparedKeys, Query};

use super::report::{median, print_json};
use super::scan::Limits;
use super::{Options, random_matrix};

/// Options of `spirea-lab bench protocol`.
#[derive(Args)]
pub struct ProtocolOptions {
    /// Name of the protocol: simple, double, exppack-simple, exppack-double, double-pack, hybrid,
    /// onion, dpf-xor or dpf-sum.
    protocol: String,
    /// Bytes of a record.
    #[arg(long, default_value_t = 256)]
    record_bytes: usize,
    /// Ring set, if not the protocol's default.
    #[arg(long)]
    ring: Option<String>,
    /// Number of bins, for exppack-simple, dpf-xor and dpf-sum: a query returns one record from
    /// each bin.
    #[arg(long, default_value_t = 1)]
    bins: usize,
    /// Delivery of evaluation keys: registered, or per-query.
    #[arg(long, default_value = "registered")]
    keys: KeyDelivery,
    /// Form of queries that bring their keys: short, or whole.
    #[arg(long, default_value = "short")]
    queries: QueryForm,
    /// Goal of the shape: time, communication or balance.
    #[arg(long, default_value = "balance")]
    prefer: Preference,
    #[command(flatten)]
    options: Options,
}

/// Measurements of a protocol.
#[derive(Debug, Serialize)]
struct ProtocolReport {
    name: String,
    params: String,
    /// Delivery of evaluation keys to the server, if the protocol needs any.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<&'static str>,
    /// Form of queries that bring their keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    queries: Option<&'static str>,
    shape: [usize; 2],
    backend: String,
    threads: usize,
    batch: usize,
    /// Median time for a whole batch.
    seconds: f64,
    /// Bottleneck: `memory`, from which the database is read once per batch, or the instruction
    /// that multiplies the database's bytes by the words of each query.
    floor: String,
    /// Time at that limit.
    floor_seconds: f64,
    /// `floor_seconds / seconds`.
    ratio: f64,
    /// Time to read the database from memory.
    read_seconds: f64,
    /// Time of one query's products at the instruction's peak, if bytes are multiplied by words.
    #[serde(skip_serializing_if = "Option::is_none")]
    product_seconds: Option<f64>,
    /// Time that the planner predicts for one query, based on rates measured in this process.
    predicted_seconds: f64,
    upload_bytes: usize,
    download_bytes: usize,
    keys_bytes: usize,
    hint_bytes: u64,
    memory_bytes: u64,
    /// Time to compute hints and load the database.
    prepare_seconds: f64,
    client_query_seconds: f64,
    client_decode_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    noise_margin_bits: Option<f64>,
    /// `None` if a record never decodes wrongly.
    #[serde(flatten)]
    failure: Option<Failure>,
    steps: Vec<StepTime>,
}

#[derive(Debug, Serialize)]
struct StepTime {
    name: String,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_seconds: Option<f64>,
}

/// Builds a database of random records, looks some up, and prints the measurements.
pub fn run(request: &ProtocolOptions) -> anyhow::Result<()> {
    let options = &request.options;
    let backend = options.backend()?;
    let choice = Choice {
        protocol: request.protocol.clone(),
        set: Some(options.set()?.name().into()),
        ring: request.ring.clone(),
        prefer: request.prefer,
        bins: request.bins,
        keys: request.keys,
        queries: request.queries,
        ..Choice::default()
    };
    let records = (options.bytes()? / request.record_bytes.max(1)).max(1) as u64;
    let params = ProtocolParams::choose(&choice, Seed::new([1; 32]), records, request.record_bytes)?;
    let timed = Arc::new(Timed::new(Arc::clone(&backend)));
    let mut rng = SecretRng::from_os()?;

    let folder = tempfile::tempdir().context("no temporary folder")?;
    let files = Files::at(folder.path().join("matrix"), folder.path().join("server"));
    let indices: Vec<u64> = (0..options.batch).map(|_| rng.next_u64() % records).collect();
    let expected = write_database(&params, &files, &indices, &mut rng)?;
    let started = Instant::now();
    let (mut hint, mut server) = (Vec::new(), Vec::new());
    let (matrix, progress) = (&files.matrix, &mut |_| ());
    let job = Precomputation { matrix, hint: &mut hint, server: &mut server, progress };
    params.on().precompute(&timed, job)?;
    std::fs::write(&files.server, server)?;
    let openings = params.openings(Residence::Copied);
    let server = params.on().open(&timed, &files, openings[0])?;
    let prepare_seconds = started.elapsed().as_secs_f64();

    // Queries of different clients, each with its own keys; in large batches a few clients take
    // turns.
    let clients = (0..options.batch.min(4))
        .map(|_| params.client(&hint, &[], &mut rng))
        .collect::<Result<Vec<_>, _>>()?;
    drop(hint);
    let keys =
        clients.iter().map(|client| client.keys().map(|keys| server.prepare_keys(keys.bytes())).transpose());
    let keys: Vec<Option<PreparedKeys>> = keys.collect::<Result<_, _>>()?;
    let (mut queries, mut states, mut query_times) = (Vec::new(), Vec::new(), Vec::new());
    for (i, &index) in indices.iter().enumerate() {
        let started = Instant::now();
        let prepared = clients[i % clients.len()].query(index, &mut rng)?;
        query_times.push(started.elapsed().as_secs_f64());
        queries.push(prepared.queries);
        states.push(prepared.state);
    }
    let batch = |party: usize| -> Vec<Query<'_>> {
        let queries = queries.iter().zip(keys.iter().cycle());
        queries.map(|(queries, keys)| Query { bytes: &queries[party], keys: keys.as_ref() }).collect()
    };
    let first = batch(0);
    let mut answers = vec![server.answer(&first)?];
    let (mut times, mut steps) = (Vec::new(), BTreeMap::<&str, Vec<f64>>::new());
    for _ in 0..options.runs.max(1) {
        timed.observer().take();
        let started = Instant::now();
        std::hint::black_box(server.answer(&first)?);
        times.push(started.elapsed().as_secs_f64());
        for (step, time) in timed.observer().take() {
            steps.entry(step).or_default().push(time.as_secs_f64());
        }
    }
    drop(server);
    let stored = usize::try_from(params.stored.bytes())?;
    // The matrix lies in huge pages, as a database does: with small pages, reading the same memory
    // is a quarter slower.
    let limits = Limits::measure(&backend, random_matrix(&backend, options.layout()?)?.bytes())?;
    // The products limit applies to folds of bytes only; folds of polynomials and of shares compute
    // other products.
    let products = if matches!(params.first_fold, FirstFold::Bytes) { options.batch } else { 0 };
    let (floor, floor_seconds) = limits.floor(stored, products);
    let read_seconds = stored as f64 / limits.bandwidth;
    let product_seconds = (products > 0).then(|| stored as f64 / limits.products);
    let batch_seconds = median(times);
    // The second of two servers takes the same time as the first.
    for (party, &opening) in openings.iter().enumerate().skip(1) {
        answers.push(params.on().open(&timed, &files, opening)?.answer(&batch(party))?);
    }
    let (mut squares, mut count, mut decode_times) = (0.0, 0.0, Vec::new());
    for (i, state) in states.into_iter().enumerate() {
        let client = &clients[i % clients.len()];
        let answers: Vec<&[u8]> = answers.iter().map(|answers| &answers[i][..]).collect();
        let errors = client.errors(&*state, &answers)?;
        squares += errors.iter().map(|error| error.powi(2)).sum::<f64>();
        count += errors.len() as f64;
        let started = Instant::now();
        let record = client.decode(state, &answers)?;
        decode_times.push(started.elapsed().as_secs_f64());
        anyhow::ensure!(expected[i] == record, "record {} came back wrong", indices[i]);
    }

    let rates = Rates::measure(&*backend, &planner::sets(&params))?;
    let predicted = planner::predict(&params, &rates);
    let sizes = params.sizes;
    let step = |(name, times): (&str, Vec<f64>)| StepTime {
        name: name.into(),
        seconds: median(times),
        predicted_seconds: predicted.iter().find(|(step, _)| *step == name).map(|(_, seconds)| *seconds),
    };
    let report = ProtocolReport {
        name: params.name.into(),
        params: params.set.clone(),
        keys: params.key_delivery.map(KeyDelivery::name),
        queries: (params.key_delivery == Some(KeyDelivery::PerQuery)).then(|| params.choice().queries.name()),
        shape: params.stored.shape(),
        backend: backend.name(),
        threads: backend.threads(),
        batch: options.batch,
        seconds: batch_seconds,
        ratio: floor_seconds / batch_seconds,
        floor,
        floor_seconds,
        read_seconds,
        product_seconds,
        predicted_seconds: predicted.iter().map(|(_, seconds)| seconds).sum(),
        upload_bytes: sizes.query_bytes,
        download_bytes: sizes.answer_bytes,
        keys_bytes: sizes.keys_bytes,
        hint_bytes: sizes.hint_bytes,
        memory_bytes: params.memory_bytes,
        prepare_seconds,
        client_query_seconds: median(query_times),
        client_decode_seconds: median(decode_times),
        noise_margin_bits: (count > 0.0).then(|| -f64::sqrt(squares / count).log2()),
        failure: params.failure,
        steps: steps.into_iter().map(step).collect(),
    };
    report.print(options.format())
}

/// Writes a database of random bytes, and returns some of its records.
fn write_database(
    params: &ProtocolParams,
    files: &Files,
    indices: &[u64],
    rng: &mut SecretRng,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let stored = params.stored;
    let mut bytes = vec![0; usize::try_from(stored.bytes())?];
    rng.fill(&mut bytes);
    std::fs::write(&files.matrix, &bytes)?;
    let record = |&index: &u64| {
        (0..params.record_bytes()).map(|byte| bytes[stored.offset(index, byte) as usize]).collect()
    };
    Ok(indices.iter().map(record).collect())
}

impl ProtocolReport {
    fn print(&self, format: Format) -> anyhow::Result<()> {
        if format == Format::Json {
            return print_json(self);
        }
        let Self { name, params, shape: [rows, columns], backend, threads, batch, .. } = self;
        print_line(&format!(
            "{name} ({params}), {rows} x {columns}, {backend}, {threads} thread(s), batch {batch}: {} for the batch, {:.2} of the limit ({}, {}); one query was predicted to take {}",
            seconds(self.seconds),
            self.ratio,
            self.floor,
            seconds(self.floor_seconds),
            seconds(self.predicted_seconds)
        ))?;
        for step in &self.steps {
            let predicted = step.predicted_seconds.map(|time| format!(" (predicted {})", seconds(time)));
            print_line(&format!(
                "  {}: {}{}",
                step.name,
                seconds(step.seconds),
                predicted.unwrap_or_default()
            ))?;
        }
        print_line(&format!(
            "  upload {}, download {}, keys {}, hint {}, memory {}; prepared in {}",
            bytes(self.upload_bytes as u64),
            bytes(self.download_bytes as u64),
            bytes(self.keys_bytes as u64),
            bytes(self.hint_bytes),
            bytes(self.memory_bytes),
            seconds(self.prepare_seconds)
        ))?;
        let margin = self.noise_margin_bits.map(|bits| format!("noise margin {bits:.1} bits, "));
        print_line(&format!(
            "  client: query {}, decode {}; {}{}",
            seconds(self.client_query_seconds),
            seconds(self.client_decode_seconds),
            margin.unwrap_or_default(),
            self.failure.map_or_else(|| "no noise".into(), |failure| format!("failure {failure}"))
        ))
    }
}

//! `spirea-lab bench simple`: whole look-ups through loopback HTTP.
//!
//! The table is built, served and queried in the usual way: by the builder, a server on a port of
//! this machine, and the HTTP client.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use spirea_backend::{Backend as _, FileRows, Residence};
use spirea_client::{ClientOptions, HttpClient};
use spirea_console::threads::Threads;
use spirea_cpu::CpuBackend;
use spirea_engine::{Database, Engine, KeyRegistry};
use spirea_math::random::SecretRng;
use spirea_protocols::parameters::Stored;
use spirea_protocols::registry::Choice;
use spirea_protocols::{Opening, Prepared, Query, Table};
use spirea_server::Server;
use spirea_store::ingest::{Format, Selection};
use spirea_store::{BuildOptions, Protocol, Silent, Snapshot};

use super::Options;
use super::report::{Report, Step, Wire, median, median_seconds};
use super::scan::Limits;

/// Length of a value of the benchmark's table, in bytes: with length and checksum, a record has 256
/// bytes.
const VALUE_BYTES: usize = 246;

/// Builds, serves, looks up, and compares the server's time with the scan alone.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let (snapshot, prepare_seconds) = build(options, folder.path())?;
    let params = &snapshot.manifest().protocol;
    let lookups = look_ups(options, &snapshot, folder.path())?;
    let Alone { scan_seconds, limits, noise_margin_bits } = scan_alone(options, &snapshot)?;
    let (floor, floor_seconds) =
        limits.floor(params.matrix_bytes() as usize, options.batch * params.grid.parts());
    let sizes = params.sizes;
    let step = |name, seconds| Step { name, seconds, floor: None, floor_seconds: None };
    let report = Report {
        name: "simple".into(),
        params: Some(params.set.clone()),
        shape: params.stored.shape(),
        backend: options.backend()?.name(),
        threads: options.backend()?.threads(),
        batch: options.batch,
        seconds: lookups.server,
        ratio: floor_seconds / lookups.server,
        floor: floor.clone(),
        floor_seconds,
        wire: Some(Wire {
            upload_bytes: sizes.query_bytes,
            download_bytes: sizes.answer_bytes,
            keys_bytes: sizes.keys_bytes,
            hint_bytes: sizes.hint_bytes,
            prepare_seconds,
            noise_margin_bits,
            failure: params.failure,
        }),
        steps: vec![
            step("client query", lookups.query),
            step("server", lookups.server),
            Step {
                name: "scalar_fold alone",
                seconds: scan_seconds,
                floor: Some(floor),
                floor_seconds: Some(floor_seconds),
            },
            step("network and waiting", lookups.network),
            step("client decode", lookups.decode),
        ],
    };
    report.print(options.format())
}

/// Builds a table of random values with the builder.
fn build(options: &Options, folder: &Path) -> anyhow::Result<(Snapshot, f64)> {
    let input = folder.join("values.bin");
    let mut file = BufWriter::new(File::create(&input)?);
    let mut rng = SecretRng::from_os()?;
    let mut value = [0; VALUE_BYTES];
    let record = Table::index_payload_bytes(VALUE_BYTES) + spirea_protocols::table::CHECKSUM_BYTES;
    for _ in 0..(options.bytes()? / record).max(1) {
        rng.fill(&mut value);
        file.write_all(&value)?;
    }
    file.flush()?;
    let started = Instant::now();
    let (format, selection) = (Format::Raw { record_bytes: VALUE_BYTES }, Selection::default());
    let choice = Choice { set: Some(options.set()?.name().into()), ..Choice::default() };
    let build_options = BuildOptions {
        protocol: Protocol::Named(choice),
        ..BuildOptions::new(&input, format, selection, folder.join("bench"))
    };
    let backend = Arc::new(CpuBackend::new(Threads::all().count())?);
    let snapshot = spirea_store::build(&build_options, &backend, &Silent)?;
    let seconds = started.elapsed().as_secs_f64();
    std::fs::remove_file(input)?;
    Ok((snapshot, seconds))
}

/// Median times of look-ups.
struct LookUps {
    query: f64,
    server: f64,
    network: f64,
    decode: f64,
}

/// Looks up random indices through a server of this process and a port.
fn look_ups(options: &Options, snapshot: &Snapshot, folder: &Path) -> anyhow::Result<LookUps> {
    let engine = Arc::new(Engine::new(64, KeyRegistry::default())?);
    engine.publish(Database::load(snapshot, &options.backend()?, Opening::default(), &Silent)?);
    let runtime = tokio::runtime::Runtime::new()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = runtime.block_on(Server::bind_engine(address, spirea_server::Limits::default(), engine))?;
    let (address, stopper) = (server.local_addr(), server.stopper());
    let serving = runtime.spawn(server.run());

    let name = &snapshot.manifest().name;
    let settings =
        ClientOptions { cache: Some(folder.join("cache")), attempts: 1000, ..ClientOptions::default() };
    let mut client = HttpClient::connect_with(&[&format!("http://{address}")], name, settings)?;
    let mut rng = SecretRng::from_os()?;
    let records = snapshot.manifest().table.records;
    let mut times = [const { Vec::new() }; 4];
    for run in 0..=options.runs {
        let indices: Vec<u64> = (0..options.batch).map(|_| rng.next_u64() % records).collect();
        let timings = client.look_up_indices(&indices)?.timings;
        ensure!(timings.requests == 1, "--batch {} does not fit one request", options.batch);
        if run > 0 {
            let parts = [timings.query, timings.server, timings.network, timings.decode];
            times.iter_mut().zip(parts).for_each(|(times, part)| times.push(part.as_secs_f64()));
        }
    }
    stopper.stop();
    runtime.block_on(serving)??;
    let [query, server, network, decode] = times.map(median);
    Ok(LookUps { query, server, network, decode })
}

/// Measurements of the same matrix without a server.
struct Alone {
    scan_seconds: f64,
    limits: Limits,
    noise_margin_bits: f64,
}

fn scan_alone(options: &Options, snapshot: &Snapshot) -> anyhow::Result<Alone> {
    let (backend, params) = (options.backend()?, &snapshot.manifest().protocol);
    let Stored::Panels { layout, .. } = params.stored else {
        anyhow::bail!("the snapshot holds another protocol");
    };
    let matrix = backend.open(FileRows::all(layout, &snapshot.files().matrix, Residence::Copied))?;
    let words = super::random_words(params.grid.columns * options.batch * params.grid.parts())?;
    let scan_seconds = median_seconds(options.runs, || {
        std::hint::black_box(backend.scalar_fold(&matrix, &words)?);
        Ok(())
    })?;
    let limits = Limits::measure(&backend, matrix.bytes())?;
    drop(matrix);
    let server = params.on().open(&backend, snapshot.files(), Opening::default())?;
    let mut rng = SecretRng::from_os()?;
    let client = params.client(&std::fs::read(snapshot.hint_path())?, &[], &mut rng)?;
    let (mut squares, mut count) = (0.0, 0.0);
    for _ in 0..16 {
        let Prepared { queries, state } = client.query(rng.next_u64() % params.records(), &mut rng)?;
        let answer = server.answer(&[Query { bytes: &queries[0], keys: None }])?.remove(0);
        for error in client.errors(&*state, &[&answer])? {
            squares += error.powi(2);
            count += 1.0;
        }
    }
    let noise_margin_bits = -f64::sqrt(squares / count).log2();
    Ok(Alone { scan_seconds, limits, noise_margin_bits })
}

//! Whole protocols: a server answers queries of real clients over a database made on the device.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use spirea_backend::{Residence, RingBackend as _, Timed};
use spirea_console::device::Scale;
use spirea_console::output::bytes;
use spirea_dpf::OutputKind;
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::parameters::FirstFold;
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::{Files, PreparedKeys, Query, Responder};

use super::limits::{Bound, highest};
use super::stand_in::StandIn;
use super::{Bench, Figure};
use crate::bench::report::{Step, median};

/// Number of timed batches, after one warm-up batch.
const RUNS: usize = 15;
/// Number of clients that take turns in a batch, each with its own keys.
const CLIENTS: usize = 4;

/// A protocol to measure.
struct Plan {
    protocol: &'static str,
    bytes: usize,
    record_bytes: usize,
    batch: usize,
    /// Maximum time of the measurement, including the creation of the database.
    seconds: f64,
}

pub(super) fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    const GIB: usize = 1 << 30;
    let plan = |protocol, bytes, record_bytes, batch, seconds| Plan {
        protocol,
        bytes,
        record_bytes,
        batch,
        seconds,
    };
    let plans = match bench.scale {
        Scale::Full => vec![
            plan("hybrid", 64 * GIB, 256, 1, 30.0),
            plan("hybrid", 8 * GIB, 256, 1, 20.0),
            plan("hybrid", GIB, 256, 1, 20.0),
            plan("double-pack", 64 * GIB, 256, 1, 30.0),
            plan("exppack-simple", 64 * GIB, 256, 32, 40.0),
            plan("exppack-simple", GIB, 256, 1, 20.0),
            plan("onion", GIB, 256, 32, 30.0),
            plan("onion", 4 * GIB, 256, 32, 45.0),
            plan("dpf-xor", 64 * GIB, 256, 1, 20.0),
            plan("dpf-xor", 64 * GIB, 256, 32, 20.0),
            plan("dpf-xor", 64 * GIB, 256, 64, 20.0),
            plan("dpf-xor", 64 * GIB, 32, 32, 20.0),
            plan("dpf-sum", 4 * GIB, 256, 32, 20.0),
            plan("simple", 64 * GIB, 256, 32, 30.0),
        ],
        Scale::Tiny => vec![
            plan("onion", 1 << 15, 256, 2, 0.0),
            plan("dpf-xor", 1 << 16, 256, 2, 0.0),
            plan("dpf-sum", 1 << 16, 256, 2, 0.0),
            plan("simple", 1 << 18, 256, 2, 0.0),
        ],
    };
    for plan in plans {
        let what = format!("{} {} batch {}", plan.protocol, bytes(plan.bytes as u64), plan.batch);
        bench.item(&what, plan.seconds, |bench| measure_protocol(bench, &plan))?;
    }
    Ok(())
}

fn measure_protocol(bench: &mut Bench, plan: &Plan) -> anyhow::Result<()> {
    let params = choose(bench, plan)?;
    let stand_in = Arc::new(StandIn::new(Arc::clone(&bench.backend)));
    let timed = Arc::new(Timed::new(Arc::clone(&stand_in)));
    let mut rng = SecretRng::from_os()?;
    let server = open(&params, &timed)?;
    stand_in.serve();

    let hint = vec![0; usize::try_from(params.sizes.hint_bytes)?];
    let clients = (0..plan.batch.min(CLIENTS)).map(|_| params.client(&hint, &[], &mut rng));
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    drop(hint);
    let keys =
        clients.iter().map(|client| client.keys().map(|keys| server.prepare_keys(keys.bytes())).transpose());
    let keys: Vec<Option<PreparedKeys>> = keys.collect::<Result<_, _>>()?;
    let mut queries = Vec::with_capacity(plan.batch);
    for i in 0..plan.batch {
        let index = rng.next_u64() % params.records();
        queries.push(clients[i % clients.len()].query(index, &mut rng)?.queries.swap_remove(0));
    }
    let batch: Vec<Query<'_>> = queries
        .iter()
        .zip(keys.iter().cycle())
        .map(|(query, keys)| Query { bytes: query, keys: keys.as_ref() })
        .collect();

    let answer = || -> anyhow::Result<f64> {
        let started = Instant::now();
        std::hint::black_box(server.answer(&batch)?);
        Ok(started.elapsed().as_secs_f64())
    };
    let runs = if bench.scale == Scale::Full { RUNS } else { 1 };
    if bench.scale == Scale::Full {
        answer()?;
    }
    let times = (0..runs).map(|_| answer()).collect::<anyhow::Result<Vec<_>>>()?;
    stand_in.wait_for_steps();
    let mut steps = BTreeMap::<&str, Vec<f64>>::new();
    for _ in 0..runs {
        timed.observer().take();
        answer()?;
        for (step, time) in timed.observer().take() {
            steps.entry(step).or_default().push(time.as_secs_f64());
        }
    }
    let steps = steps.into_iter().map(|(name, times)| Step {
        name,
        seconds: median(times),
        floor: None,
        floor_seconds: None,
    });
    bench.figure(Figure {
        name: plan.protocol,
        params: Some(params.set.clone()),
        shape: shape(&params),
        batch: plan.batch,
        seconds: median(times),
        bound: bound(bench, &params, plan.batch)?,
        steps: steps.collect(),
    })
}

/// Chooses parameters for the largest database that fits.
fn choose(bench: &Bench, plan: &Plan) -> anyhow::Result<ProtocolParams> {
    let choice = Choice { protocol: plan.protocol.into(), ..Choice::default() };
    let mut records = (plan.bytes / plan.record_bytes) as u64;
    let (free, _) = bench.backend.device().memory()?;
    loop {
        let params = ProtocolParams::choose(&choice, Seed::new([1; 32]), records, plan.record_bytes)?;
        // The leaves of all queries of a batch are in memory at the same time, up to
        // `leaves_memory`. `memory_bytes` includes the leaves of one query.
        let with_one = params.memory_bytes;
        let held = params.matrix_bytes() + params.server_bytes;
        let others = (plan.batch as u64 - 1) * with_one.saturating_sub(held);
        let needed = with_one + others.min(bench.backend.leaves_memory());
        if needed as f64 <= 0.9 * free as f64 {
            return Ok(params);
        }
        records = (records / 2).max(1);
        anyhow::ensure!(records > 1, "the device has no room for any database");
    }
}

/// Opens a server over sparse files: only their lengths matter, which follow from the parameters.
fn open(params: &ProtocolParams, backend: &Arc<Timed<StandIn>>) -> anyhow::Result<Box<dyn Responder>> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let files = Files::at(folder.path().join("matrix"), folder.path().join("server"));
    for (file, length) in [(&files.matrix, params.matrix_bytes()), (&files.server, params.server_bytes)] {
        File::create(file)
            .and_then(|file| file.set_len(length))
            .with_context(|| format!("{}: cannot be made", file.path().display()))?;
    }
    Ok(params.on().open(backend, &files, params.openings(Residence::Copied)[0])?)
}

/// Returns the rows and the columns of the database. For folds of records these are the number of
/// records and the bytes of each.
fn shape(params: &ProtocolParams) -> [usize; 2] {
    match params.first_fold {
        FirstFold::Rows { .. } => [params.records() as usize, params.record_bytes()],
        FirstFold::Bytes | FirstFold::Polynomials(_) => params.stored.shape(),
    }
}

/// Returns the lower bound of a batch's time: the time to read the database once or, if longer, the
/// time of the arithmetic on all of its bytes.
fn bound(bench: &Bench, params: &ProtocolParams, batch: usize) -> anyhow::Result<Bound> {
    let limits = &bench.limits;
    let (bytes, queries) = (params.folded_bytes() as f64, batch as f64);
    let memory = limits.memory(bytes);
    Ok(match params.first_fold {
        FirstFold::Bytes => highest([memory, limits.byte_products(4.0 * bytes * queries)]),
        FirstFold::Polynomials(set) => {
            highest([memory, limits.residue_products(set.ring(), 2.0 * bytes / 4.0 * queries)])
        }
        FirstFold::Rows { prf, domain, bins, .. } => {
            let calls = (bins as u64 * domain.calls(prf)) as f64;
            let mut bounds = vec![memory, limits.calls(prf, calls * queries)];
            if domain.output() == OutputKind::U32 {
                bounds.push(limits.word_products(bytes / 4.0 * queries));
            }
            highest(bounds)
        }
    })
}

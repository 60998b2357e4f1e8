//! `spirea-lab bench dpf`: keys evaluated on their whole domain, compared with the cost of the
//! pseudorandom function's calls alone.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Args;
use spirea_console::output::Format;
use spirea_cpu::{CpuBackend, Traversal, rates};
use spirea_dpf::{Domain, Key, OutputKind, PrfKind, select};
use spirea_math::random::SecretRng;

use super::Options;
use super::report::{Report, Step, best_seconds, median};

/// Options of `spirea-lab bench dpf`.
#[derive(Args)]
pub struct DpfOptions {
    /// The domain has 2^LOG points.
    #[arg(long, value_name = "LOG", default_value_t = 20)]
    log_domain: u32,
    /// Output at each point: bit, u32, u64 or u128.
    #[arg(long, default_value = "bit")]
    output: OutputKind,
    /// Pseudorandom function: aes-128, chacha20, chacha12, salsa20, salsa12, siphash, highwayhash
    /// or sha-256.
    #[arg(long, default_value = "aes-128")]
    prf: PrfKind,
    /// Order of evaluation: memory-bounded, level-by-level or branch-parallel; all by default.
    #[arg(long)]
    strategy: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Generates the keys of a random point.
pub(super) fn random_keys(prf: PrfKind, domain: Domain, rng: &mut SecretRng) -> anyhow::Result<[Key; 2]> {
    let point = rng.next_u64() % domain.points();
    Ok(select(prf, domain, point, rng)?)
}

/// Times evaluation by each strategy, and key generation.
pub fn run(request: &DpfOptions) -> anyhow::Result<()> {
    let DpfOptions { log_domain, output, prf, options, .. } = request;
    ensure!(*log_domain <= 40, "--log-domain must be at most 40");
    ensure!(options.batch > 0, "--batch must be at least 1");
    let domain = Domain::new(1 << log_domain, *output)?;
    let strategies = match &request.strategy {
        None => Traversal::ALL.to_vec(),
        Some(name) => {
            let known = Traversal::ALL.into_iter().find(|strategy| strategy.name() == name);
            let names = Traversal::ALL.map(Traversal::name).join(", ");
            vec![known.with_context(|| format!("no strategy is called {name:?}; there are {names}"))?]
        }
    };
    let backend = options.backend()?;
    let mut rng = SecretRng::from_os()?;
    let generation = generation_seconds(domain, *prf, &mut rng)?;
    let keys = (0..options.batch).map(|_| {
        let [key, _] = random_keys(*prf, domain, &mut rng)?;
        Ok(key)
    });
    let keys: Vec<Key> = keys.collect::<anyhow::Result<_>>()?;
    for strategy in strategies {
        let report = evaluate(&backend, &keys, *prf, strategy, options.runs, generation)?;
        report.print(Format::from_flag(options.json))?;
    }
    Ok(())
}

/// Returns the median time for generating both keys of a point, in seconds.
fn generation_seconds(domain: Domain, prf: PrfKind, rng: &mut SecretRng) -> anyhow::Result<f64> {
    const KEYS: usize = 200;
    let mut times = Vec::with_capacity(KEYS);
    for _ in 0..KEYS {
        let started = Instant::now();
        std::hint::black_box(random_keys(prf, domain, rng)?);
        times.push(started.elapsed().as_secs_f64());
    }
    Ok(median(times))
}

fn evaluate(
    backend: &CpuBackend,
    keys: &[Key],
    prf: PrfKind,
    strategy: Traversal,
    runs: usize,
    generation: f64,
) -> anyhow::Result<Report> {
    let domain = keys[0].domain();
    let calls = domain.calls(prf) * keys.len() as u64;
    // Short evaluations are repeated, so that a run takes at least a millisecond.
    let repeats = (1_000_000 / calls).max(1) as u32;
    let (mut times, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs.max(1) {
        let seconds = best_seconds(rates::RUNS, || {
            for _ in 0..repeats {
                std::hint::black_box(backend.evaluate_domain(prf, std::hint::black_box(keys), strategy));
            }
            Ok(())
        })? / f64::from(repeats);
        let rate = rates::prf_calls_per_second(backend.isa(), prf) * backend.threads() as f64;
        let floor = calls as f64 / rate;
        times.push(seconds);
        floors.push(floor);
        ratios.push(floor / seconds);
    }
    Ok(Report {
        name: format!("dpf {}", strategy.name()),
        params: Some(format!("{prf}, {}, keys of {} bytes", domain.output().name(), domain.key_bytes())),
        shape: [domain.points() as usize, 1],
        backend: format!("cpu-{}", backend.isa()),
        threads: backend.threads(),
        batch: keys.len(),
        seconds: median(times),
        floor: prf.name().into(),
        floor_seconds: median(floors),
        ratio: median(ratios),
        wire: None,
        steps: vec![Step { name: "generate", seconds: generation, floor: None, floor_seconds: None }],
    })
}

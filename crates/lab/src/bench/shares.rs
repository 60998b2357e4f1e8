//! `spirea-lab bench dpf-xor` and `dpf-sum`: one server's fold of a database by the shares of a
//! batch of keys.

use anyhow::ensure;
use clap::Args;
use spirea_backend::{MAX_KEYS, RowLayout, ShareBackend as _};
use spirea_cpu::{CpuBackend, CpuRows, rates};
use spirea_dpf::{Domain, Key, OutputKind, PrfKind};
use spirea_math::random::SecretRng;

use super::Options;
use super::dpf::random_keys;
use super::report::{Report, Step, best_seconds, median};

/// Options of these benchmarks.
#[derive(Args)]
pub struct ShareOptions {
    /// Bytes of a record, at most 4096.
    #[arg(long, default_value_t = 32)]
    record_bytes: usize,
    /// Bits of the words that shares multiply, 32 or 64; of `dpf-sum` only.
    #[arg(long, default_value_t = 32)]
    word_bits: u32,
    /// Pseudorandom function: aes-128, chacha20, chacha12, salsa20, salsa12, siphash, highwayhash
    /// or sha-256.
    #[arg(long, default_value = "aes-128")]
    prf: PrfKind,
    #[command(flatten)]
    options: Options,
}

/// Times `dpf-xor`.
pub fn run_xor(request: &ShareOptions) -> anyhow::Result<()> {
    run(request, "dpf-xor", OutputKind::Bit)
}

/// Times `dpf-sum`.
pub fn run_sum(request: &ShareOptions) -> anyhow::Result<()> {
    ensure!(request.word_bits == 32 || request.word_bits == 64, "--word-bits must be 32 or 64");
    run(request, "dpf-sum", if request.word_bits == 32 { OutputKind::U32 } else { OutputKind::U64 })
}

fn run(request: &ShareOptions, name: &str, output: OutputKind) -> anyhow::Result<()> {
    let ShareOptions { record_bytes, prf, options, .. } = request;
    ensure!((1..=MAX_KEYS).contains(&options.batch), "--batch must be between 1 and {MAX_KEYS}");
    let backend = options.backend()?;
    let layout = RowLayout::new(options.bytes()? / (*record_bytes).max(1), *record_bytes, 1)?;
    let mut rng = SecretRng::from_os()?;
    let rows = random_rows(&backend, layout, &mut rng)?;
    let domain = Domain::new(layout.rows() as u64, output)?;
    let keys = (0..options.batch).map(|_| {
        let [key, _] = random_keys(*prf, domain, &mut rng)?;
        Ok(key)
    });
    let keys: Vec<Key> = keys.collect::<anyhow::Result<_>>()?;
    let (mut times, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bound, mut steps) = ("", Vec::new());
    for _ in 0..options.runs.max(1) {
        let seconds = best_seconds(rates::RUNS, || {
            std::hint::black_box(backend.share_fold(&rows, 0, *prf, &keys)?);
            Ok(())
        })?;
        let limits = limits(&backend, &rows, domain, *prf, options.batch)?;
        let slowest = limits.iter().max_by(|a, b| a.1.total_cmp(&b.1)).copied().unwrap_or_default();
        bound = slowest.0;
        steps = limits;
        times.push(seconds);
        floors.push(slowest.1);
        ratios.push(slowest.1 / seconds);
    }
    let report = Report {
        name: name.into(),
        params: Some(format!("{prf}, {}, keys of {} bytes", output.name(), domain.key_bytes())),
        shape: [layout.rows(), layout.row_bytes()],
        backend: format!("cpu-{}", backend.isa()),
        threads: backend.threads(),
        batch: options.batch,
        seconds: median(times),
        floor: bound.into(),
        floor_seconds: median(floors),
        ratio: median(ratios),
        wire: None,
        steps: steps
            .into_iter()
            .map(|(name, seconds)| Step { name, seconds, floor: None, floor_seconds: None })
            .collect(),
    };
    report.print(options.format())
}

/// Measures the limits of a fold: reading the database once, the function's calls, and for words
/// the products.
fn limits(
    backend: &CpuBackend,
    rows: &CpuRows,
    domain: Domain,
    prf: PrfKind,
    batch: usize,
) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let (threads, isa) = (backend.threads(), backend.isa());
    let calls = (domain.calls(prf) * batch as u64) as f64;
    let mut limits = vec![
        (rates::MEMORY, rows.bytes().len() as f64 / rates::read_bandwidth(threads, rows.bytes())?),
        (prf.name(), calls / (rates::prf_calls_per_second(isa, prf) * threads as f64)),
    ];
    if domain.output() == OutputKind::U32 {
        let products = (rows.bytes().len() / 4 * batch) as f64;
        let peak = rates::share_multiply_add_peak(isa).unwrap_or(f64::INFINITY) * threads as f64;
        limits.push((rates::SHARE_MULTIPLY_ADD, products / peak));
    }
    Ok(limits)
}

fn random_rows(backend: &CpuBackend, layout: RowLayout, rng: &mut SecretRng) -> anyhow::Result<CpuRows> {
    let mut bytes = vec![0; layout.bytes()];
    rng.fill(&mut bytes);
    Ok(backend.upload_rows(layout, &bytes)?)
}

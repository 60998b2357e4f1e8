//! `spirea-lab bench`: figures compared with the limits that bound them, measured in the same
//! process.

mod dpf;
mod hint;
mod pim;
mod plot;
mod protocol;
pub(crate) mod report;
mod scan;
mod shares;
mod simple;
mod steps;

use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use spirea_backend::{Backend as _, PanelLayout};
use spirea_console::output::Format;
use spirea_console::threads::Threads;
use spirea_cpu::{CpuBackend, CpuMatrix, Isa};
use spirea_lattice::LweSet;
use spirea_math::random::SecretRng;

/// Commands of `spirea-lab bench`.
#[derive(Subcommand)]
pub enum Bench {
    /// Step `scalar_fold`: the scan of a database for a batch of queries.
    Scan(Options),
    /// The hint of a database, with the structured and with the uniform public matrix.
    Hint(Options),
    /// Whole look-ups through loopback HTTP.
    Simple(Options),
    /// The steps on rings, each compared with its limit.
    Steps(Options),
    /// Keys of distributed point functions, evaluated on their whole domain.
    Dpf(dpf::DpfOptions),
    /// One server's fold by shared bits, with a key for each query.
    DpfXor(shares::ShareOptions),
    /// One server's fold by shared words, with a key for each query.
    DpfSum(shares::ShareOptions),
    /// Processing in memory: a model of the machine, compared with the values that IM-PIR reports.
    Pim(pim::PimOptions),
    /// The server of any protocol, split by step.
    Protocol(protocol::ProtocolOptions),
    /// Draw results as SVG: how near each is to its limit, and where a protocol's time goes.
    Plot(plot::PlotOptions),
}

/// Options that the benchmarks share.
#[derive(Args, Clone)]
pub struct Options {
    /// Size of the database in GiB.
    #[arg(long, default_value_t = 1.0)]
    db_gib: f64,
    /// Queries in a batch.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Threads of the server's computation; 0 for all.
    #[arg(long, default_value = "1")]
    threads: Threads,
    /// Number of timed runs, after one warm-up run.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Instruction set: portable, avx2 or avx512; by default the best available.
    #[arg(long)]
    isa: Option<String>,
    /// LWE set: module-1280, module-1536 or paper.
    #[arg(long, default_value = "module-1280")]
    set: String,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

impl Options {
    fn format(&self) -> Format {
        Format::from_flag(self.json)
    }

    fn isa(&self) -> anyhow::Result<Isa> {
        let available = Isa::available();
        let names = || available.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
        match &self.isa {
            None => available.last().copied().context("a processor has at least the portable path"),
            Some(name) => available
                .iter()
                .copied()
                .find(|isa| isa.name() == name)
                .with_context(|| format!("this processor has no path {name:?}; it has {}", names())),
        }
    }

    fn backend(&self) -> anyhow::Result<Arc<CpuBackend>> {
        Ok(Arc::new(CpuBackend::with_isa(self.isa()?, self.threads.count())?))
    }

    fn set(&self) -> anyhow::Result<LweSet> {
        LweSet::by_name(&self.set).with_context(|| {
            format!("no LWE set is called {:?}: module-1280, module-1536 or paper", self.set)
        })
    }

    fn bytes(&self) -> anyhow::Result<usize> {
        if !(self.db_gib > 0.0 && self.db_gib <= 1024.0) {
            bail!("--db-gib must be above 0 and at most 1024");
        }
        Ok((self.db_gib * f64::from(1 << 30)) as usize)
    }

    /// Returns the layout of a square matrix of the requested size, with columns in blocks of 256.
    fn layout(&self) -> anyhow::Result<PanelLayout> {
        let bytes = self.bytes()?;
        let columns = ((bytes as f64).sqrt() as usize).next_multiple_of(256);
        Ok(PanelLayout::covering(bytes.div_ceil(columns), columns)?)
    }
}

/// Runs a benchmark and prints its report.
pub fn run(bench: Bench) -> anyhow::Result<()> {
    match bench {
        Bench::Scan(options) => scan::run(&options),
        Bench::Hint(options) => hint::run(&options),
        Bench::Simple(options) => simple::run(&options),
        Bench::Steps(options) => steps::run(&options),
        Bench::Dpf(options) => dpf::run(&options),
        Bench::DpfXor(options) => shares::run_xor(&options),
        Bench::DpfSum(options) => shares::run_sum(&options),
        Bench::Pim(options) => pim::run(&options),
        Bench::Protocol(options) => protocol::run(&options),
        Bench::Plot(options) => plot::run(&options),
    }
}

/// Uploads a matrix of random bytes.
fn random_matrix(backend: &CpuBackend, layout: PanelLayout) -> anyhow::Result<CpuMatrix> {
    let mut bytes = vec![0; layout.bytes()];
    SecretRng::from_os()?.fill(&mut bytes);
    Ok(backend.upload(layout, &bytes)?)
}

/// Draws random query words.
fn random_words(count: usize) -> anyhow::Result<Vec<u32>> {
    let mut rng = SecretRng::from_os()?;
    Ok((0..count).map(|_| rng.next_u64() as u32).collect())
}

//! `spirea build`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use spirea_cpu::CpuBackend;
use spirea_lattice::LweSet;
use spirea_protocols::planner::{self, Advice, Needs, Rates};
use spirea_protocols::registry::Choice;
use spirea_store::ingest::{Format, Selection};
use spirea_store::{BuildOptions, Overwrite, Progress, Protocol, Silent, Snapshot, build};

use crate::inspect::explain;
use crate::output::{print_line, seconds, threads};
use crate::progress::Bars;

/// What to build.
#[derive(Args)]
pub struct Options {
    /// The table: CSV, JSONL, Parquet, npy or fixed-width.
    #[arg(long)]
    input: PathBuf,
    /// Column of the keys; without one the table is looked up by position.
    #[arg(long)]
    key: Option<String>,
    /// Columns of the values; several become the fields of one value.
    #[arg(long, num_args = 1..)]
    value: Vec<String>,
    /// Folder of the snapshot; its name becomes the dataset's.
    #[arg(long)]
    out: PathBuf,
    /// Name of the dataset, if not the folder's.
    #[arg(long)]
    name: Option<String>,
    /// Format of the input, if its name does not tell: csv, jsonl, parquet, npy.
    #[arg(long)]
    format: Option<String>,
    /// Bytes of a value in a fixed-width file.
    #[arg(long)]
    record_bytes: Option<usize>,
    /// Protocol: simple, double, exppack-simple, exppack-double, double-pack, hybrid, onion; or auto, for the one
    /// that `spirea plan` recommends.
    #[arg(long, default_value = "simple")]
    protocol: String,
    /// LWE set: module-1280, or paper for a uniform public matrix.
    #[arg(long, default_value = LweSet::Module1280.name())]
    set: String,
    /// Ring set, if not the protocol's default: fast or paper for packing; onion-32 or onion-30 for onion.
    #[arg(long)]
    ring: Option<String>,
    /// Replace a snapshot that is there, when the new one is complete.
    #[arg(long)]
    overwrite: bool,
    /// Threads; 0 for all.
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

impl Options {
    fn protocol(&self) -> anyhow::Result<Protocol> {
        if self.protocol == "auto" {
            let rates = Rates::measure(&CpuBackend::new(threads(self.threads))?, &planner::DEFAULT_SETS)?;
            return Ok(Protocol::Planned(Advice { needs: Needs::default(), rates }));
        }
        Ok(Protocol::Named(Choice {
            protocol: self.protocol.clone(),
            set: self.set.clone(),
            ring: self.ring.clone(),
        }))
    }
}

/// Builds and says what it built.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let format = Format::choose(options.format.as_deref(), options.record_bytes, &options.input)?;
    let selection = Selection { key: options.key.clone(), values: options.value.clone() };
    let build_options = BuildOptions {
        name: options.name.clone(),
        protocol: options.protocol()?,
        overwrite: if options.overwrite { Overwrite::Replace } else { Overwrite::Refuse },
        ..BuildOptions::new(&options.input, format, selection, &options.out)
    };
    let started = Instant::now();
    let snapshot = build_with(&build_options, options.threads, &Bars::new())?;
    print_line(&format!("built {} in {}", options.out.display(), seconds(started.elapsed().as_secs_f64())))?;
    for (label, text) in explain(&snapshot) {
        print_line(&format!("{label:>16}  {text}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn build_with(options: &BuildOptions, wanted: usize, progress: &dyn Progress) -> anyhow::Result<Snapshot> {
    let backend = Arc::new(CpuBackend::new(threads(wanted))?);
    Ok(build(options, &backend, progress)?)
}

/// A snapshot of a file of fixed-width values.
pub fn fixed_width(input: &Path, bytes: usize, set: LweSet, out: &Path) -> anyhow::Result<Snapshot> {
    let format = Format::choose(None, Some(bytes), input)?;
    let selection = Selection { key: None, values: Vec::new() };
    let options = BuildOptions {
        protocol: Protocol::Named(Choice { set: set.name().into(), ..Choice::default() }),
        ..BuildOptions::new(input, format, selection, out)
    };
    build_with(&options, 0, &Silent)
}

//! `spirea build`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{bail, ensure};
use clap::Args;
use spirea_cpu::CpuBackend;
use spirea_dpf::PrfKind;
use spirea_lattice::LweSet;
use spirea_protocols::choice::{KeyDelivery, Preference, SecurityLevel};
use spirea_protocols::dpf::Words;
use spirea_protocols::planner::{Advice, Needs, Rates};
use spirea_protocols::registry::Choice;
use spirea_protocols::table::{LEAST_KEY_QUERIES, MOST_KEY_QUERIES};
use spirea_store::ingest::{Format, Selection};
use spirea_store::signing::{read_key, sign};
use spirea_store::{
    BuildOptions, Duplicates, ExpectedRows, Input, Overwrite, Progress, Protocol, Proving, Silent, Snapshot,
    build,
};

use crate::input::InputOptions;
use crate::inspect::explain;
use crate::output::{is_quiet, parse_length, print_line, seconds};
use crate::progress::Bars;
use crate::status::Status;
use crate::threads::Threads;

/// What to build.
#[derive(Args)]
pub struct Options {
    /// The table: CSV, TSV, JSON, JSONL, Parquet, npy or fixed-width, or a pipe; - for standard input, with --format. What is
    /// compressed by gzip, zstd or xz, or is the only file of a zip, is told by its content. Several files, a folder of files or
    /// a pattern such as 'logs/*.csv' make one table; folders called column=value give columns.
    #[arg(long, required = true, num_args = 1..)]
    input: Vec<PathBuf>,
    /// Column of the keys; without one the table is looked up by position.
    #[arg(long)]
    key: Option<String>,
    /// Columns of the values; several become the fields of one value. Without any, a table of keys is a set.
    #[arg(long, num_args = 1..)]
    value: Vec<String>,
    /// Treatment of keys in several rows: refuse the table, or take the first or the last row of each.
    #[arg(long, default_value = "refuse", value_name = "refuse|first|last")]
    on_duplicate: Duplicates,
    /// Folder of the snapshot; its name becomes the dataset's.
    #[arg(long)]
    out: PathBuf,
    /// Name of the dataset, if not the folder's.
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    file: InputOptions,
    /// Protocol: simple, double, exppack-simple, exppack-double, double-pack, hybrid, onion; dpf-xor or dpf-sum, which
    /// two servers answer; or auto, for the one that `spirea plan` recommends.
    #[arg(long, default_value = "simple")]
    protocol: String,
    /// What parameter sets must reach: standard, at least 128 bits by the models that count operations; or conservative,
    /// ML-KEM-512 by core-SVP too, for which module-1536, fast and onion-26 are chosen and a weaker --set or --ring is
    /// refused.
    #[arg(long, default_value = "standard")]
    security: SecurityLevel,
    /// What the protocol's shape is chosen for: time, the server's; communication, the bytes of a query and its answer
    /// where that takes the server at most 2.1 times as long; or balance.
    #[arg(long, default_value = "balance")]
    prefer: Preference,
    /// LWE set, if not the level's: module-1280, module-1536, or paper for a uniform public matrix.
    #[arg(long)]
    set: Option<String>,
    /// Ring set, if not the protocol's default: fast, small or paper for packing; onion-32, onion-30 or onion-26 for
    /// onion.
    #[arg(long)]
    ring: Option<String>,
    /// Pseudorandom function of dpf-xor and dpf-sum: aes-128, chacha20, chacha12, salsa20, salsa12, sha-256; or siphash
    /// or highwayhash, with --accept-weak-prf.
    #[arg(long, default_value = "aes-128")]
    prf: PrfKind,
    /// Take a pseudorandom function that has little cryptanalysis behind it.
    #[arg(long)]
    accept_weak_prf: bool,
    /// How the evaluation keys of a client reach the server: registered, once; or per-query, with each query of
    /// exppack-simple, exppack-double or hybrid, whose secret is used for nothing else, so that of what a query holds
    /// only the version links it to others. Without it, registered, and with --protocol auto whichever is better.
    #[arg(long, value_name = "WAY")]
    keys: Option<KeyDelivery>,
    /// Bits of the words of dpf-sum: 32 or 64.
    #[arg(long, default_value_t = 32)]
    word_bits: u32,
    /// Bins of as many records each, of dpf-xor and dpf-sum: a query brings a record of each for the work of one, and is as
    /// many keys long. Such a table has no deltas: changes make a new base.
    #[arg(long, default_value_t = 1)]
    bins: usize,
    /// The most bytes of a value, in the input and in later changes, such as 64KiB, up to 1MiB; without it as many as the
    /// longest value has, and at least 4 KiB. Every record has room for the longest.
    #[arg(long, value_name = "SIZE", value_parser = parse_length)]
    max_value: Option<usize>,
    /// Inclusion proofs, by which a client verifies that a record is the one built here: include or omit. They take 16
    /// bytes for each level of a tree over the records, except the upper eight. Short rows share a record and its proof.
    /// By default onion and hybrid with several groups include proofs if clients register keys, because a lying server
    /// could learn an earlier index from accepted answers otherwise.
    #[arg(long, value_name = "CHOICE", num_args = 0..=1, require_equals = true, default_missing_value = "include")]
    proofs: Option<Proving>,
    /// Most queries that a client sends under one set of registered keys, 64 to 1024; 1024 by default. A shorter life reveals less
    /// when an answer is refused, and links fewer queries; clients upload keys more often.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(LEAST_KEY_QUERIES..=MOST_KEY_QUERIES))]
    key_queries: Option<u64>,
    /// Refuse an input of another number of rows: 5000, 4000.. for at least so many, or 4000..6000.
    #[arg(long, value_name = "ROWS")]
    expect_rows: Option<ExpectedRows>,
    /// Replace a snapshot that is there, when the new one is complete.
    #[arg(long)]
    overwrite: bool,
    /// Sign the snapshot with the private key in this file.
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Threads; 0 for all.
    #[arg(long, default_value = "0")]
    threads: Threads,
}

impl Options {
    /// The files to build from.
    pub fn files(&self) -> anyhow::Result<Input> {
        Ok(Input::Files(self.file.files(&self.input)?))
    }

    /// How many threads to build on.
    pub fn threads(&self) -> Threads {
        self.threads
    }

    /// What to build of `input`.
    pub fn build_options(&self, input: Input) -> anyhow::Result<BuildOptions> {
        let (key, values, nulls) = (self.key.clone(), self.value.clone(), self.file.nulls);
        Ok(BuildOptions {
            duplicates: self.on_duplicate,
            name: self.name.clone(),
            protocol: self.protocol()?,
            max_value: self.max_value,
            proving: self.proofs,
            key_queries: self.key_queries,
            expected_rows: self.expect_rows,
            overwrite: if self.overwrite { Overwrite::Replace } else { Overwrite::Refuse },
            ..BuildOptions::of(input, Selection { key, values, nulls }, &self.out)
        })
    }

    fn protocol(&self) -> anyhow::Result<Protocol> {
        if self.protocol == "auto" {
            ensure!(
                self.set.is_none() && self.ring.is_none() && self.bins == 1,
                "--protocol auto chooses the parameter sets too: leave --set, --ring and --bins away"
            );
            let rates = Rates::measure(&CpuBackend::new(self.threads.count())?, &self.security.ring_sets())?;
            let Self { security, prefer, keys, .. } = *self;
            let needs = Needs { security, prefer, keys, ..Needs::default() };
            return Ok(Protocol::Planned(Advice { needs, rates }));
        }
        ensure!(
            self.accept_weak_prf || !self.prf.needs_consent(),
            "--prf {}: {} What servers learn rests on it: choose another, or confirm with --accept-weak-prf",
            self.prf,
            self.prf.trust()
        );
        let words = match self.word_bits {
            32 => Words::U32,
            64 => Words::U64,
            _ => bail!("--word-bits must be 32 or 64"),
        };
        Ok(Protocol::Named(Choice {
            protocol: self.protocol.clone(),
            set: self.set.clone(),
            ring: self.ring.clone(),
            security: self.security,
            prefer: self.prefer,
            prf: self.prf,
            words,
            bins: self.bins,
            keys: self.keys.unwrap_or_default(),
        }))
    }
}

/// Builds and says what it built.
pub fn run(options: &Options) -> anyhow::Result<Status> {
    let build_options = options.build_options(options.files()?)?;
    // Before the work: a key that cannot be read shall not cost a build.
    let key = options.sign.as_deref().map(read_key).transpose()?;
    let started = Instant::now();
    let progress = Bars::new();
    let snapshot = build_with(&build_options, options.threads, &progress)?;
    if let Some(key) = &key {
        sign(&snapshot, key)?;
    }
    if is_quiet() {
        return Ok(Status::SUCCESS);
    }
    print_line(&format!("built {} in {}", options.out.display(), seconds(started.elapsed().as_secs_f64())))?;
    if options.on_duplicate != Duplicates::Refuse {
        let left_out = progress.rows_left_out();
        print_line(&format!(
            "{:>16}  {left_out} rows left out, whose keys stand in other rows",
            "duplicates"
        ))?;
    }
    for (label, text) in explain(&snapshot) {
        print_line(&format!("{label:>16}  {text}"))?;
    }
    Ok(Status::SUCCESS)
}

fn build_with(options: &BuildOptions, wanted: Threads, progress: &dyn Progress) -> anyhow::Result<Snapshot> {
    let backend = Arc::new(CpuBackend::new(wanted.count())?);
    Ok(build(options, &backend, progress)?)
}

/// A snapshot of a file of fixed-width values.
pub fn fixed_width(input: &Path, bytes: usize, set: LweSet, out: &Path) -> anyhow::Result<Snapshot> {
    let (format, selection) = (Format::Raw { record_bytes: bytes }, Selection::default());
    let options = BuildOptions {
        protocol: Protocol::Named(Choice { set: Some(set.name().into()), ..Choice::default() }),
        ..BuildOptions::new(input, format, selection, out)
    };
    build_with(&options, Threads::all(), &Silent)
}

//! `spirea build`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use spirea_console::input::InputOptions;
use spirea_console::output::{is_quiet, note, parse_length, print_line, seconds};
use spirea_console::status::Status;
use spirea_console::threads::Threads;
use spirea_cpu::CpuBackend;
use spirea_store::ingest::Selection;
use spirea_store::signing::{read_key, sign};
use spirea_store::{
    BuildOptions, Duplicates, ExpectedRows, Input, Overwrite, Protocol, Proving, Snapshot, build,
};

use crate::apple::AudienceOptions;
use crate::forms::FormOptions;
use crate::inspect::explain;
use crate::progress::Bars;
use crate::protocol::{Decision, ProtocolOptions};

/// Options of `spirea build`.
#[derive(Args)]
pub struct Options {
    /// The table: CSV, TSV, JSON, JSONL, Arrow, Parquet, npy or fixed-width, or a pipe; - for
    /// standard input, with --format. Compression by gzip, zstd or xz, and a zip with a single
    /// file, are detected from the content. Several files, a folder of files or a pattern such as
    /// 'logs/*.csv' make one table; folders called column=value give columns.
    #[arg(help_heading = "Input", long, required = true, num_args = 1..)]
    input: Vec<PathBuf>,
    /// Column of the keys; without one the table is looked up by position.
    #[arg(help_heading = "Table", long)]
    key: Option<String>,
    /// Columns of the values; several become the fields of one value. Without any, a table of keys
    /// is a set.
    #[arg(help_heading = "Table", long, num_args = 1..)]
    value: Vec<String>,
    /// Treatment of keys in several rows: refuse the table, or take the first or the last row of
    /// each.
    #[arg(help_heading = "Table", long, default_value = "refuse", value_name = "refuse|first|last")]
    on_duplicate: Duplicates,
    /// Folder of the snapshot; its name becomes the dataset's.
    #[arg(help_heading = "Snapshot", long)]
    out: PathBuf,
    /// Name of the dataset, if not the folder's.
    #[arg(help_heading = "Snapshot", long)]
    name: Option<String>,
    #[command(flatten)]
    file: InputOptions,
    #[command(flatten)]
    forms: FormOptions,
    #[command(flatten)]
    audience: AudienceOptions,
    #[command(flatten)]
    protocol: ProtocolOptions,
    /// Maximum length of a value, in the input and in later changes, such as 64KiB, up to 1MiB; by
    /// default the length of the longest value, and at least 4 KiB. Every record has room for the
    /// longest value.
    #[arg(help_heading = "Table", long, value_name = "SIZE", value_parser = parse_length)]
    max_value: Option<usize>,
    /// Inclusion proofs, by which a client verifies that a record is the one built here: include or
    /// omit. They take 16 bytes for each level of a tree over the records, except the upper eight.
    /// Short rows share a record and its proof. By default, onion and hybrid with several groups
    /// include proofs if clients register keys: without proofs, a lying server could learn an
    /// earlier index from accepted answers.
    #[arg(help_heading = "Table", long, value_name = "CHOICE", num_args = 0..=1, require_equals = true, default_missing_value = "include")]
    proofs: Option<Proving>,
    /// Refuse an input with another number of rows: 5000, 4000.. for at least 4000, or 4000..6000.
    #[arg(help_heading = "Input", long, value_name = "ROWS")]
    expect_rows: Option<ExpectedRows>,
    /// Replace an existing snapshot once the new one is complete.
    #[arg(help_heading = "Snapshot", long)]
    overwrite: bool,
    /// Sign the snapshot with the private key in this file.
    #[arg(help_heading = "Snapshot", long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Threads; 0 for all.
    #[arg(long, default_value = "0")]
    threads: Threads,
}

impl Options {
    /// Returns the files to build from.
    pub fn files(&self) -> anyhow::Result<Input> {
        Ok(Input::Files(self.file.files(&self.input)?))
    }

    /// Number of threads for the build.
    pub fn threads(&self) -> Threads {
        self.threads
    }

    /// Returns the protocol to build, or the planner that chooses it. `tell` receives a line before
    /// the machine is measured.
    pub fn decide(&self, tell: fn(&str)) -> anyhow::Result<Decision> {
        let former = self.former();
        let former = former.as_ref().map(|former| &former.manifest().protocol);
        self.protocol.decide(former, self.threads, tell)
    }

    /// Returns the snapshot to replace. The build refuses to replace anything else.
    fn former(&self) -> Option<Snapshot> {
        self.overwrite.then(|| Snapshot::open(&self.out).ok()).flatten()
    }

    /// Returns the options for building `input` with this protocol.
    pub fn build_options(&self, input: Input, protocol: Protocol) -> anyhow::Result<BuildOptions> {
        let (key, values, nulls) = (self.key.clone(), self.value.clone(), self.file.nulls);
        let former = self.former();
        Ok(BuildOptions {
            duplicates: self.on_duplicate,
            name: self.name.clone(),
            protocol,
            max_value: self.max_value,
            proving: self.proofs,
            types: self.forms.types(),
            key_form: self.forms.key_form(),
            key_queries: self.protocol.key_queries,
            copies: self.protocol.copies(former.as_ref().map(|former| &former.manifest().table)),
            expected_rows: self.expect_rows,
            apple: self.audience.apple(),
            overwrite: if self.overwrite { Overwrite::Replace } else { Overwrite::Refuse },
            ..BuildOptions::of(input, Selection { key, values, nulls }, &self.out)
        })
    }
}

/// Builds a snapshot and prints a summary.
pub fn run(options: &Options) -> anyhow::Result<Status> {
    let decision = options.decide(note)?;
    let build_options = options.build_options(options.files()?, decision.protocol.clone())?;
    // The key is read before the build, so that an unreadable key does not cost a build.
    let key = options.sign.as_deref().map(read_key).transpose()?;
    let started = Instant::now();
    let progress = Bars::new();
    let backend = Arc::new(CpuBackend::new(options.threads.count())?);
    let snapshot = build(&build_options, &backend, &progress)?;
    if let Some(key) = &key {
        sign(&snapshot, key)?;
    }
    if is_quiet() {
        return Ok(Status::SUCCESS);
    }
    print_line(&format!("built {} in {}", options.out.display(), seconds(started.elapsed().as_secs_f64())))?;
    if let Some(reason) = decision.reason() {
        print_line(&format!("{:>16}  {reason}", "chosen"))?;
    }
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

//! `spirea publish`, `spirea rollback`, `spirea compact`: versions of a repository.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use spirea_console::input::{self, InputOptions};
use spirea_console::output::{bytes, note, print_line, seconds};
use spirea_console::status::Status;
use spirea_console::threads::Threads;
use spirea_cpu::CpuBackend;
use spirea_protocols::{Table, TableKind};
use spirea_store::changes::Input;
use spirea_store::repository::{Settings, Shrinking};
use spirea_store::signing::read_key;
use spirea_store::{Changes, Repository, Silent, Snapshot, VersionRecord};

use crate::progress::Bars;
use crate::remote::Remote;
use crate::stream::{Destination, StreamOptions};

/// Options for the repository and for working on it.
#[derive(Args)]
pub struct Target {
    /// Folder of the repository. No server may have it open: publish through such a server, see
    /// --server.
    #[arg(help_heading = "Repository", long, value_name = "FOLDER", conflicts_with = "server")]
    repository: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
    /// Sign the version with the private key in this file (`spirea key new`). A server signs with
    /// its own key (`spirea serve --signing-key`).
    #[arg(help_heading = "Repository", long, value_name = "FILE", conflicts_with = "server")]
    sign: Option<PathBuf>,
    /// Number of versions to keep for roll-backs, at least 2. A server keeps 16. [default: 2; all
    /// for a roll-back]
    #[arg(help_heading = "Repository", long, value_name = "COUNT", conflicts_with = "server")]
    keep: Option<usize>,
    /// Threads of this command; 0 for all.
    #[arg(long, default_value = "0")]
    threads: Threads,
}

/// Number of versions that a publication keeps by default.
const KEPT: usize = 2;

impl Target {
    /// Returns the settings; `kept` is the number of versions to keep if the user gives none.
    fn settings(&self, kept: usize) -> anyhow::Result<Settings> {
        let key = self.sign.as_deref().map(read_key).transpose()?;
        let kept = self.keep.unwrap_or(kept);
        // Each version that is kept may have a base of its own.
        Ok(Settings { kept, bases: kept, key })
    }

    fn folder(&self) -> anyhow::Result<&Path> {
        self.repository.as_deref().context(
            "name the repository: --repository FOLDER, or --server URL --database NAME if a server has it open",
        )
    }

    fn open(&self, kept: usize) -> anyhow::Result<Repository> {
        Ok(Repository::open(self.folder()?, self.settings(kept)?)?)
    }

    fn backend(&self) -> anyhow::Result<Arc<CpuBackend>> {
        Ok(Arc::new(CpuBackend::new(self.threads.count())?))
    }
}

/// Options of `spirea publish`: a base, changes of the current version, or a stream of changes.
#[derive(Args)]
pub struct Publish {
    #[command(flatten)]
    target: Target,
    /// Publish this snapshot (a folder that `spirea build` wrote) as a new base. Creates the
    /// repository if its folder does not exist.
    #[arg(help_heading = "Base", long, value_name = "SNAPSHOT", conflicts_with_all = ["put", "delete", "changes"])]
    base: Option<PathBuf>,
    /// Publish the base even if it has less than half of the current version's values. Without it,
    /// such a base is refused, because its input may have been cut off.
    #[arg(help_heading = "Base", long, requires = "base", conflicts_with_all = ["put", "delete", "changes"])]
    allow_shrinking: bool,
    /// Table of keys with their new values, for keys that exist and for new ones: CSV, JSONL, Arrow
    /// or Parquet, with the columns of the base; a file, a folder of files, or a pattern.
    #[arg(help_heading = "Changes", long, value_name = "FILE")]
    put: Option<PathBuf>,
    /// Table of keys to delete.
    #[arg(help_heading = "Changes", long, value_name = "FILE")]
    delete: Option<PathBuf>,
    /// Column of the keys in both tables; of row numbers, from 0, for a table by position.
    #[arg(help_heading = "Changes", long, value_name = "COLUMN", default_value = "key")]
    key: String,
    #[command(flatten)]
    file: InputOptions,
    /// Changes as lines of JSON in place of the tables: `{"key": KEY, "value": VALUE}` or `{"key":
    /// KEY, "deleted": true}`.
    #[arg(help_heading = "Changes", long, value_name = "FILE", conflicts_with_all = ["put", "delete"])]
    changes: Option<PathBuf>,
    #[command(flatten)]
    stream: StreamOptions,
}

impl Publish {
    fn shrinking(&self) -> Shrinking {
        if self.allow_shrinking { Shrinking::Allow } else { Shrinking::Refuse }
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.put.is_some() || self.delete.is_some() || self.changes.is_some(),
            "say what to publish: --base SNAPSHOT, or changes with --put FILE, --delete FILE, --changes FILE or --stream; such as `spirea publish --repository FOLDER --base SNAPSHOT`"
        );
        Ok(())
    }

    fn input(&self, path: &Path) -> anyhow::Result<Input> {
        let files = self.file.files(&[path.into()])?;
        Ok(Input { files, key: self.key.clone(), nulls: self.file.nulls })
    }

    fn changes(&self, table: &Table) -> anyhow::Result<Changes> {
        if let Some(path) = &self.changes {
            let file = input::open(path)?;
            return Ok(Changes::read_lines(table, file, path)?);
        }
        let [put, delete] =
            [&self.put, &self.delete].map(|path| path.as_deref().map(|path| self.input(path)).transpose());
        Ok(Changes::read(table, put?.as_ref(), delete?.as_ref())?)
    }
}

/// Publishes a base or changes.
pub fn publish(options: &Publish) -> anyhow::Result<Status> {
    let (target, started) = (&options.target, Instant::now());
    if options.stream.is_asked() {
        let destination = match target.remote.publisher()? {
            Some(server) => Destination::Server(server),
            None => Destination::Folder(target.open(KEPT)?, target.backend()?),
        };
        return options.stream.publish(&destination);
    }
    if let Some(server) = target.remote.publisher()? {
        if let Some(base) = &options.base {
            return server.base(base, options.shrinking());
        }
        options.check()?;
        // The changes are read before anything is sent, so that errors name the file and its line.
        let table = server.table()?;
        return server.changes(Cursor::new(options.changes(&table)?.to_lines(&table)?));
    }
    if let Some(base) = &options.base {
        let (repository, base) =
            (Repository::create(target.folder()?, target.settings(KEPT)?)?, Snapshot::open(base)?);
        let protocol = |snapshot: &Snapshot| snapshot.manifest().protocol.name;
        if let Some(former) = repository
            .current()
            .map(|current| protocol(&current.base))
            .filter(|name| *name != protocol(&base))
        {
            note(&format!(
                "the new base has the protocol {}, and the version before {former}: clients follow; build with --protocol {former} to keep it",
                protocol(&base)
            ));
        }
        let record = repository.add_base(&base, options.shrinking(), &Bars::new())?;
        return report("published", &record, started);
    }
    options.check()?;
    let repository = target.open(KEPT)?;
    let Some(current) = repository.current() else {
        bail!("{}: it has no version yet; publish a base with --base SNAPSHOT", target.folder()?.display());
    };
    let changes = options.changes(&current.base.manifest().table)?;
    let record = repository.apply(changes, &target.backend()?, &Silent)?;
    report("published", &record, started)
}

/// Options of `spirea rollback`.
#[derive(Args)]
pub struct Rollback {
    #[command(flatten)]
    target: Target,
    /// Version to make current again, or its first digits: `spirea inspect FOLDER` lists those of a
    /// repository. By default the newest version before the current one that no roll-back has left.
    #[arg(long, value_name = "VERSION", value_parser = first_digits)]
    to: Option<String>,
}

/// Goes back to an earlier version.
pub fn rollback(options: &Rollback) -> anyhow::Result<Status> {
    let started = Instant::now();
    if let Some(server) = options.target.remote.publisher()? {
        return server.roll_back(options.to.as_deref());
    }
    // The target of a roll-back must not be removed first.
    let repository = options.target.open(usize::MAX)?;
    let to = options.to.as_deref().map(|digits| repository.find(digits)).transpose()?;
    report("went back to", &repository.roll_back(to)?, started)
}

/// Reads the first digits of a version.
fn first_digits(text: &str) -> Result<String, String> {
    match text.len() {
        1..=64 if text.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(text.into()),
        _ => Err(
            "a version is 1 to 64 hexadecimal digits: `spirea inspect FOLDER` lists those of a repository"
                .into(),
        ),
    }
}

/// Options of `spirea compact`.
#[derive(Args)]
pub struct Compact {
    #[command(flatten)]
    target: Target,
}

/// Merges the base and its delta into a new base.
pub fn compact(options: &Compact) -> anyhow::Result<Status> {
    let started = Instant::now();
    if let Some(server) = options.target.remote.publisher()? {
        return server.compact();
    }
    let repository = options.target.open(KEPT)?;
    let record = repository.compact(&options.target.backend()?, &Bars::new())?;
    report("compacted into", &record, started)
}

fn report(done: &str, record: &VersionRecord, started: Instant) -> anyhow::Result<Status> {
    let taken = seconds(started.elapsed().as_secs_f64());
    print_line(&format!("{done} version {} of {} in {taken}", record.version, record.name()))?;
    print_line(&describe(record))?;
    Ok(Status::SUCCESS)
}

/// Formats a version in one line.
fn describe(record: &VersionRecord) -> String {
    let table = &record.base.manifest().table;
    let what = match table.kind {
        TableKind::Index => "rows",
        TableKind::Keyword => "values",
    };
    let count = match record.values {
        Some(values) => format!("{values} {what}"),
        // Earlier releases did not count values.
        None => format!("{} {what} in the base", table.entries),
    };
    let delta = record.delta.as_ref().map_or("no changes".into(), |delta| {
        let manifest = delta.manifest();
        let (count, size) = (manifest.table.entries, bytes(manifest.protocol.matrix_bytes()));
        format!("{count} changed in a delta of {size}")
    });
    let cursor = record.cursor.as_ref().map(|cursor| format!(", cursor {cursor}")).unwrap_or_default();
    let signed = record.signature.as_ref().map_or("not signed".into(), |by| format!("signed by {}", by.key));
    format!("number {}, {count}, {delta}, {signed}{cursor}", record.sequence)
}

/// Prints the versions of a repository, each in two lines.
pub fn list(records: &[VersionRecord]) -> anyhow::Result<()> {
    for record in records {
        print_line(&format!("{}  {}  {}", record.version, record.created, record.name()))?;
        print_line(&format!("  {}", describe(record)))?;
    }
    Ok(())
}

//! From a table to a snapshot.
//!
//! The input is read once, into a spool on disk. When all lengths are known, the shape is chosen, and the
//! records are sealed and written. Memory stays near the size of the matrix and its hint: the matrix is
//! written a group of columns at a time and mapped to compute the hint. Nothing is published before real
//! queries of it have been answered.

mod folder;
mod matrix;
mod records;
mod spool;
mod test;
mod writer;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spirea_backend::ProtocolBackend;
use spirea_protocols::ProtocolError;
use spirea_protocols::planner::Advice;
use spirea_protocols::registry::{Choice, Files, Outputs, ProtocolParams};

use crate::error::IoContext;
use crate::files::hash_file;
use crate::ingest::{self, Format, Selection};
use crate::manifest::{
    FORMAT, FileEntry, HINT_FILE, MANIFEST_FILE, MATRIX_FILE, MAX_MANIFEST_BYTES, Manifest, NAME_RULE,
    SERVER_FILE, valid_name,
};
use crate::{Phase, Progress, Snapshot, StoreError, time};

use folder::PartialFolder;
use records::Rows;

/// What to do if the target of a build exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// Leave it and fail.
    #[default]
    Refuse,
    /// Replace it, if it is a snapshot, when the new one is complete.
    Replace,
}

/// The protocol of a snapshot.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// This one.
    Named(Choice),
    /// The one that the planner recommends for the table.
    Planned(Advice),
}

/// What to build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The input file.
    pub input: PathBuf,
    /// Its format; see [`Format::choose`].
    pub format: Format,
    /// The columns; a table without a key column is looked up by position.
    pub selection: Selection,
    /// The snapshot's folder.
    pub out: PathBuf,
    /// Name of the dataset; that of the folder if `None`.
    pub name: Option<String>,
    /// The protocol and its parameter sets.
    pub protocol: Protocol,
    /// What to do if the folder exists.
    pub overwrite: Overwrite,
    /// Derives the public matrix and the table's salt, for a build that repeats itself; drawn at random if
    /// `None`. Whoever knows it before the table is made can choose keys that fall into one bucket.
    pub seed: Option<[u8; 32]>,
}

impl BuildOptions {
    /// A build of `input` into `out` with defaults for the rest.
    pub fn new(
        input: impl Into<PathBuf>,
        format: Format,
        selection: Selection,
        out: impl Into<PathBuf>,
    ) -> Self {
        Self {
            input: input.into(),
            format,
            selection,
            out: out.into(),
            name: None,
            protocol: Protocol::Named(Choice::default()),
            overwrite: Overwrite::default(),
            seed: None,
        }
    }

    fn name(&self) -> Result<String, StoreError> {
        let folder = || self.out.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = self.name.clone().or_else(folder).unwrap_or_default();
        match valid_name(&name) {
            true => Ok(name),
            false => {
                Err(StoreError::BadOption(format!("{name:?} cannot name a dataset: give --name {NAME_RULE}")))
            }
        }
    }

    /// The seed of the public matrix and the table's salt.
    fn seeds(&self) -> Result<([u8; 32], [u8; 32]), StoreError> {
        match &self.seed {
            Some(seed) => Ok((
                blake3::derive_key("spirea build v1: seed of the public matrix", seed),
                blake3::derive_key("spirea build v1: salt of the table", seed),
            )),
            None => Ok((random()?, random()?)),
        }
    }
}

fn random() -> Result<[u8; 32], StoreError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(StoreError::NoEntropy)?;
    Ok(bytes)
}

/// Builds a snapshot and opens it.
///
/// # Errors
/// See [`StoreError`]. After an error the target is as it was, and nothing is left beside it.
pub fn build<B: ProtocolBackend>(
    options: &BuildOptions,
    backend: &Arc<B>,
    progress: &dyn Progress,
) -> Result<Snapshot, StoreError> {
    let (name, created) = (options.name()?, time::created()?);
    if let Protocol::Named(choice) = &options.protocol {
        choice.validate()?;
    }
    let (seed, salt) = options.seeds()?;
    let mut source = ingest::open(&options.input, options.format, &options.selection)?;
    let folder = PartialFolder::create(&options.out, options.overwrite)?;
    let [spool, matrix_path, hint_path, server_path, manifest_path] =
        ["spool", MATRIX_FILE, HINT_FILE, SERVER_FILE, MANIFEST_FILE].map(|name| folder.path().join(name));

    fs::create_dir(&spool).at("create", &spool)?;
    let input_bytes = fs::metadata(&options.input).at("read", &options.input)?.len();
    let rows = Rows::read(&mut *source, options, &spool, input_bytes, salt, progress)?;
    let planned = rows.plan(progress)?;
    let table = planned.table().clone();
    let choice = match &options.protocol {
        Protocol::Named(choice) => choice.clone(),
        Protocol::Planned(advice) => advice.choose(table.records, table.record_bytes())?,
    };
    let protocol = ProtocolParams::choose(&choice, seed, table.records, table.record_bytes())?;
    let (statistics, samples) = planned.encode(protocol.stored(), &matrix_path, progress)?;
    fs::remove_dir_all(&spool).at("remove", &spool)?;

    let (hint, server) = precompute(backend, &protocol, folder.path(), progress)?;
    let bytes = protocol.matrix_bytes();
    let blake3 = hash_file(&matrix_path, &mut |done| progress.update(Phase::Verify, done, bytes))?;
    let manifest = Manifest {
        format: FORMAT,
        name,
        created,
        table,
        protocol,
        matrix: FileEntry { file: MATRIX_FILE.into(), bytes, blake3 },
        hint,
        server,
        statistics,
    };
    manifest.validate()?;
    let files = Files { matrix: matrix_path, server: server_path };
    samples.test(&manifest.protocol, backend, &files, &hint_path, progress)?;
    // Only now, so that the disk worked while the hint was computed.
    for entry in
        [Some(&manifest.matrix), Some(&manifest.hint), manifest.server.as_ref()].into_iter().flatten()
    {
        let path = folder.path().join(&entry.file);
        File::open(&path).and_then(|file| file.sync_all()).at("sync", &path)?;
    }
    write_manifest(&manifest, &manifest_path)?;
    folder.publish()?;
    Snapshot::open(&options.out)
}

/// Computes what the protocol wants of the database beforehand, and writes it: the hint, and what the server
/// keeps, if anything.
fn precompute<B: ProtocolBackend>(
    backend: &Arc<B>,
    protocol: &ProtocolParams,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<(FileEntry, Option<FileEntry>), StoreError> {
    const THOUSANDTHS: f64 = 1000.0;
    let mut report =
        |share: f64| progress.update(Phase::Hint, (share * THOUSANDTHS) as u64, THOUSANDTHS as u64);
    report(0.0);
    let mut hint = HashedFile::create(folder, HINT_FILE)?;
    let mut server = HashedFile::create(folder, SERVER_FILE)?;
    let outputs = Outputs { hint: &mut hint, server: &mut server };
    let outcome = protocol.precompute(backend, &folder.join(MATRIX_FILE), outputs, &mut report);
    report(1.0);
    match outcome {
        Err(ProtocolError::Write(source)) => {
            let path = if server.failed { server.path } else { hint.path };
            Err(source).at("write", &path)
        }
        Err(error) => Err(error.into()),
        Ok(()) => {
            let (hint, server) = (hint.finish()?, server.finish()?);
            if server.bytes > 0 {
                return Ok((hint, Some(server)));
            }
            let path = folder.join(SERVER_FILE);
            fs::remove_file(&path).at("remove", &path)?;
            Ok((hint, None))
        }
    }
}

/// A file of a snapshot, hashed while it is written.
struct HashedFile {
    name: &'static str,
    path: PathBuf,
    file: BufWriter<File>,
    hasher: blake3::Hasher,
    failed: bool,
}

impl HashedFile {
    fn create(folder: &Path, name: &'static str) -> Result<Self, StoreError> {
        let path = folder.join(name);
        let file = BufWriter::with_capacity(1 << 18, File::create_new(&path).at("create", &path)?);
        Ok(Self { name, path, file, hasher: blake3::Hasher::new(), failed: false })
    }

    fn finish(mut self) -> Result<FileEntry, StoreError> {
        self.file.flush().at("write", &self.path)?;
        let (bytes, blake3) = (self.hasher.count(), *self.hasher.finalize().as_bytes());
        Ok(FileEntry { file: self.name.into(), bytes, blake3 })
    }
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes);
        self.failed |= written.is_err();
        self.hasher.update(&bytes[..*written.as_ref().unwrap_or(&0)]);
        written
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Writes the manifest, the last file: a folder without one is no snapshot.
fn write_manifest(manifest: &Manifest, path: &Path) -> Result<(), StoreError> {
    let bytes = manifest.to_bytes();
    if bytes.len() as u64 > MAX_MANIFEST_BYTES {
        let detail = "the names of the columns are too long for a manifest; rename them";
        return Err(StoreError::BadOption(detail.into()));
    }
    let mut file = File::create_new(path).at("create", path)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).at("write", path)
}

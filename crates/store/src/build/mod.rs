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

use spirea_backend::{Backend, Residence};
use spirea_lattice::LweSet;
use spirea_protocols::parameters::Parameters as _;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::simple;

use crate::error::IoContext;
use crate::files::hash_file;
use crate::ingest::{self, Format, Selection};
use crate::manifest::{
    FORMAT, FileEntry, HINT_FILE, MANIFEST_FILE, MATRIX_FILE, MAX_MANIFEST_BYTES, Manifest, NAME_RULE,
    valid_name,
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
    /// Name of the protocol: `simple`.
    pub protocol: String,
    /// Name of the LWE set: `module-1280` or `paper`.
    pub set: String,
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
            protocol: "simple".into(),
            set: LweSet::Module1280.name().into(),
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

    fn set(&self) -> Result<LweSet, StoreError> {
        if self.protocol != "simple" {
            let name = &self.protocol;
            return Err(StoreError::BadOption(format!("no protocol is called {name:?}; there is simple")));
        }
        LweSet::by_name(&self.set).ok_or_else(|| {
            let known = LweSet::ALL.map(LweSet::name).join(", ");
            StoreError::BadOption(format!("no LWE set is called {:?}; there are {known}", self.set))
        })
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
pub fn build<B: Backend>(
    options: &BuildOptions,
    backend: &Arc<B>,
    progress: &dyn Progress,
) -> Result<Snapshot, StoreError> {
    let (name, set, created) = (options.name()?, options.set()?, time::created()?);
    let (seed, salt) = options.seeds()?;
    let mut source = ingest::open(&options.input, options.format, &options.selection)?;
    let folder = PartialFolder::create(&options.out, options.overwrite)?;
    let [spool, matrix_path, hint_path, manifest_path] =
        ["spool", MATRIX_FILE, HINT_FILE, MANIFEST_FILE].map(|name| folder.path().join(name));

    fs::create_dir(&spool).at("create", &spool)?;
    let input_bytes = fs::metadata(&options.input).at("read", &options.input)?.len();
    let rows = Rows::read(&mut *source, options, &spool, input_bytes, salt, progress)?;
    let planned = rows.plan(progress)?;
    let table = planned.table().clone();
    let params = simple::Params::choose(set, seed, table.records, table.record_bytes())?;
    let (statistics, samples) = planned.encode(params.stored(), &matrix_path, progress)?;
    fs::remove_dir_all(&spool).at("remove", &spool)?;

    let hint = write_hint(&**backend, &params, &matrix_path, &hint_path, progress)?;
    let bytes = params.layout().bytes() as u64;
    let blake3 = hash_file(&matrix_path, &mut |done| progress.update(Phase::Verify, done, bytes))?;
    let manifest = Manifest {
        format: FORMAT,
        name,
        created,
        table,
        protocol: ProtocolParams::Simple(params),
        matrix: FileEntry { file: MATRIX_FILE.into(), bytes, blake3 },
        hint,
        statistics,
    };
    manifest.validate()?;
    samples.test(&manifest.protocol, backend, &matrix_path, &hint_path, progress)?;
    // Only now, so that the disk worked while the hint was computed.
    for path in [&matrix_path, &hint_path] {
        File::open(path).and_then(|file| file.sync_all()).at("sync", path)?;
    }
    write_manifest(&manifest, &manifest_path)?;
    folder.publish()?;
    Snapshot::open(&options.out)
}

/// Computes the hint and writes it.
fn write_hint<B: Backend>(
    backend: &B,
    params: &simple::Params,
    matrix: &Path,
    path: &Path,
    progress: &dyn Progress,
) -> Result<FileEntry, StoreError> {
    const THOUSANDTHS: f64 = 1000.0;
    progress.update(Phase::Hint, 0, THOUSANDTHS as u64);
    let matrix = backend
        .open(params.layout(), matrix, Residence::Mapped)
        .map_err(spirea_protocols::ProtocolError::from)?;
    let words = simple::compute_hint(backend, params, &matrix, |share| {
        progress.update(Phase::Hint, (share * THOUSANDTHS) as u64, THOUSANDTHS as u64);
    })?;
    drop(matrix);
    let mut file = BufWriter::with_capacity(1 << 18, File::create_new(path).at("create", path)?);
    let mut hasher = blake3::Hasher::new();
    let mut bytes = vec![0; 4 << 16];
    for words in words.chunks(1 << 16) {
        let bytes = &mut bytes[..words.len() * 4];
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        hasher.update(bytes);
        file.write_all(bytes).at("write", path)?;
    }
    file.flush().at("write", path)?;
    Ok(FileEntry { file: HINT_FILE.into(), bytes: hasher.count(), blake3: *hasher.finalize().as_bytes() })
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

//! Turns a written database into a snapshot: precomputation, self-test, manifest.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use spirea_backend::{ProtocolBackend, Residence, StoredFile};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{Files, Precomputation, ProtocolError, Responder, Table, Version};

use super::test::Samples;
use crate::apple::AppleTables;
use crate::error::IoContext;
use crate::files::{sync, sync_folder, write_entry, write_synced};
use crate::groups::{Groups, matrix_entry};
use crate::manifest::{
    FORMAT, FileEntry, GROUPS_FILE, HINT_FILE, HINT_ROWS_FILE, MANIFEST_FILE, MATRIX_FILE,
    MAX_MANIFEST_BYTES, Manifest, SERVER_FILE,
};
use crate::progress::go_on;
use crate::{Phase, Progress, Statistics, StoreError};

/// A snapshot whose database has been written.
pub(super) struct Draft {
    pub name: String,
    pub created: String,
    pub table: Table,
    pub protocol: ProtocolParams,
    pub statistics: Statistics,
    pub samples: Samples,
    pub delta_of: Option<Version>,
    pub changes: Option<FileEntry>,
    /// Tables for Apple's clients, with their file.
    pub apple: Option<(AppleTables, FileEntry)>,
    /// Residence of the database in server halves that are kept to answer. Without one, the
    /// self-test opens the server halves from the files on disk.
    pub kept: Option<Residence>,
}

/// Files computed from a database.
pub(super) struct Computed {
    pub hint: FileEntry,
    pub server: Option<FileEntry>,
    /// The server half, if the computation opened it.
    pub opened: Option<Box<dyn Responder>>,
}

impl Draft {
    /// Computes and writes the data that the protocol precomputes from the database: the hint, and
    /// the server's data, if any.
    pub(super) fn compute<B: ProtocolBackend>(
        &self,
        folder: &Path,
        backend: &Arc<B>,
        progress: &dyn Progress,
    ) -> Result<Computed, StoreError> {
        const THOUSANDTHS: f64 = 1000.0;
        let mut report =
            |share: f64| progress.update(Phase::Hint, (share * THOUSANDTHS) as u64, THOUSANDTHS as u64);
        report(0.0);
        let mut hint = Output::create(folder, HINT_FILE, progress)?;
        let mut server = Output::create(folder, SERVER_FILE, progress)?;
        let matrix = &StoredFile::at(folder.join(MATRIX_FILE));
        let job = Precomputation { matrix, hint: &mut hint, server: &mut server, progress: &mut report };
        let outcome = match self.kept {
            // A protocol whose server half shares the computation has a single server.
            Some(residence) => {
                self.protocol.on().precompute_open(backend, job, self.protocol.openings(residence)[0])
            }
            None => self.protocol.on().precompute(backend, job).map(|()| None),
        };
        report(1.0);
        go_on(progress)?;
        match outcome {
            Err(ProtocolError::Write(source)) => {
                let name = if server.failed { SERVER_FILE } else { HINT_FILE };
                Err(source).at("write", &folder.join(name))
            }
            Err(error) => Err(error.into()),
            Ok(opened) => {
                let (hint, server) = (hint.finish(folder)?, server.finish(folder)?);
                if server.bytes > 0 {
                    return Ok(Computed { hint, server: Some(server), opened });
                }
                let path = folder.join(SERVER_FILE);
                fs::remove_file(&path).at("remove", &path)?;
                Ok(Computed { hint, server: None, opened })
            }
        }
    }

    /// Tests the snapshot with real queries and writes its manifest. When this returns, the
    /// snapshot is complete and on disk. Returns the server halves that were tested, one for each
    /// of the protocol's servers.
    pub(super) fn complete<B: ProtocolBackend>(
        self,
        folder: &Path,
        computed: Computed,
        backend: &Arc<B>,
        progress: &dyn Progress,
    ) -> Result<Vec<Box<dyn Responder>>, StoreError> {
        let Self { name, created, table, protocol, statistics, samples, delta_of, changes, apple, kept } =
            self;
        let (apple, apple_tables) = apple.unzip();
        let Computed { hint, server, opened } = computed;
        let [matrix_path, hint_path, server_path, manifest_path] =
            [MATRIX_FILE, HINT_FILE, SERVER_FILE, MANIFEST_FILE].map(|name| folder.join(name));
        let hint_rows = match protocol.hint_rows() {
            None => None,
            Some(rows) => {
                let bytes = fs::read(&hint_path).at("read", &hint_path)?;
                Some(write_entry(folder, HINT_ROWS_FILE, &rows.list(&bytes))?)
            }
        };
        let bytes = protocol.matrix_bytes();
        let matrix = matrix_entry(folder, &mut |done| progress.update(Phase::Verify, done, bytes))?;
        let manifest = Manifest {
            format: FORMAT,
            name,
            created,
            delta_of,
            table,
            protocol,
            matrix,
            hint,
            hint_rows,
            server,
            changes,
            apple,
            apple_tables,
            statistics,
        };
        manifest.validate()?;
        go_on(progress)?;
        samples.check_seals(&manifest.table)?;
        let servers = || match opened {
            Some(server) => Ok(vec![server]),
            None => {
                let (on, files) = (manifest.protocol.on(), Files::at(matrix_path, server_path));
                let residence = kept.unwrap_or(Residence::Mapped);
                let openings = manifest.protocol.openings(residence).into_iter();
                openings.map(|opening| on.open(backend, &files, opening)).collect()
            }
        };
        let servers = samples.test(&manifest.protocol, servers, &hint_path, progress)?;
        // Synced only now, so that the disk could write while the hint was computed.
        for entry in manifest.files() {
            sync(&folder.join(&entry.file))?;
        }
        if Groups::list_bytes(manifest.matrix.bytes) > 0 {
            sync(&folder.join(GROUPS_FILE))?;
        }
        // The manifest is the last file: a folder without a manifest is not a snapshot.
        let bytes = manifest.to_bytes();
        if bytes.len() as u64 > MAX_MANIFEST_BYTES {
            let detail = "the names of the columns are too long for a manifest; rename them";
            return Err(StoreError::BadOption(detail.into()));
        }
        write_synced(&manifest_path, &bytes)?;
        sync_folder(folder)?;
        Ok(servers)
    }
}

/// A file of a snapshot, hashed while it is written. Writing fails once `progress` is stopped.
struct Output<'a> {
    name: &'static str,
    file: BufWriter<File>,
    hasher: blake3::Hasher,
    failed: bool,
    progress: &'a dyn Progress,
}

impl<'a> Output<'a> {
    fn create(folder: &Path, name: &'static str, progress: &'a dyn Progress) -> Result<Self, StoreError> {
        let path = folder.join(name);
        let file = BufWriter::with_capacity(1 << 18, File::create_new(&path).at("create", &path)?);
        Ok(Self { name, file, hasher: blake3::Hasher::new(), failed: false, progress })
    }

    fn finish(mut self, folder: &Path) -> Result<FileEntry, StoreError> {
        self.file.flush().at("write", &folder.join(self.name))?;
        let (bytes, blake3) = (self.hasher.count(), self.hasher.finalize().into());
        Ok(FileEntry { file: self.name.into(), bytes, blake3 })
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        go_on(self.progress).map_err(std::io::Error::other)?;
        let written = self.file.write(bytes);
        self.failed |= written.is_err();
        self.hasher.update(&bytes[..*written.as_ref().unwrap_or(&0)]);
        written
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

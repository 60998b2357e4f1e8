//! A snapshot: a folder with a manifest and the files that it names.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use spirea_backend::{Share, StoredFile};
use spirea_protocols::signature::{MAX_SIGNATURE_BYTES, Signature};
use spirea_protocols::{FileHash, Files, Version};

use crate::apple::AppleUseCase;
use crate::error::IoContext;
use crate::files::hash_file;
use crate::groups;
use crate::manifest::{
    APPLE_FILE, CHANGES_FILE, FileEntry, GROUPS_FILE, HINT_FILE, HINT_ROWS_FILE, MANIFEST_FILE, MATRIX_FILE,
    MAX_MANIFEST_BYTES, Manifest, SERVER_FILE, SIGNATURE_FILE,
};
use crate::progress::Silent;
use crate::{Phase, Progress, StoreError};

/// Describes the actual content at the path of a snapshot, with a remedy.
fn otherwise(path: &Path) -> String {
    let shown = path.display();
    if path.is_dir() {
        "not a complete snapshot: it has no manifest.json; name a folder that `spirea build` made (a repository has its own in bases/), or build it again".into()
    } else if path.file_name().is_some_and(|name| name == MANIFEST_FILE) {
        "it is the manifest of a snapshot: name the folder that it lies in".into()
    } else if path.exists() {
        format!(
            "it is a file, not a snapshot: a snapshot is the folder that `spirea build --input {shown} --key COLUMN --value COLUMN --out FOLDER` makes of a table"
        )
    } else {
        format!(
            "there is no such snapshot: check the path, or make it with `spirea build --input FILE --key COLUMN --value COLUMN --out {shown}`"
        )
    }
}

/// An opened snapshot. Opening reads only the manifest; [`Snapshot::verify`] reads everything.
#[derive(Clone, Debug)]
pub struct Snapshot {
    folder: PathBuf,
    files: Files,
    hint: StoredFile,
    hint_rows: StoredFile,
    apple: StoredFile,
    manifest: Manifest,
    version: Version,
}

impl Snapshot {
    /// Opens the snapshot in `folder`: reads and checks its manifest.
    ///
    /// # Errors
    /// [`StoreError::NotASnapshot`] without a manifest, [`StoreError::BadManifest`] if the manifest
    /// is damaged or has another format, [`StoreError::Io`] if it cannot be read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, StoreError> {
        let folder = folder.as_ref().to_path_buf();
        let path = folder.join(MANIFEST_FILE);
        let file = match File::open(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                let detail = otherwise(&folder);
                return Err(StoreError::NotASnapshot { path: folder, detail });
            }
            file => file.at("open", &path)?,
        };
        let mut bytes = Vec::new();
        file.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut bytes).at("read", &path)?;
        let (manifest, version) = Manifest::from_bytes(&bytes)
            .map_err(|error| StoreError::BadManifest { path, detail: error.to_string() })?;
        let files = Files::at(folder.join(MATRIX_FILE), folder.join(SERVER_FILE));
        let [hint, hint_rows, apple] =
            [HINT_FILE, HINT_ROWS_FILE, APPLE_FILE].map(|name| StoredFile::at(folder.join(name)));
        Ok(Self { folder, files, hint, hint_rows, apple, manifest, version })
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the version: the hash of the manifest, which contains the hashes of the files.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of the matrix.
    pub fn matrix_path(&self) -> PathBuf {
        self.files.matrix.path().into()
    }

    /// Returns the path of the hint.
    pub fn hint_path(&self) -> PathBuf {
        self.hint.path().into()
    }

    /// Returns the file of the hint: the verified file, if this snapshot or a clone of it was
    /// verified.
    pub fn hint(&self) -> &StoredFile {
        &self.hint
    }

    /// Returns the file with the hashes of the hint's rows: the verified file, as for
    /// [`Self::hint`].
    pub fn hint_rows(&self) -> &StoredFile {
        &self.hint_rows
    }

    /// Reads the tables for Apple's clients; empty if the snapshot has none.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the file does not have the length or the form that the manifest
    /// says, or another hash, [`StoreError::Io`] if it cannot be read.
    pub fn apple_use_cases(&self) -> Result<Vec<AppleUseCase>, StoreError> {
        let Some((apple, entry)) = self.manifest.apple.as_ref().zip(self.manifest.apple_tables.as_ref())
        else {
            return Ok(Vec::new());
        };
        let path = self.apple.path();
        let bytes = self.apple.bytes().at("open", path)?;
        self.check(entry, bytes == entry.bytes, || format!("it has {bytes} bytes, not {}", entry.bytes))?;
        let mut content = vec![0; bytes as usize];
        self.apple.read_exact_at(&mut content, 0).at("read", path)?;
        self.check(entry, FileHash::from(blake3::hash(&content)) == entry.blake3, || {
            "its content does not match the manifest's hash".into()
        })?;
        let damaged = |detail| StoreError::Damaged { path: path.into(), detail };
        apple.parse(&content).map_err(damaged)
    }

    /// Returns the path of a delta's changes.
    pub(crate) fn changes_path(&self) -> PathBuf {
        self.folder.join(CHANGES_FILE)
    }

    /// Returns the signature beside the manifest, if there is one. It proves nothing before it is
    /// verified.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the file is not a signature, [`StoreError::Io`] if it cannot be
    /// read.
    pub fn signature(&self) -> Result<Option<Signature>, StoreError> {
        let path = self.folder.join(SIGNATURE_FILE);
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.at("open", &path)?,
        };
        let mut bytes = Vec::new();
        file.take(MAX_SIGNATURE_BYTES + 1).read_to_end(&mut bytes).at("read", &path)?;
        match Signature::from_json(&bytes) {
            Ok(signature) => Ok(Some(signature)),
            Err(error) => Err(StoreError::Damaged { path, detail: error.to_string() }),
        }
    }

    /// Returns the files that a server opens: the verified ones, if this snapshot or a clone of it
    /// was verified.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the file of this name, and the entry with its expected length and hash. The file is
    /// the manifest or a file that the manifest names; `None` if there is no such file.
    pub fn file(&self, name: &str) -> Option<(FileEntry, StoredFile)> {
        let entry = if name == MANIFEST_FILE {
            let bytes = self.manifest.to_bytes();
            FileEntry { file: name.into(), bytes: bytes.len() as u64, blake3: blake3::hash(&bytes).into() }
        } else {
            self.manifest.files().find(|entry| entry.file == name)?.clone()
        };
        let file = self.stored(&entry.file);
        Some((entry, file))
    }

    /// Returns a file of the manifest.
    fn stored(&self, name: &str) -> StoredFile {
        match name {
            MATRIX_FILE => self.files.matrix.clone(),
            SERVER_FILE => self.files.server.clone(),
            HINT_FILE => self.hint.clone(),
            HINT_ROWS_FILE => self.hint_rows.clone(),
            APPLE_FILE => self.apple.clone(),
            _ => StoredFile::at(self.folder.join(name)),
        }
    }

    /// Reads all files and compares their lengths and hashes with the manifest, on all cores.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the file, [`StoreError::Io`] if it cannot be read.
    pub fn verify(&self, progress: &dyn Progress) -> Result<(), StoreError> {
        self.verify_files(|_| true, progress)
    }

    /// Reads one file of the manifest, and compares its length and hash, as [`Self::verify`] does.
    pub(crate) fn verify_file(&self, name: &str, progress: &dyn Progress) -> Result<(), StoreError> {
        self.verify_files(|entry| entry.file == name, progress)
    }

    fn verify_files(
        &self,
        wanted: impl Fn(&FileEntry) -> bool,
        progress: &dyn Progress,
    ) -> Result<(), StoreError> {
        let wanted = self.manifest.files().filter(|entry| wanted(entry));
        let files: Vec<_> = wanted.map(|entry| (entry, self.stored(&entry.file))).collect();
        // Lengths are checked first: a truncated copy need not be read.
        for (entry, file) in &files {
            let bytes = file.bytes().at("open", file.path())?;
            self.check(entry, bytes == entry.bytes, || {
                format!("it has {bytes} bytes where the manifest says {}", entry.bytes)
            })?;
        }
        let total = files.iter().map(|(entry, _)| entry.bytes).sum();
        let mut before = 0;
        for (entry, file) in files {
            let hash = hash_file(&file, &mut |done| progress.update(Phase::Verify, before + done, total))?;
            self.check(entry, hash == entry.blake3, || {
                "its content does not match the manifest's hash".into()
            })?;
            before += entry.bytes;
        }
        Ok(())
    }

    /// Returns the path of the list of the chaining values of the matrix's groups
    /// ([`crate::Groups`]), which small matrices do not have.
    pub fn groups_path(&self) -> PathBuf {
        self.folder.join(GROUPS_FILE)
    }

    /// Reads and verifies all files except the matrix, for a server that joins the answers of
    /// servers of shares.
    ///
    /// # Errors
    /// Those of [`Snapshot::verify`].
    pub fn verify_beside_matrix(&self) -> Result<(), StoreError> {
        self.verify_files(|entry| entry.file != MATRIX_FILE, &Silent)
    }

    /// Verifies the bytes of the matrix that a server of a share reads. If there is a list of the
    /// matrix's groups, only the groups with these bytes are read; without a list, the whole matrix
    /// is read.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the file, [`StoreError::Io`] if it cannot be read.
    pub fn verify_share(&self, share: Share) -> Result<(), StoreError> {
        let (entry, ranges) = (&self.manifest.matrix, self.manifest.protocol.share_bytes(share));
        groups::verify(&self.files.matrix, &self.groups_path(), entry, &ranges)
    }

    fn check(&self, entry: &FileEntry, good: bool, detail: impl Fn() -> String) -> Result<(), StoreError> {
        match good {
            true => Ok(()),
            false => Err(StoreError::Damaged { path: self.folder.join(&entry.file), detail: detail() }),
        }
    }
}

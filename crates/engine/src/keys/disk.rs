//! Clients' key bytes on disk: one file for each set, under its id, either complete or absent.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use spirea_protocols::KeysHash;

use super::id::{KeyId, KeyOwner};
use super::lru::{Budget, Lru};
use super::usage::{Amount, Departures};

/// Error of the folder for keys.
#[derive(Debug, thiserror::Error)]
#[error("{path}: the folder for evaluation keys cannot be used: {source}; name another one", path = .path.display())]
pub struct KeyFolderError {
    /// The folder.
    pub path: PathBuf,
    /// Error of the operating system.
    pub source: io::Error,
}

const EXTENSION: &str = "keys";
/// Extension of a file during its writing.
const PARTIAL: &str = "partial";

/// Maximum lag of a file's time behind the last use, so that keys in use cause few writes.
const LAG: Duration = Duration::from_secs(60 * 60);

/// A folder of keys. A file's modification time is about the time of its last use, so that a later
/// process knows the order of use and the expired keys. The owners of keys are not on disk. Only
/// one caller changes files at a time: the holder of the registry's turn.
pub(super) struct Disk {
    folder: PathBuf,
    /// Index of the files, with the time of each.
    index: Mutex<Lru<KeyId, SystemTime>>,
    lag: Duration,
}

impl Disk {
    /// Opens the folder, creates it if necessary, and keeps as much of its content as the budget
    /// allows.
    pub fn open(folder: &Path, budget: Budget, now: SystemTime) -> Result<Self, KeyFolderError> {
        let failed = |source| KeyFolderError { path: folder.into(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(EXTENSION) => {
                    let id = path.file_stem().and_then(|stem| blake3::Hash::from_hex(stem.to_str()?).ok());
                    // A file removed in the meantime has no metadata.
                    if let (Some(id), Ok(metadata)) = (id, path.metadata()) {
                        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                        found.push((used, KeyId(id.into()), metadata.len()));
                    }
                }
                // Left by a process that ended during the writing.
                Some(PARTIAL) => drop(fs::remove_file(path)),
                _ => (),
            }
        }
        found.sort_unstable_by_key(|&(used, KeyId(id), _)| (used, id));
        // The lag must be small compared with the expiry; otherwise a restart would forget keys in
        // use.
        let lag = LAG.min(budget.expiry / 8);
        let disk = Self { folder: folder.into(), index: Mutex::new(Lru::new(budget)), lag };
        for (used, id, bytes) in found {
            match disk.index.lock().insert(id, used, bytes, None, used) {
                Some(evicted) => disk.remove_files(evicted),
                None => disk.remove_file(id),
            }
        }
        disk.expire(now);
        Ok(disk)
    }

    pub fn amount(&self) -> Amount {
        self.index.lock().amount()
    }

    pub fn departures(&self) -> Departures {
        self.index.lock().departures()
    }

    /// Returns true if the keys are present and have not expired.
    pub fn contains(&self, id: KeyId, at: SystemTime) -> bool {
        self.index.lock().contains(&id, at)
    }

    /// Returns the owner of keys that were registered since this process started.
    pub fn owner(&self, id: KeyId) -> Option<KeyOwner> {
        self.index.lock().owner(&id)
    }

    /// Records a use of keys.
    pub fn touch(&self, id: KeyId, at: SystemTime) {
        let mut index = self.index.lock();
        let Some(written) = index.get(&id, at) else { return };
        if at.duration_since(*written).is_ok_and(|lag| lag < self.lag) {
            return;
        }
        *written = at;
        drop(index);
        // If this fails, only the order after a restart is wrong.
        let _ = File::options().append(true).open(self.path(id)).and_then(|file| file.set_modified(at));
    }

    /// Removes expired keys.
    pub fn expire(&self, at: SystemTime) {
        let expired = self.index.lock().expire(at);
        self.remove_files(expired);
    }

    /// Returns the bytes with this hash. If the file's content has another hash, the file is
    /// removed.
    pub fn read(&self, id: KeyId, hash: &KeysHash, at: SystemTime) -> Option<Vec<u8>> {
        let read = File::open(self.path(id)).and_then(|mut file| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map(|_| bytes)
        });
        match read {
            Ok(bytes) if KeysHash::from(blake3::hash(&bytes)) == *hash => {
                self.touch(id, at);
                return Some(bytes);
            }
            Ok(_) => tracing::warn!("stored keys were damaged and are thrown away"),
            Err(error) => tracing::warn!(%error, "stored keys cannot be read and are thrown away"),
        }
        self.remove(id);
        None
    }

    /// Stores bytes; returns true if they are on disk afterwards.
    pub fn write(&self, id: KeyId, bytes: &[u8], owner: Option<KeyOwner>, at: SystemTime) -> bool {
        if self.contains(id, at) && self.path(id).exists() {
            self.touch(id, at);
            return true;
        }
        let inserted = self.index.lock().insert(id, at, bytes.len() as u64, owner, at);
        let Some(evicted) = inserted else { return false };
        self.remove_files(evicted);
        self.write_file(id, bytes, at)
            .inspect_err(|error| {
                tracing::error!(%error, folder = %self.folder.display(), "keys cannot be stored");
                self.remove(id);
            })
            .is_ok()
    }

    /// Writes a file so that it appears under its name only once it is completely on disk.
    fn write_file(&self, id: KeyId, bytes: &[u8], at: SystemTime) -> io::Result<()> {
        let partial = self.path(id).with_extension(PARTIAL);
        let written = File::create(&partial).and_then(|mut file| {
            file.write_all(bytes)?;
            file.set_modified(at)?;
            file.sync_all()?;
            fs::rename(&partial, self.path(id))?;
            File::open(&self.folder)?.sync_all()
        });
        written.inspect_err(|_| drop(fs::remove_file(&partial)))
    }

    pub fn remove(&self, id: KeyId) {
        self.index.lock().remove(&id);
        self.remove_file(id);
    }

    fn remove_files(&self, gone: Vec<(KeyId, SystemTime)>) {
        gone.into_iter().for_each(|(id, _)| self.remove_file(id));
    }

    fn remove_file(&self, id: KeyId) {
        // If the removal fails, nothing is lost: the file counts again when the folder is next
        // opened.
        let _ = fs::remove_file(self.path(id));
    }

    fn path(&self, KeyId(id): KeyId) -> PathBuf {
        self.folder.join(blake3::Hash::from_bytes(id).to_hex().as_str()).with_extension(EXTENSION)
    }
}

//! Hints on disk, by hash. A file appears under its name only when complete and verified; several
//! processes may share a folder. Other users of the machine cannot read the folder, and file names
//! reveal no database.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use spirea_protocols::FileHash;
use spirea_protocols::signature::{Pin, PublicKey};

use crate::{ClientError, Download, Hint, HintCache, PartDescription};

/// A folder of hints.
pub(super) struct FileCache(PathBuf);

fn failed(path: &Path, action: &'static str) -> impl Fn(std::io::Error) -> ClientError {
    move |source| ClientError::Cache { path: path.into(), action, source }
}

fn remove(path: &Path) -> Result<(), ClientError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(path, "remove")(error)),
        _ => Ok(()),
    }
}

/// Returns a file name for a name that must stay secret: a user who lists the folder can only guess
/// the secret name.
fn unnamed(name: &str) -> blake3::Hash {
    blake3::Hash::from_bytes(blake3::derive_key("spirea 2026 file of a client's cache", name.as_bytes()))
}

/// Returns options that make new files private to their user.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    private().create(true).truncate(true).write(true).open(path)?.write_all(text.as_bytes())
}

/// Creates a folder and its parents; new folders are private to their user.
fn create_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Returns the user's cache folder, created if it is missing; `None` if the system has no such
/// place or refuses it.
pub fn cache_folder() -> Option<PathBuf> {
    let folder = FileCache::place(None)?;
    create_folder(&folder).ok().map(|()| folder)
}

impl FileCache {
    /// Returns the folder `named`, or the default folder in the system's place for caches, if there
    /// is such a place.
    pub fn place(named: Option<&Path>) -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let default = || set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        named.map(Path::to_path_buf).or_else(|| Some(default()?.join("spirea")))
    }

    /// Opens the cache in `folder`, which is created if it is missing.
    pub fn open(folder: &Path) -> Result<Self, ClientError> {
        create_folder(folder).map_err(failed(folder, "create"))?;
        Ok(Self(folder.into()))
    }

    fn path(&self, part: &PartDescription, extension: &str) -> PathBuf {
        self.path_of(&part.hint_blake3().to_string(), extension)
    }

    fn path_of(&self, hash: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{hash}.{extension}"))
    }

    fn pin_path(&self, database: &str, key: &PublicKey) -> PathBuf {
        self.0.join(format!("{}.sequence", unnamed(&format!("{database}.{key}"))))
    }

    fn last_path(&self, slot: &str) -> PathBuf {
        self.0.join(format!("{}.last", unnamed(slot)))
    }

    /// Returns the hash of the hint last used in `slot`, which is a part of a database.
    fn last(&self, slot: &str) -> Option<String> {
        let hash = fs::read_to_string(self.last_path(slot)).ok()?;
        FileHash::from_hex(&hash).is_some().then_some(hash)
    }
}

impl HintCache for FileCache {
    fn load(&mut self, part: &PartDescription) -> Result<Option<Hint>, ClientError> {
        let path = self.path(part, "hint");
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed(&path, "open"))?,
        };
        match read(file, &path, part) {
            // A damaged copy would stay damaged forever.
            Err(ClientError::HintCorrupted) => remove(&path).map(|()| None),
            hint => hint.map(Some),
        }
    }

    fn begin(&mut self, part: &PartDescription) -> Result<Box<dyn Download>, ClientError> {
        // The lock has its own file, which is never renamed, so all processes lock the same file.
        let lock_path = self.path(part, "lock");
        let lock = private().create(true).append(true).open(&lock_path);
        let lock = lock.map_err(failed(&lock_path, "open"))?;
        lock.lock().map_err(failed(&lock_path, "lock"))?;
        let path = self.path(part, "part");
        let file = private().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = file.map_err(failed(&path, "open"))?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(failed(&path, "read"))?;
        let whole = self.path(part, "hint");
        let mut begun = Begun { file, bytes, path, whole, is_in_place: false, _lock: lock };
        if bytes > part.hint_bytes() {
            begun.cut(0)?;
        }
        Ok(Box::new(begun))
    }

    fn former(&self, slot: &str, part: &PartDescription) -> Option<Vec<u8>> {
        let bytes = fs::read(self.path_of(&self.last(slot)?, "hint")).ok()?;
        (bytes.len() as u64 == part.hint_bytes()).then_some(bytes)
    }

    fn succeed(&mut self, slot: &str, part: &PartDescription) -> Result<(), ClientError> {
        let hash = part.hint_blake3().to_string();
        let former = self.last(slot);
        if former.as_deref() == Some(hash.as_str()) {
            return Ok(());
        }
        replace(&self.last_path(slot), &hash)?;
        for extension in ["hint", "part", "lock"] {
            former.iter().try_for_each(|former| remove(&self.path_of(former, extension)))?;
        }
        Ok(())
    }

    fn seen(&self, database: &str, key: &PublicKey) -> u64 {
        let text = fs::read_to_string(self.pin_path(database, key)).unwrap_or_default();
        text.parse().unwrap_or(0)
    }

    fn saw(&mut self, database: &str, pin: &Pin) -> Result<(), ClientError> {
        if self.seen(database, &pin.key) >= pin.sequence {
            return Ok(());
        }
        replace(&self.pin_path(database, &pin.key), &pin.sequence.to_string())
    }
}

/// Replaces a file's text at once. Other processes and threads may replace it at the same time, so
/// each writes a file of its own first.
fn replace(path: &Path, text: &str) -> Result<(), ClientError> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    let fresh = path.with_extension(format!("{}-{number}", std::process::id()));
    write(&fresh, text).map_err(failed(&fresh, "write"))?;
    fs::rename(&fresh, path).map_err(failed(path, "rename"))
}

fn read(file: File, path: &Path, part: &PartDescription) -> Result<Hint, ClientError> {
    let expected = part.hint_bytes();
    let length = file.metadata().map_err(failed(path, "read"))?.len();
    let Some(capacity) = usize::try_from(expected).ok().filter(|_| length == expected) else {
        return Err(ClientError::HintCorrupted);
    };
    let mut bytes = Vec::with_capacity(capacity);
    // The file may grow while it is read; a longer file has another hash.
    file.take(expected).read_to_end(&mut bytes).map_err(failed(path, "read"))?;
    part.hint(bytes)
}

/// A hint that is being downloaded. Dropping this removes its file. Only a killed process leaves a
/// file behind, which the next download of the same hint continues.
struct Begun {
    file: File,
    bytes: u64,
    path: PathBuf,
    whole: PathBuf,
    /// True once the file has its final name.
    is_in_place: bool,
    _lock: File,
}

impl Download for Begun {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn cut(&mut self, bytes: u64) -> Result<(), ClientError> {
        self.file.set_len(bytes).map_err(failed(&self.path, "truncate"))?;
        self.file.seek(SeekFrom::Start(bytes)).map_err(failed(&self.path, "truncate"))?;
        self.bytes = bytes;
        Ok(())
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.file.write_all(bytes).map_err(failed(&self.path, "write"))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn finish(&mut self, part: &PartDescription) -> Result<Hint, ClientError> {
        self.file.sync_all().map_err(failed(&self.path, "write"))?;
        let file = File::open(&self.path).map_err(failed(&self.path, "read"))?;
        match read(file, &self.path, part) {
            Ok(hint) => {
                fs::rename(&self.path, &self.whole).map_err(failed(&self.whole, "rename"))?;
                self.is_in_place = true;
                Ok(hint)
            }
            Err(error) => {
                self.cut(0)?;
                Err(error)
            }
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.is_in_place {
            // If the file cannot be removed, the next download continues or discards it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_file_may_be_replaced_by_several_clients_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        thread::scope(|scope| {
            for client in 0..8 {
                let path = &path;
                scope.spawn(move || (0..200).for_each(|_| replace(path, &client.to_string()).unwrap()));
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        assert!((0..8).any(|client| text == client.to_string()), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }
}

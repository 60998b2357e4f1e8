//! Hints on disk, by hash. Files appear under their name only whole and checked; several processes may share
//! a folder.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use spirea_protocols::signature::{Pin, PublicKey};

use crate::{ClientError, Hint, Part as DatabasePart};

/// A folder of hints.
pub(super) struct Cache(PathBuf);

fn failed(path: &Path, action: &'static str) -> impl Fn(std::io::Error) -> ClientError {
    move |source| ClientError::Cache { path: path.into(), action, source }
}

fn remove(path: &Path) -> Result<(), ClientError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(path, "remove")(error)),
        _ => Ok(()),
    }
}

impl Cache {
    /// The cache in `folder`, or in the place that the system has for caches.
    pub fn open(folder: Option<&Path>) -> Result<Self, ClientError> {
        let folder = match folder {
            Some(folder) => folder.to_path_buf(),
            None => {
                let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
                set("XDG_CACHE_HOME")
                    .or_else(|| set("HOME").map(|home| home.join(".cache")))
                    .ok_or(ClientError::NoCacheFolder)?
                    .join("spirea")
            }
        };
        fs::create_dir_all(&folder).map_err(failed(&folder, "create"))?;
        Ok(Self(folder))
    }

    fn path(&self, part: &DatabasePart, extension: &str) -> PathBuf {
        self.path_of(&blake3::Hash::from_bytes(*part.hint_blake3()).to_hex(), extension)
    }

    fn path_of(&self, hash: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{hash}.{extension}"))
    }

    fn pin_path(&self, database: &str, key: &PublicKey) -> PathBuf {
        self.0.join(format!("{database}.{key}.sequence"))
    }

    /// The highest sequence number that has been seen of a database under an operator's key.
    pub fn seen(&self, database: &str, key: &PublicKey) -> u64 {
        let text = fs::read_to_string(self.pin_path(database, key)).unwrap_or_default();
        text.parse().unwrap_or(0)
    }

    /// Keeps what a pin has seen.
    pub fn saw(&self, database: &str, pin: &Pin) -> Result<(), ClientError> {
        if self.seen(database, &pin.key) >= pin.sequence {
            return Ok(());
        }
        let path = self.pin_path(database, &pin.key);
        let fresh = path.with_extension(std::process::id().to_string());
        fs::write(&fresh, pin.sequence.to_string()).map_err(failed(&fresh, "write"))?;
        fs::rename(&fresh, &path).map_err(failed(&path, "rename"))
    }

    /// The hash of the hint that was last used as `slot`: a part of a database.
    fn last(&self, slot: &str) -> Option<String> {
        let hash = fs::read_to_string(self.0.join(format!("{slot}.last"))).ok()?;
        blake3::Hash::from_hex(&hash).is_ok().then_some(hash)
    }

    /// The bytes of the hint that was last used as `slot`, if there are as many as this part's has. They are not
    /// checked: what is made of them is.
    pub fn former(&self, slot: &str, part: &DatabasePart) -> Option<Vec<u8>> {
        let bytes = fs::read(self.path_of(&self.last(slot)?, "hint")).ok()?;
        (bytes.len() as u64 == part.hint_bytes()).then_some(bytes)
    }

    /// Notes that a part's hint is used as `slot`, and removes the one that was before: versions may follow each other
    /// by the second. Whoever still wants that one downloads it again.
    pub fn succeed(&self, slot: &str, part: &DatabasePart) -> Result<(), ClientError> {
        let hash = blake3::Hash::from_bytes(*part.hint_blake3()).to_hex();
        let former = self.last(slot);
        if former.as_deref() == Some(hash.as_str()) {
            return Ok(());
        }
        let (path, fresh) = (self.0.join(format!("{slot}.last")), self.path(part, "last"));
        fs::write(&fresh, hash.as_str()).map_err(failed(&fresh, "write"))?;
        fs::rename(&fresh, &path).map_err(failed(&path, "rename"))?;
        for extension in ["hint", "part", "lock"] {
            former.iter().try_for_each(|former| remove(&self.path_of(former, extension)))?;
        }
        Ok(())
    }

    /// The hint, if it is here. A damaged copy is removed.
    pub fn load(&self, part: &DatabasePart) -> Result<Option<Hint>, ClientError> {
        let path = self.path(part, "hint");
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed(&path, "open"))?,
        };
        match read(file, &path, part) {
            Err(ClientError::HintCorrupted) => remove(&path).map(|()| None),
            hint => hint.map(Some),
        }
    }

    /// The place of a download, once no other process is at it. What an interrupted download left is kept.
    pub fn begin(&self, part: &DatabasePart) -> Result<Part, ClientError> {
        // The lock has a file of its own, which is never renamed: all processes lock the same one.
        let lock_path = self.path(part, "lock");
        let lock = File::options().create(true).append(true).open(&lock_path);
        let lock = lock.map_err(failed(&lock_path, "open"))?;
        lock.lock().map_err(failed(&lock_path, "lock"))?;
        let path = self.path(part, "part");
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = file.map_err(failed(&path, "open"))?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(failed(&path, "read"))?;
        let mut begun = Part { file, bytes, path, whole: self.path(part, "hint"), _lock: lock };
        if bytes > part.hint_bytes() {
            begun.cut(0)?;
        }
        Ok(begun)
    }
}

fn read(file: File, path: &Path, part: &DatabasePart) -> Result<Hint, ClientError> {
    let expected = part.hint_bytes();
    let length = file.metadata().map_err(failed(path, "read"))?.len();
    let Some(capacity) = usize::try_from(expected).ok().filter(|_| length == expected) else {
        return Err(ClientError::HintCorrupted);
    };
    let mut bytes = Vec::with_capacity(capacity);
    // The file may grow while it is read; a longer one has another hash.
    file.take(expected).read_to_end(&mut bytes).map_err(failed(path, "read"))?;
    part.hint(bytes)
}

/// A hint that is being downloaded.
pub(super) struct Part {
    file: File,
    bytes: u64,
    path: PathBuf,
    whole: PathBuf,
    _lock: File,
}

impl Part {
    /// Bytes that are here.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Throws away what comes after `bytes`.
    pub fn cut(&mut self, bytes: u64) -> Result<(), ClientError> {
        self.file.set_len(bytes).map_err(failed(&self.path, "truncate"))?;
        self.file.seek(SeekFrom::Start(bytes)).map_err(failed(&self.path, "truncate"))?;
        self.bytes = bytes;
        Ok(())
    }

    /// Appends.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.file.write_all(bytes).map_err(failed(&self.path, "write"))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Checks the whole and puts it in its place. What is not the hint is thrown away.
    pub fn finish(&mut self, part: &DatabasePart) -> Result<Hint, ClientError> {
        self.file.sync_all().map_err(failed(&self.path, "write"))?;
        let file = File::open(&self.path).map_err(failed(&self.path, "read"))?;
        match read(file, &self.path, part) {
            Ok(hint) => {
                fs::rename(&self.path, &self.whole).map_err(failed(&self.whole, "rename"))?;
                Ok(hint)
            }
            Err(error) => {
                self.cut(0)?;
                Err(error)
            }
        }
    }
}

//! The file of `--resume`: progress in a list of look-ups.
//!
//! The file holds a hash of the list, against which a reader could test guesses. Hence only its
//! user may read it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

/// Newest format of the file.
const FORMAT: u32 = 1;

/// Upper bound of the file's length in bytes.
const MAX_BYTES: u64 = 4 << 10;

/// A list of look-ups, and the servers that it is meant for.
pub struct Asked<'a> {
    /// Name of the database.
    pub database: &'a str,
    /// All addresses, in any order.
    pub addresses: Vec<&'a str>,
    /// Keys; empty if indices are asked for.
    pub keys: &'a [Vec<u8>],
    /// Indices; empty if keys are asked for.
    pub indices: &'a [u64],
}

impl Asked<'_> {
    fn len(&self) -> usize {
        self.keys.len() + self.indices.len()
    }

    /// Returns the hash of the list, the database's name and the set of addresses.
    fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("spirea 2026 list of look-ups");
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        let mut addresses = self.addresses.clone();
        addresses.sort_unstable();
        addresses.dedup();
        add(self.database.as_bytes());
        for count in [addresses.len(), self.keys.len(), self.indices.len()] {
            add(&(count as u64).to_le_bytes());
        }
        addresses.iter().for_each(|address| add(address.as_bytes()));
        self.keys.iter().for_each(|key| add(key));
        self.indices.iter().for_each(|index| add(&index.to_le_bytes()));
        hasher.finalize().to_string()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    list: String,
    look_ups: usize,
    complete: usize,
}

/// Progress in a list of look-ups, stored on disk.
pub struct Resume {
    path: PathBuf,
    record: Record,
    /// Number of look-ups that were complete when this run began.
    began: usize,
}

impl Resume {
    /// Reads the file, or creates it for a new list.
    ///
    /// # Errors
    /// If the file belongs to another list, has another format, or cannot be read or created.
    pub fn open(path: &Path, asked: &Asked<'_>) -> anyhow::Result<Self> {
        let fresh = Record { format: FORMAT, list: asked.hash(), look_ups: asked.len(), complete: 0 };
        let record = match File::open(path) {
            Ok(file) => read(file, &fresh).with_context(|| path.display().to_string())?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                create(path, &fresh)
                    .with_context(|| format!("{}: the file of --resume cannot be created", path.display()))?;
                fresh
            }
            Err(error) => {
                return Err(error).with_context(|| format!("{}: cannot be read", path.display()));
            }
        };
        Ok(Self { path: path.into(), began: record.complete, record })
    }

    /// Number of complete look-ups.
    pub fn complete(&self) -> usize {
        self.record.complete
    }

    /// Records that the first `complete` look-ups of the list are complete.
    ///
    /// # Errors
    /// If the file cannot be replaced. It is then unchanged.
    pub fn record(&mut self, complete: usize) -> anyhow::Result<()> {
        self.record.complete = complete;
        let mut fresh = self.path.clone().into_os_string();
        fresh.push(".new");
        let fresh = PathBuf::from(fresh);
        let replace = || {
            match fs::remove_file(&fresh) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => create(&fresh, &self.record)?,
            }
            fs::rename(&fresh, &self.path)?;
            sync_folder(&self.path)
        };
        replace().with_context(|| format!("{}: the progress cannot be recorded", self.path.display()))
    }

    /// Records that no look-up of this run is complete.
    ///
    /// # Errors
    /// Those of [`Resume::record`].
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.record(self.began)
    }
}

/// Reads the progress; the list must be that of `fresh`.
fn read(file: File, fresh: &Record) -> anyhow::Result<Record> {
    let mut text = String::new();
    let record: Option<Record> = match file.take(MAX_BYTES).read_to_string(&mut text) {
        Ok(_) => serde_json::from_str(&text).ok(),
        Err(_) => None,
    };
    let Some(record) = record.filter(|record| record.format == FORMAT && record.complete <= record.look_ups)
    else {
        bail!("this is no file of --resume; name another one");
    };
    ensure!(
        record.list == fresh.list && record.look_ups == fresh.look_ups,
        "this file is of another list of keys, another database or other addresses; give those again, or name another file"
    );
    Ok(record)
}

/// Creates a file that only its user can read, and syncs it to disk.
fn create(path: &Path, record: &Record) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.write(true).create_new(true).open(path)?;
    writeln!(file, "{}", serde_json::to_string(record)?)?;
    file.sync_all()?;
    sync_folder(path)
}

/// Syncs the folder of a file to disk.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Other systems do not open folders.
    if cfg!(unix) { File::open(folder.unwrap_or(Path::new(".")))?.sync_all() } else { Ok(()) }
}

// A fuzzer includes this file from another folder.
#[cfg(test)]
#[path = "resume/check.rs"]
mod check;

#[cfg(test)]
mod tests {
    use spirea_specimens::{Inputs, inputs};

    use super::check::check;

    #[test]
    fn any_bytes_are_a_file_of_resume_or_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut corpus: Vec<Vec<u8>> =
            ["3", "4", "-1", "1.0", "1e0", "18446744073709551616", "1,\"complete\":2"]
                .map(|progress| progress.as_bytes().to_vec())
                .into();
        corpus
            .push(format!(r#"{{"format":1,"list":"{}","look_ups":3,"complete":2}}"#, "0".repeat(64)).into());
        corpus.push(vec![b' '; 5000]);
        corpus.iter().for_each(|file| check(folder.path(), file));
        let mut made = Inputs::new(9);
        (0..inputs(300)).for_each(|_| check(folder.path(), &made.changed(&corpus)));
    }
}

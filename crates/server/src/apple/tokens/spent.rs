use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// First bytes of a file of spent tokens.
const MAGIC: [u8; TAG_BYTES] = *b"spirea spent v1\n";
/// Length of a nonce's hash, in bytes.
const TAG_BYTES: usize = 16;

/// Hash of a nonce. It is so short that a server can keep millions of them. Nonces of honest
/// clients do not collide.
type Tag = [u8; TAG_BYTES];

/// Reason why a token is not spent.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpendError {
    #[error("the token has been spent already")]
    Twice,
    #[error("the server has no room for more spent tokens of this key")]
    Full,
    #[error("the server cannot write down that the token is spent")]
    Write(#[from] io::Error),
}

/// Nonces of the spent tokens of one key: in memory, and in a file that survives a restart.
pub(super) struct Spent {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    tags: HashSet<Tag>,
    file: File,
    /// Valid bytes of the file.
    length: u64,
}

impl Spent {
    /// Opens a file, or creates it. The file stays locked against other servers. A tag that was cut
    /// off when the machine stopped is dropped.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::Error(error) => error,
            TryLockError::WouldBlock => {
                io::Error::other("another server uses the file; give each its own folder")
            }
        })?;
        let bytes = file.metadata()?.len();
        let mut tags = HashSet::new();
        if bytes == 0 {
            file.write_all(&MAGIC)?;
            file.sync_data()?;
        } else {
            let mut reader = BufReader::new(&file);
            let mut tag = Tag::default();
            let known = reader.read_exact(&mut tag).is_ok() && tag == MAGIC;
            if !known {
                let cause = "it is not a file of spent tokens; name another folder";
                return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
            }
            for _ in 1..bytes / TAG_BYTES as u64 {
                reader.read_exact(&mut tag)?;
                tags.insert(tag);
            }
        }
        let length = bytes.max(TAG_BYTES as u64) / TAG_BYTES as u64 * TAG_BYTES as u64;
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(Self { path: path.into(), state: Mutex::new(State { tags, file, length }) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the token with this nonce is spent.
    pub fn contains(&self, nonce: &[u8; 32]) -> bool {
        self.state.lock().tags.contains(&tag(nonce))
    }

    /// Spends the token with this nonce, if fewer than `most` are spent. An error leaves it
    /// unspent.
    pub fn spend(&self, nonce: &[u8; 32], most: usize) -> Result<(), SpendError> {
        let tag = tag(nonce);
        let mut state = self.state.lock();
        if state.tags.contains(&tag) {
            return Err(SpendError::Twice);
        }
        if state.tags.len() >= most {
            return Err(SpendError::Full);
        }
        let length = state.length;
        if let Err(error) = state.file.write_all(&tag) {
            // A partially written tag would shift all tags after it.
            state.file.set_len(length)?;
            state.file.seek(SeekFrom::Start(length))?;
            return Err(error.into());
        }
        state.length += TAG_BYTES as u64;
        state.tags.insert(tag);
        Ok(())
    }

    /// Makes sure that all spent tokens survive a loss of power.
    pub fn sync(&self) -> io::Result<()> {
        let file = self.state.lock().file.try_clone()?;
        file.sync_data()
    }

    /// Returns the number of spent tokens.
    pub fn len(&self) -> usize {
        self.state.lock().tags.len()
    }
}

fn tag(nonce: &[u8; 32]) -> Tag {
    let mut tag = Tag::default();
    tag.copy_from_slice(&blake3::hash(nonce).as_bytes()[..TAG_BYTES]);
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(number: u64) -> [u8; 32] {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    #[test]
    fn a_token_is_spent_once_also_after_a_restart_and_after_a_cut_off_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let spent = Spent::open(&path).unwrap();
        for number in 0..3 {
            spent.spend(&nonce(number), 10).unwrap();
            assert!(matches!(spent.spend(&nonce(number), 10), Err(SpendError::Twice)));
        }
        let error = Spent::open(&path).map(drop).unwrap_err();
        assert!(error.to_string().contains("another server"), "{error}");
        drop(spent);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..TAG_BYTES {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let spent = Spent::open(&path).unwrap();
            assert_eq!(spent.len(), if cut == 0 { 3 } else { 2 });
            assert!(spent.contains(&nonce(1)) && spent.contains(&nonce(2)) == (cut == 0));
            spent.spend(&nonce(7), 10).unwrap();
            drop(spent);
            assert!(Spent::open(&path).unwrap().contains(&nonce(7)), "{cut}");
        }
    }

    #[test]
    fn a_full_store_refuses_and_keeps_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let spent = Spent::open(&path).unwrap();
        spent.spend(&nonce(0), 2).unwrap();
        spent.spend(&nonce(1), 2).unwrap();
        assert!(matches!(spent.spend(&nonce(2), 2), Err(SpendError::Full)));
        assert!(matches!(spent.spend(&nonce(1), 2), Err(SpendError::Twice)));
        // The limit rises.
        spent.spend(&nonce(2), 3).unwrap();
        drop(spent);
        let spent = Spent::open(&path).unwrap();
        assert!((0..3).all(|number| spent.contains(&nonce(number))));
        spent.sync().unwrap();
    }

    #[test]
    fn other_files_are_refused_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for other in [&b"short"[..], &[7; 64]] {
            std::fs::write(&path, other).unwrap();
            assert!(Spent::open(&path).is_err());
            assert_eq!(std::fs::read(&path).unwrap(), other);
        }
    }

    #[test]
    fn of_many_threads_with_one_token_one_spends_it() {
        let folder = tempfile::tempdir().unwrap();
        let spent = Spent::open(&folder.path().join("key")).unwrap();
        let spend = || (0..50).filter(|&number| spent.spend(&nonce(number), 100).is_ok()).count();
        let all: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(spend)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((all, spent.len()), (50, 50));
    }
}

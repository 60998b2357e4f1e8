//! The folder of a build: temporary until it is complete, then renamed.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::options::Overwrite;
use crate::StoreError;
use crate::error::IoContext;
use crate::files::sync_folder;
use crate::manifest::FILES;

/// A folder `.NAME.partial-PID-RANDOM` beside the target. Removed when dropped, unless published.
///
/// Its process holds a lock on it, which the system releases when the process ends however it ends: a
/// folder that another build can lock is stale. A process id could not tell, across containers.
pub(super) struct PartialFolder {
    path: PathBuf,
    target: PathBuf,
    parent: PathBuf,
    overwrite: Overwrite,
    _lock: File,
}

impl PartialFolder {
    /// A new folder for `target`; stale ones of the same target are removed.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the target exists and may not be replaced, [`StoreError::Io`].
    pub(super) fn create(target: &Path, overwrite: Overwrite) -> Result<Self, StoreError> {
        let name = target.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            StoreError::BadOption(format!("{}: --out must end in the name of a folder", target.display()))
        })?;
        check_target(target, overwrite)?;
        let parent = match target.parent() {
            Some(parent) if parent != Path::new("") => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        fs::create_dir_all(&parent).at("create", &parent)?;
        let prefix = format!(".{name}.partial-");
        remove_stale(&parent, &prefix);
        loop {
            let mut random = [0; 8];
            getrandom::fill(&mut random).map_err(StoreError::NoEntropy)?;
            let (process, random) = (std::process::id(), u64::from_le_bytes(random));
            let path = parent.join(format!("{prefix}{process}-{random:016x}"));
            fs::create_dir(&path).at("create", &path)?;
            // Another build may take the folder for stale before it is locked: then make another.
            let Ok(lock) = File::open(&path) else { continue };
            let taken = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
            if !taken && path.is_dir() {
                return Ok(Self { path, target: target.into(), parent, overwrite, _lock: lock });
            }
        }
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the folder, whose files are synced, in the target's place.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if a target appeared meanwhile that may not be replaced, [`StoreError::Io`].
    pub(super) fn publish(self) -> Result<(), StoreError> {
        sync_folder(&self.path)?;
        check_target(&self.target, self.overwrite)?;
        match rename(&self.path, &self.target, RenameFlags::NOREPLACE) {
            Err(error)
                if error.kind() == ErrorKind::AlreadyExists && self.overwrite == Overwrite::Replace =>
            {
                self.exchange()?;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(&self.target)),
            renamed => renamed.at("rename", &self.path)?,
        }
        sync_folder(&self.parent)
        // Dropping removes what now has the temporary name: nothing, or the old snapshot.
    }

    /// Exchanges the names of the folder and the target in one step, so that there is a snapshot at any
    /// instant; in two where the file system cannot.
    fn exchange(&self) -> Result<(), StoreError> {
        match renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            exchanged => return exchanged.map_err(Into::into).at("rename", &self.path),
        }
        let old = self.path.with_extension("old");
        fs::rename(&self.target, &old).at("rename", &self.target)?;
        if let Err(error) = fs::rename(&self.path, &self.target) {
            // The old snapshot goes back; if even that fails, it is still there under the other name.
            let _ = fs::rename(&old, &self.target);
            return Err(error).at("rename", &self.path);
        }
        fs::remove_dir_all(&old).at("remove", &old)
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        // What cannot be removed now, the next build removes.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> std::io::Result<()> {
    match renameat_with(CWD, from, CWD, to, flags) {
        // Not every file system knows the flag. The target has just been seen not to exist.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if to.symlink_metadata().is_err() => {
            fs::rename(from, to)
        }
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Err(ErrorKind::AlreadyExists.into()),
        renamed => renamed.map_err(Into::into),
    }
}

fn exists(target: &Path) -> StoreError {
    let detail = "it exists; choose another --out, or say --overwrite to replace it".into();
    StoreError::Exists { path: target.into(), detail }
}

/// Whether a build may take this place. Nothing but a snapshot is ever replaced.
fn check_target(target: &Path, overwrite: Overwrite) -> Result<(), StoreError> {
    if let Err(error) = target.symlink_metadata() {
        return if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error).at("read", target) };
    }
    if overwrite == Overwrite::Refuse {
        return Err(exists(target));
    }
    let foreign = |what: &str| {
        let detail = format!("{what}, so it is not replaced; remove it yourself or choose another --out");
        Err(StoreError::Exists { path: target.into(), detail })
    };
    if !target.is_dir() {
        return foreign("it is not a folder");
    }
    for entry in fs::read_dir(target).at("read", target)? {
        let name = entry.at("read", target)?.file_name();
        if !FILES.iter().any(|&file| name == file) {
            return foreign(&format!("it holds {name:?}, which belongs to no snapshot"));
        }
    }
    Ok(())
}

/// Removes folders of builds of the same target whose process is gone.
fn remove_stale(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)) {
            continue;
        }
        let path = entry.path();
        // An error means that nobody can tell: then it stays.
        if let Ok(folder) = File::open(&path)
            && folder.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

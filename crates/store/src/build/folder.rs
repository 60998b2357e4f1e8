//! The folder of a build: under a temporary name until it is complete, then renamed.

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
/// The building process holds a lock on the folder, which the system releases whenever and however
/// the process ends: a folder that another build can lock is stale. A process id would be ambiguous
/// across containers.
pub(super) struct PartialFolder {
    path: PathBuf,
    target: PathBuf,
    parent: PathBuf,
    overwrite: Overwrite,
    _lock: File,
}

impl PartialFolder {
    /// Creates a new folder for `target`, and removes stale folders of the same target.
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
            // Another build may consider the folder stale before it is locked; then try again with
            // a new one.
            let Ok(lock) = File::open(&path) else { continue };
            let taken = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
            if !taken && path.is_dir() {
                return Ok(Self { path, target: target.into(), parent, overwrite, _lock: lock });
            }
        }
    }

    /// Returns the folder's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the folder, whose files are synced, to the target's path.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if a target that may not be replaced has appeared meanwhile,
    /// [`StoreError::Io`].
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
        // Dropping `self` removes the old snapshot, which has the temporary name after an exchange.
    }

    /// Exchanges the names of the folder and the target in one step, so that a snapshot exists at
    /// every instant; in two steps if the file system cannot exchange names.
    fn exchange(&self) -> Result<(), StoreError> {
        match renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            exchanged => return exchanged.map_err(Into::into).at("rename", &self.path),
        }
        let old = self.path.with_extension("old");
        fs::rename(&self.target, &old).at("rename", &self.target)?;
        if let Err(error) = fs::rename(&self.path, &self.target) {
            // Moves the old snapshot back; if even that fails, it still exists under the other
            // name.
            let _ = fs::rename(&old, &self.target);
            return Err(error).at("rename", &self.path);
        }
        fs::remove_dir_all(&old).at("remove", &old)
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        // If removal fails, the next build removes the folder.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> std::io::Result<()> {
    match renameat_with(CWD, from, CWD, to, flags) {
        // Some file systems do not support the flag. The target did not exist a moment ago.
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

/// Checks that a build may take this path. Only snapshots are ever replaced.
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

/// Removes folders of builds of the same target whose process has ended.
fn remove_stale(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)) {
            continue;
        }
        let path = entry.path();
        // If opening or locking fails for another reason, the state is unknown and the folder
        // stays.
        if let Ok(folder) = File::open(&path)
            && folder.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

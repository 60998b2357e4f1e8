//! The operator's key file, and signatures of snapshots.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use spirea_protocols::signature::{PrivateKey, Signature};
use zeroize::{Zeroize, Zeroizing};

use crate::error::IoContext;
use crate::files::{replace, sync_folder};
use crate::manifest::SIGNATURE_FILE;
use crate::{Snapshot, StoreError, time};

/// Prefix of a private key file.
const LABEL: &str = "spirea ed25519 private key ";
/// Permissions of a private key file: only its owner may read it.
const MODE: u32 = 0o600;

/// Creates a key and writes it to a new file that only its owner can read.
///
/// # Errors
/// [`StoreError::Exists`] if the file exists, because a lost key cannot be restored;
/// [`StoreError::Io`], [`StoreError::NoEntropy`].
pub fn new_key(path: &Path) -> Result<PrivateKey, StoreError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut()).map_err(StoreError::NoEntropy)?;
    let key = PrivateKey::from_bytes(&bytes);
    let opened = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let detail = "it exists, and a key that is overwritten is lost: choose another path".into();
            return Err(StoreError::Exists { path: path.into(), detail });
        }
        opened => opened.at("create", path)?,
    };
    let mut text = Zeroizing::new(String::with_capacity(LABEL.len() + 65));
    text.push_str(LABEL);
    // The hexadecimal text is as secret as the bytes.
    let mut hex = blake3::Hash::from_bytes(*bytes).to_hex();
    text.push_str(&hex);
    hex.zeroize();
    text.push('\n');
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).at("write", path)?;
    sync_folder(path.parent().unwrap_or(Path::new("")))?;
    Ok(key)
}

/// Reads a key written by [`new_key`].
///
/// # Errors
/// [`StoreError::BadOption`] if the file holds no key, or if others than its owner may read it;
/// [`StoreError::Io`].
pub fn read_key(path: &Path) -> Result<PrivateKey, StoreError> {
    let bad = |detail: &str| Err(StoreError::BadOption(format!("{}: {detail}", path.display())));
    let file = File::open(path).at("open", path)?;
    let metadata = file.metadata().at("read", path)?;
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into()).at("read", path);
    }
    if metadata.mode() & 0o077 != 0 {
        return bad(
            "others than its owner may read this private key: chmod 600 it, or make a new one if they have",
        );
    }
    if metadata.len() > 1 << 10 {
        return bad("it is no private key; make one with `spirea key new`");
    }
    let text = Zeroizing::new(fs::read_to_string(path).at("read", path)?);
    let hex = text.trim_end().strip_prefix(LABEL);
    match hex.and_then(|hex| blake3::Hash::from_hex(hex).ok()) {
        Some(bytes) => Ok(PrivateKey::from_bytes(&Zeroizing::new(*bytes.as_bytes()))),
        None => bad("it is no private key; make one with `spirea key new`"),
    }
}

/// Signs a snapshot: writes the signature beside its manifest, with the next sequence number,
/// replacing an existing signature. The version does not change.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::Damaged`] if the existing file is not a signature.
pub fn sign(snapshot: &Snapshot, key: &PrivateKey) -> Result<Signature, StoreError> {
    let last = snapshot.signature()?.map_or(0, |signature| signature.sequence);
    let sequence = time::unix_seconds().max(last.saturating_add(1));
    let name = &snapshot.manifest().name;
    let signature = Signature::new(key, name, &snapshot.version(), sequence, &time::created()?);
    replace(&snapshot.folder().join(SIGNATURE_FILE), &signature.to_json())?;
    Ok(signature)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_survive_their_files_and_nobody_else_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = new_key(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_key(&path).unwrap().public(), key.public());
        assert!(matches!(new_key(&path), Err(StoreError::Exists { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read_key(&path).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["", "spirea ed25519 private key 00", "0".repeat(64).as_str()] {
            fs::write(&path, text).unwrap();
            assert!(read_key(&path).unwrap_err().to_string().contains("spirea key new"));
        }
    }
}

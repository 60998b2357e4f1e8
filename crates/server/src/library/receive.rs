//! Receives a snapshot over the network: a tar archive of its folder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use spirea_protocols::signature::MAX_SIGNATURE_BYTES;
use spirea_store::Groups;
use spirea_store::manifest::{
    FILES, GROUPS_FILE, MANIFEST_FILE, MAX_MANIFEST_BYTES, Manifest, SIGNATURE_FILE,
};

/// Reason why an upload was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// The upload is not an archive of a snapshot.
    #[error(
        "the upload is no archive of a snapshot: {0}; send `tar --create` of the folder's files, manifest.json first"
    )]
    Malformed(String),
    /// The snapshot belongs to another database.
    #[error("the snapshot is of the database {found:?}, not of {wanted:?}")]
    OtherDatabase {
        /// Database of the snapshot.
        found: String,
        /// Database to which it was sent.
        wanted: String,
    },
    /// The upload broke off.
    #[error("the upload broke off: {0}; send it again")]
    Broken(io::Error),
    /// A file could not be written.
    #[error("{path}: cannot be written: {source}; free some space and send the snapshot again", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Maximum bytes of an extended header; some tools write times and owners there.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;

/// Writes the files of an archive into a folder, and syncs them. The manifest comes first and lists
/// the other files with their lengths; nothing else is ever written.
pub(super) fn receive(archive: impl Read, folder: &Path, name: &str) -> Result<(), ReceiveError> {
    let malformed = |detail: String| ReceiveError::Malformed(detail);
    let mut archive = tar::Archive::new(archive);
    let mut manifest = None::<Manifest>;
    let mut written = Vec::new();
    // Entries are read raw: otherwise the reader would hold long names and extended headers in
    // memory, at whatever length they claim. The names of a snapshot's files are short.
    for entry in archive.entries().map_err(ReceiveError::Broken)?.raw(true) {
        let mut entry = entry.map_err(ReceiveError::Broken)?;
        let kind = entry.header().entry_type();
        if kind.is_pax_local_extensions() || kind.is_pax_global_extensions() {
            match entry.header().entry_size() {
                Ok(0..=MAX_EXTENSION_BYTES) => continue,
                _ => return Err(malformed("an extended header is too long".into())),
            }
        }
        if kind.is_dir() {
            continue;
        }
        let path = entry.path().map_err(|error| malformed(error.to_string()))?.into_owned();
        let file = path.strip_prefix(".").unwrap_or(&path).to_string_lossy().into_owned();
        let Some(file) = FILES.into_iter().find(|known| *known == file && kind.is_file()) else {
            return Err(malformed(format!("{file:?} is no file of a snapshot")));
        };
        if written.contains(&file) {
            return Err(malformed(format!("{file} comes twice")));
        }
        let bytes = entry.header().size().map_err(|error| malformed(error.to_string()))?;
        let expected = match (file, &manifest) {
            (MANIFEST_FILE, _) => bytes.min(MAX_MANIFEST_BYTES),
            (_, None) => return Err(malformed(format!("{file} comes before {MANIFEST_FILE}"))),
            (SIGNATURE_FILE, _) => bytes.min(MAX_SIGNATURE_BYTES),
            (GROUPS_FILE, Some(manifest)) => Groups::list_bytes(manifest.matrix.bytes),
            (_, Some(manifest)) => {
                let entry = manifest.files().find(|entry| entry.file == file);
                entry.ok_or_else(|| malformed(format!("the manifest names no {file}")))?.bytes
            }
        };
        if bytes != expected {
            return Err(malformed(format!("{file} has {bytes} bytes where {expected} may come")));
        }
        let path = folder.join(file);
        write(&mut entry, &path)?;
        written.push(file);
        if file == MANIFEST_FILE {
            let content =
                fs::read(&path).map_err(|source| ReceiveError::Write { path: path.clone(), source })?;
            let (parsed, _) = Manifest::from_bytes(&content).map_err(|error| malformed(error.to_string()))?;
            if parsed.name != name {
                return Err(ReceiveError::OtherDatabase { found: parsed.name, wanted: name.into() });
            }
            manifest = Some(parsed);
        }
    }
    let manifest = manifest.ok_or_else(|| malformed(format!("there is no {MANIFEST_FILE}")))?;
    match manifest.files().find(|entry| !written.contains(&&*entry.file)) {
        Some(missing) => Err(malformed(format!("there is no {}", missing.file))),
        None => Ok(()),
    }
}

/// Copies an entry into a new file and syncs it. A read error is the sender's fault, a write error
/// the server's.
fn write(entry: &mut impl Read, path: &Path) -> Result<(), ReceiveError> {
    const CHUNK_BYTES: usize = 1 << 18;
    let failed = |source| ReceiveError::Write { path: path.into(), source };
    let mut file = File::create_new(path).map_err(failed)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match entry.read(&mut chunk).map_err(ReceiveError::Broken)? {
            0 => break,
            count => io::Write::write_all(&mut file, &chunk[..count]).map_err(failed)?,
        }
    }
    file.sync_all().map_err(failed)
}

#[cfg(test)]
mod tests {
    use spirea_protocols::TableKind;
    use spirea_specimens::snapshots::write_snapshot;
    use spirea_specimens::{Inputs, inputs};

    use super::*;

    /// Maximum number of inputs in the long form of the test, because each input may sync four
    /// files.
    const MOST_INPUTS: usize = 10_000;

    #[test]
    fn any_bytes_are_an_archive_of_a_snapshot_or_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let snapshot = write_snapshot(folder.path(), "a", TableKind::Keyword, 1);
        let mut archive = tar::Builder::new(Vec::new());
        for file in FILES.iter().filter(|file| snapshot.join(file).exists()) {
            archive.append_path_with_name(snapshot.join(file), file).unwrap();
        }
        let corpus = [archive.into_inner().unwrap()];
        let name = Manifest::from_bytes(&fs::read(snapshot.join(MANIFEST_FILE)).unwrap()).unwrap().0.name;
        let mut made = Inputs::new(11);
        let into = folder.path().join("into");
        let mut received = 0;
        for i in 0..inputs(300).min(MOST_INPUTS) {
            fs::create_dir(&into).unwrap();
            let bytes = if i == 0 { corpus[0].clone() } else { made.changed(&corpus) };
            let complete = receive(&bytes[..], &into, &name).is_ok();
            let written: Vec<_> = fs::read_dir(&into).unwrap().map(|entry| entry.unwrap()).collect();
            for entry in &written {
                assert!(FILES.iter().any(|file| entry.file_name() == *file), "{entry:?}");
                assert!(entry.metadata().unwrap().len() <= bytes.len() as u64, "{entry:?}");
            }
            if complete {
                let (manifest, _) =
                    Manifest::from_bytes(&fs::read(into.join(MANIFEST_FILE)).unwrap()).unwrap();
                for file in manifest.files() {
                    assert_eq!(fs::metadata(into.join(&file.file)).unwrap().len(), file.bytes);
                }
                received += 1;
            }
            fs::remove_dir_all(&into).unwrap();
        }
        assert!(received > 0, "the first input is right");
    }

    /// An archive that has a first header, followed by endless bytes.
    struct Endless {
        head: io::Cursor<Vec<u8>>,
        given: u64,
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = match self.head.read(buffer)? {
                0 => {
                    buffer.fill(b'x');
                    buffer.len()
                }
                count => count,
            };
            self.given += count as u64;
            Ok(count)
        }
    }

    #[test]
    fn headers_that_say_they_are_long_are_refused_before_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        for kind in [b'L', b'K', b'x', b'g', b'S'] {
            for size in [(64 << 10) + 1, 1 << 34] {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(tar::EntryType::new(kind));
                header.set_path("manifest.json").unwrap();
                header.set_size(size);
                header.set_cksum();
                let head = io::Cursor::new(header.as_bytes().to_vec());
                let mut archive = Endless { head, given: 0 };
                let refused = receive(&mut archive, folder.path(), "table");
                let kind = char::from(kind);
                assert!(matches!(refused, Err(ReceiveError::Malformed(_))), "{kind}: {refused:?}");
                assert!(archive.given <= 4096, "{kind}: {} bytes of {size} were read", archive.given);
            }
        }
    }
}

//! Verification of parts of a file without reading the rest of the file.
//!
//! BLAKE3 is a tree: the hash of a file follows from the chaining values of its groups, 1 MiB each,
//! the last one shorter. The chaining values are stored beside the file, 32 bytes each, in a list.
//! The list needs no hash of its own: merged, the values must give the file's hash, which the
//! manifest contains. With the list, any groups of the file can be verified without reading other
//! groups.

use std::ops::Range;
use std::path::Path;

use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};
use rayon::prelude::*;
use spirea_backend::StoredFile;
use spirea_protocols::FileHash;

use crate::StoreError;
use crate::error::IoContext;
use crate::files::{entry, hash_file, read_at_most};
use crate::manifest::{FileEntry, GROUPS_FILE, MATRIX_FILE};

/// Bytes of a group: a chunk of BLAKE3 times a power of two.
pub const GROUP_BYTES: u64 = 1 << 20;
/// Bytes of a chaining value.
const VALUE_BYTES: u64 = 32;
/// Number of groups that are read and hashed at once.
const AT_ONCE: u64 = 16;

/// The chaining values of a file's groups, at least two.
pub struct Groups(Vec<ChainingValue>);

impl Groups {
    /// Returns the length of the list for a file of `bytes` bytes; 0 for a file with at most one
    /// group, which has no list.
    pub fn list_bytes(bytes: u64) -> u64 {
        if bytes <= GROUP_BYTES { 0 } else { bytes.div_ceil(GROUP_BYTES) * VALUE_BYTES }
    }

    /// Returns the groups that overlap some ranges, as disjoint and non-adjacent byte ranges of the
    /// file.
    pub fn covering(bytes: u64, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut covering: Vec<Range<u64>> = Vec::new();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let start = range.start / GROUP_BYTES * GROUP_BYTES;
            let end = range.end.next_multiple_of(GROUP_BYTES).min(bytes);
            match covering.last_mut() {
                Some(last) if last.end >= start => last.end = last.end.max(end),
                _ => covering.push(start..end),
            }
        }
        covering
    }

    /// Computes the list from the whole file. `progress` receives the number of processed bytes.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn of_file(
        file: &StoredFile,
        bytes: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, StoreError> {
        let mut values = Vec::with_capacity(usize::try_from(bytes.div_ceil(GROUP_BYTES)).unwrap_or(0));
        each_group(file, std::slice::from_ref(&(0..bytes)), |_, value| {
            values.push(value);
            progress((values.len() as u64 * GROUP_BYTES).min(bytes));
            true
        })?;
        Ok(Self(values))
    }

    /// Returns the list as bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.concat()
    }

    /// Returns the hash of the file.
    pub(crate) fn hash(&self) -> FileHash {
        let (left, right) = split(&self.0);
        FileHash::new(*merge_subtrees_root(&merged(left), &merged(right), Mode::Hash).as_bytes())
    }

    /// Returns the list if its values give the file's hash.
    fn verified(entry: &FileEntry, list: &[u8]) -> Option<Self> {
        if list.len() as u64 != Self::list_bytes(entry.bytes) || list.is_empty() {
            return None;
        }
        let (values, _) = list.as_chunks();
        let groups = Self(values.to_vec());
        (groups.hash() == entry.blake3).then_some(groups)
    }
}

/// Returns the entry of the matrix in a snapshot's folder, and writes the list of its groups beside
/// it.
pub(crate) fn matrix_entry(folder: &Path, progress: &mut dyn FnMut(u64)) -> Result<FileEntry, StoreError> {
    let file = StoredFile::at(folder.join(MATRIX_FILE));
    let bytes = file.bytes().at("open", file.path())?;
    if Groups::list_bytes(bytes) == 0 {
        return entry(folder, MATRIX_FILE, progress);
    }
    let groups = Groups::of_file(&file, bytes, progress)?;
    let list = folder.join(GROUPS_FILE);
    std::fs::write(&list, groups.to_bytes()).at("write", &list)?;
    Ok(FileEntry { file: MATRIX_FILE.into(), bytes, blake3: groups.hash() })
}

/// Verifies `ranges` of a file by the list in `list`. If there is no list, verifies the whole file;
/// a file of a single group never has a list.
///
/// # Errors
/// [`StoreError::Damaged`] with the file, [`StoreError::Io`] if a file cannot be read.
pub(crate) fn verify(
    file: &StoredFile,
    list: &Path,
    entry: &FileEntry,
    ranges: &[Range<u64>],
) -> Result<(), StoreError> {
    let damaged = |path: &Path, detail: String| StoreError::Damaged { path: path.into(), detail };
    let path = file.path();
    let found = file.bytes().at("open", path)?;
    if found != entry.bytes {
        let wanted = entry.bytes;
        return Err(damaged(path, format!("it has {found} bytes where the manifest says {wanted}")));
    }
    let covering = Groups::covering(entry.bytes, ranges);
    if covering.is_empty() {
        return Ok(());
    }
    let bytes = match read_at_most(list, Groups::list_bytes(entry.bytes)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let whole = hash_file(file, &mut |_| ())? == entry.blake3;
            let detail = match Groups::list_bytes(entry.bytes) {
                0 => "its content does not match the manifest's hash".into(),
                _ => format!(
                    "its content does not match the manifest's hash, and there is no {}, by which parts of a file are \
                     verified alone: bring that too, which `spirea build` makes beside the matrix",
                    list.display()
                ),
            };
            return if whole { Ok(()) } else { Err(damaged(path, detail)) };
        }
        bytes => bytes.at("read", list)?,
    };
    let Some(Groups(values)) = Groups::verified(entry, &bytes) else {
        let detail = "it is not the list of the groups of the file that the manifest names; remove it, or bring the right one";
        return Err(damaged(list, detail.into()));
    };
    let mut wrong = None;
    each_group(file, &covering, |start, value| {
        if values[(start / GROUP_BYTES) as usize] != value {
            wrong = Some(start);
        }
        wrong.is_none()
    })?;
    wrong.map_or(Ok(()), |start| {
        Err(damaged(
            path,
            format!("what it holds at byte {start} and behind does not match the manifest's hash"),
        ))
    })
}

/// Passes the offset and the chaining value of each group in `ranges` to `take`, until `take`
/// returns false. Each range must begin at a group boundary.
fn each_group(
    file: &StoredFile,
    ranges: &[Range<u64>],
    mut take: impl FnMut(u64, ChainingValue) -> bool,
) -> Result<(), StoreError> {
    let mut piece = Vec::new();
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let length = (range.end - start).min(AT_ONCE * GROUP_BYTES);
            piece.resize(length as usize, 0);
            file.read_exact_at(&mut piece, start).at("read", file.path())?;
            let groups = piece.par_chunks(GROUP_BYTES as usize).enumerate();
            let values: Vec<_> = groups
                .map(|(index, group)| {
                    let offset = start + index as u64 * GROUP_BYTES;
                    (offset, blake3::Hasher::new().set_input_offset(offset).update(group).finalize_non_root())
                })
                .collect();
            if !values.into_iter().all(|(offset, value)| take(offset, value)) {
                return Ok(());
            }
            start += length;
        }
    }
    Ok(())
}

/// Returns the chaining value of a subtree of groups.
fn merged(values: &[ChainingValue]) -> ChainingValue {
    if let [value] = values {
        return *value;
    }
    let (left, right) = split(values);
    merge_subtrees_non_root(&merged(left), &merged(right), Mode::Hash)
}

/// Splits several groups into two subtrees: the left one has the largest power of two that leaves
/// at least one group.
fn split(values: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    values.split_at(values.len().div_ceil(2).next_power_of_two())
}

#[cfg(test)]
// The list of a single range is intended.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    const LENGTHS: [u64; 7] = [
        GROUP_BYTES + 1,
        2 * GROUP_BYTES - 1,
        2 * GROUP_BYTES,
        3 * GROUP_BYTES,
        5 * GROUP_BYTES + 77,
        16 * GROUP_BYTES,
        17 * GROUP_BYTES + 1024,
    ];

    fn file(folder: &Path, bytes: u64) -> (std::path::PathBuf, Vec<u8>, FileEntry) {
        let mut content = vec![0; bytes as usize];
        blake3::Hasher::new().update(&bytes.to_le_bytes()).finalize_xof().fill(&mut content);
        let path = folder.join("matrix.bin");
        std::fs::write(&path, &content).unwrap();
        let blake3 = blake3::hash(&content).into();
        (path, content, FileEntry { file: "matrix.bin".into(), bytes, blake3 })
    }

    #[test]
    fn a_list_gives_the_hash_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in LENGTHS {
            let (path, _, entry) = file(folder.path(), bytes);
            let groups = Groups::of_file(&StoredFile::at(&path), bytes, &mut |_| ()).unwrap();
            assert_eq!(groups.hash(), entry.blake3, "{bytes} bytes");
            assert_eq!(groups.to_bytes().len() as u64, Groups::list_bytes(bytes));
        }
        assert_eq!(Groups::list_bytes(GROUP_BYTES), 0);
    }

    #[test]
    fn parts_are_verified_without_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("matrix.groups");
        for bytes in LENGTHS {
            let (path, content, entry) = file(folder.path(), bytes);
            let groups = Groups::of_file(&StoredFile::at(&path), bytes, &mut |_| ()).unwrap();
            std::fs::write(&list, groups.to_bytes()).unwrap();
            let ranges = [5..9, GROUP_BYTES - 1..GROUP_BYTES + 1];
            let covering = Groups::covering(bytes, &ranges);
            assert_eq!(covering, [0..bytes.min(2 * GROUP_BYTES)]);
            // A copy that contains only the covered groups.
            let mut sparse = vec![0; bytes as usize];
            let own = 0..covering[0].end as usize;
            sparse[own.clone()].copy_from_slice(&content[own.clone()]);
            std::fs::write(&path, &sparse).unwrap();
            verify(&StoredFile::at(&path), &list, &entry, &ranges).unwrap();
            for wrong in [0, 7, own.end - 1] {
                let mut flipped = sparse.clone();
                flipped[wrong] ^= 0x10;
                std::fs::write(&path, &flipped).unwrap();
                let error = verify(&StoredFile::at(&path), &list, &entry, &ranges).unwrap_err().to_string();
                assert!(error.contains("matrix.bin"), "{error}");
            }
            std::fs::write(&path, &sparse).unwrap();
            let whole = [0..bytes];
            assert_eq!(
                verify(&StoredFile::at(&path), &list, &entry, &whole).is_ok(),
                own.end as u64 == bytes
            );
            let mut wrong = groups.to_bytes();
            wrong[0] ^= 1;
            for wrong in [&wrong[..], &wrong[..wrong.len() - 1], &[]] {
                std::fs::write(&list, wrong).unwrap();
                let error = verify(&StoredFile::at(&path), &list, &entry, &ranges).unwrap_err().to_string();
                assert!(error.contains("matrix.groups"), "{error}");
            }
            // The list becomes a sparse file, longer than the memory of any machine.
            std::fs::File::create(&list).unwrap().set_len(1 << 42).unwrap();
            let error = verify(&StoredFile::at(&path), &list, &entry, &ranges).unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            // Without the list, the whole file must be present.
            std::fs::remove_file(&list).unwrap();
            assert_eq!(
                verify(&StoredFile::at(&path), &list, &entry, &ranges).is_ok(),
                own.end as u64 == bytes
            );
            std::fs::write(&path, &content).unwrap();
            verify(&StoredFile::at(&path), &list, &entry, &ranges).unwrap();
            std::fs::write(&path, &content[1..]).unwrap();
            assert!(verify(&StoredFile::at(&path), &list, &entry, &ranges).is_err());
        }
    }

    #[test]
    fn covering_groups_are_whole_and_merged() {
        let bytes = 4 * GROUP_BYTES + 5;
        let covering = |ranges: &[Range<u64>]| Groups::covering(bytes, ranges);
        assert_eq!(covering(&[]), []);
        assert_eq!(covering(std::slice::from_ref(&(3..3))), []);
        assert_eq!(covering(&[1..2, 9..GROUP_BYTES]), [0..GROUP_BYTES]);
        assert_eq!(covering(&[1..2, GROUP_BYTES..GROUP_BYTES + 1]), [0..2 * GROUP_BYTES]);
        assert_eq!(covering(&[1..2, bytes - 1..bytes]), [0..GROUP_BYTES, 4 * GROUP_BYTES..bytes]);
    }
}

//! Which bytes of a snapshot's files the server of a share reads.

use serde::Serialize;
use spirea_backend::Share;
use spirea_store::manifest::{GROUPS_FILE, MANIFEST_FILE};
use spirea_store::{Groups, Manifest};

/// What the server of a share reads of a snapshot: what to bring to it, where the snapshot lies in an object store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShareFiles {
    /// In order: the manifest first.
    pub files: Vec<FilePart>,
}

/// What is read of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilePart {
    /// Its name in the snapshot's folder.
    pub path: String,
    /// Its length; a copy has it too, whatever it lacks.
    pub size: u64,
    /// The bytes: of each range the first and the one behind the last.
    pub ranges: Vec<[u64; 2]>,
    /// Whether the snapshot may lack the file: then all of the matrix is read, to verify it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

impl ShareFiles {
    /// Those of a share of a snapshot with this manifest, which has so many bytes.
    pub fn of(manifest: &Manifest, manifest_bytes: u64, share: Share) -> Self {
        let whole = |path: &str, size: u64, optional: bool| FilePart {
            path: path.into(),
            size,
            ranges: if size == 0 { Vec::new() } else { vec![[0, size]] },
            optional,
        };
        let matrix = &manifest.matrix;
        // Whole groups: what a share has is verified by them.
        let covering = Groups::covering(matrix.bytes, &manifest.protocol.share_bytes(share));
        let ranges = covering.into_iter().map(|range| [range.start, range.end]).collect();
        let list_bytes = Groups::list_bytes(matrix.bytes);
        let list = (list_bytes > 0).then(|| whole(GROUPS_FILE, list_bytes, true));
        let matrix = FilePart { path: matrix.file.clone(), size: matrix.bytes, ranges, optional: false };
        let files = [whole(MANIFEST_FILE, manifest_bytes, false), matrix].into_iter().chain(list);
        Self { files: files.collect() }
    }
}

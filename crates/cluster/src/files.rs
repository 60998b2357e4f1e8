//! Byte ranges of a snapshot's files that the server of a share reads.

use serde::Serialize;
use spirea_backend::Share;
use spirea_store::manifest::{GROUPS_FILE, MANIFEST_FILE};
use spirea_store::{Groups, Manifest};

/// Parts of a snapshot that the server of a share reads: a machine that takes the snapshot from an
/// object store must download them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShareFiles {
    /// Parts in order, the manifest first.
    pub files: Vec<FilePart>,
}

/// Part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilePart {
    /// Name in the snapshot's folder.
    pub path: String,
    /// Full length of the file. A sparse copy has this length too.
    pub size: u64,
    /// Byte ranges, each with its first byte and the byte after its last.
    pub ranges: Vec<[u64; 2]>,
    /// True if the snapshot may lack the file. Without it, all of the matrix is read to verify the
    /// share.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

impl ShareFiles {
    /// Lists the parts for a share of the snapshot with this manifest, which is `manifest_bytes`
    /// long.
    pub fn of(manifest: &Manifest, manifest_bytes: u64, share: Share) -> Self {
        let whole = |path: &str, size: u64, optional: bool| FilePart {
            path: path.into(),
            size,
            ranges: if size == 0 { Vec::new() } else { vec![[0, size]] },
            optional,
        };
        let matrix = &manifest.matrix;
        // The range consists of whole groups, because a share's bytes are verified by group.
        let covering = Groups::covering(matrix.bytes, &manifest.protocol.share_bytes(share));
        let ranges = covering.into_iter().map(|range| [range.start, range.end]).collect();
        let list_bytes = Groups::list_bytes(matrix.bytes);
        let list = (list_bytes > 0).then(|| whole(GROUPS_FILE, list_bytes, true));
        let matrix = FilePart { path: matrix.file.clone(), size: matrix.bytes, ranges, optional: false };
        let files = [whole(MANIFEST_FILE, manifest_bytes, false), matrix].into_iter().chain(list);
        Self { files: files.collect() }
    }
}

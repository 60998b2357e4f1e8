//! The manifest: describes a snapshot's content, with the hashes that prove it.
//!
//! On disk it is `{"blake3": HASH, "snapshot": {...}}` in one canonical form. The hash is that of
//! the compact JSON of `snapshot`. A file that differs in any byte from the form that this software
//! writes is refused, so every change is detected. The hash is the snapshot's version.

use serde::{Deserialize, Serialize};
use spirea_protocols::keyword::{Copies, TAG_BYTES};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::table::MAX_VALUE_BYTES;
use spirea_protocols::{FileHash, ProtocolError, Table, TableKind, Version};

use crate::apple::AppleTables;
use crate::time;

/// Version of the format that this software reads and writes.
pub const FORMAT: u32 = 3;
/// Maximum size of a manifest, in bytes.
pub const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// Name of the manifest's file.
pub const MANIFEST_FILE: &str = "manifest.json";
/// Name of the matrix's file.
pub const MATRIX_FILE: &str = "matrix.bin";
/// Name of the hint's file.
pub const HINT_FILE: &str = "hint.bin";
/// Name of the file of the server's precomputed data.
pub const SERVER_FILE: &str = "server.bin";
/// Name of the file of the hashes of the hint's rows.
pub const HINT_ROWS_FILE: &str = "hint.rows";
/// Name of the file of a delta's changes.
pub const CHANGES_FILE: &str = "changes.bin";
/// Name of the file of a snapshot's signature, beside the manifest that it signs.
pub const SIGNATURE_FILE: &str = "signature.json";
/// Name of the file of the chaining values of the matrix's groups ([`crate::Groups`]), beside the
/// manifest. The manifest's hash of the matrix proves the list.
pub const GROUPS_FILE: &str = "matrix.groups";
/// Name of the file of the tables for Apple's clients.
pub const APPLE_FILE: &str = "apple.bin";
/// All files that a snapshot may have.
pub const FILES: [&str; 9] = [
    MANIFEST_FILE,
    MATRIX_FILE,
    HINT_FILE,
    SERVER_FILE,
    HINT_ROWS_FILE,
    CHANGES_FILE,
    SIGNATURE_FILE,
    GROUPS_FILE,
    APPLE_FILE,
];

/// A file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Name in the snapshot's folder.
    pub file: String,
    /// Length, in bytes.
    pub bytes: u64,
    /// BLAKE3 hash of the content.
    pub blake3: FileHash,
}

/// Statistics of the build, for reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// Rows of the input.
    pub rows: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Bytes of all values with their framing: tags and lengths.
    pub entry_bytes: u64,
    /// Length of the longest value, in bytes.
    pub longest_value_bytes: u64,
    /// Row of the first longest value in the input, from 1; `None` if the table was not built from
    /// all rows of an input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_value_row: Option<u64>,
    /// Cost of the longest hundredth of the values; `None` if the table has been changed in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_longest: Option<WithoutLongest>,
}

/// Sizes of the table without the longest hundredth of its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithoutLongest {
    /// Length of the longest remaining value, in bytes.
    pub longest_value_bytes: u64,
    /// Length of a record, in bytes.
    pub record_bytes: u64,
}

/// Content of a snapshot. It is entirely public: clients receive the table and the parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the format, [`FORMAT`].
    pub format: u32,
    /// Name of the dataset.
    pub name: String,
    /// Time of the build: RFC 3339 in UTC, to the second.
    pub created: String,
    /// For a delta, the version of its base; `None` for a base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_of: Option<Version>,
    /// Layout of values in records.
    pub table: Table,
    /// The protocol and its parameters.
    pub protocol: ProtocolParams,
    /// The matrix, in the backends' layout.
    pub matrix: FileEntry,
    /// The hint: words, or the packed upper bits of each word.
    pub hint: FileEntry,
    /// Hashes of the hint's rows ([`spirea_protocols::hint_rows`]), if the protocol has a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint_rows: Option<FileEntry>,
    /// Data computed from the matrix for the server alone, if the protocol has such data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<FileEntry>,
    /// For a delta, the changes themselves, needed for merging or compacting them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<FileEntry>,
    /// Layout of the same data in tables for Apple's clients, if the build made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apple: Option<AppleTables>,
    /// The tables of [`Manifest::apple`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apple_tables: Option<FileEntry>,
    /// Statistics of the build.
    pub statistics: Statistics,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<M> {
    blake3: Version,
    snapshot: M,
}

/// Common part of manifests of all formats.
#[derive(Deserialize)]
struct Outlined {
    snapshot: Outline,
}

#[derive(Deserialize)]
struct Outline {
    format: u32,
}

impl Manifest {
    /// Parses a manifest's file and checks everything that does not need the other files. Also
    /// returns the snapshot's version.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] with the cause.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Self, Version), ProtocolError> {
        if bytes.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(malformed(format!("it is longer than {MAX_MANIFEST_BYTES} bytes")));
        }
        let unreadable = |error: serde_json::Error| malformed(error.to_string());
        // The format is checked first: another format may describe a table or a protocol in terms
        // unknown to this software.
        let Outline { format } = serde_json::from_slice::<Outlined>(bytes).map_err(unreadable)?.snapshot;
        check_format(format)?;
        let envelope: Envelope<Self> = serde_json::from_slice(bytes).map_err(unreadable)?;
        let manifest = envelope.snapshot;
        let version = manifest.version();
        if envelope.blake3 != version {
            return Err(malformed("its content does not match its hash"));
        }
        if manifest.to_bytes() != bytes {
            return Err(malformed("it is not in canonical form: it was edited or damaged"));
        }
        manifest.validate()?;
        Ok((manifest, version))
    }

    /// Returns the bytes of the manifest's file, always the same for equal manifests.
    pub fn to_bytes(&self) -> Vec<u8> {
        let envelope = Envelope { blake3: self.version(), snapshot: self };
        let mut bytes = serde_json::to_vec_pretty(&envelope).expect("a manifest is plain data");
        bytes.push(b'\n');
        bytes
    }

    /// Returns the hash of the manifest, and so of the whole snapshot: its version.
    pub fn version(&self) -> Version {
        blake3::hash(&self.hashed_bytes()).into()
    }

    /// Returns the bytes whose hash is the version.
    pub fn hashed_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest is plain data")
    }

    /// Checks the members, and that they belong together.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] with the member.
    pub fn validate(&self) -> Result<(), ProtocolError> {
        let wrong = |detail: String| Err(malformed(detail));
        check_format(self.format)?;
        if !valid_name(&self.name) {
            return wrong(format!("name {:?} is not {NAME_RULE}", self.name));
        }
        if !time::is_rfc3339(&self.created) {
            return wrong("created is not a time such as 2026-01-31T23:59:59Z".into());
        }
        self.table.validate()?;
        if self.protocol.records() != self.table.records {
            return wrong("the table and the protocol's parameters differ in records".into());
        }
        if self.protocol.record_bytes() != self.table.record_bytes() {
            return wrong("the table and the protocol's parameters differ in record_bytes".into());
        }
        if self.table.copies != Copies::One && self.protocol.bins == 1 {
            return wrong("a table with several copies of its entries must have bins".into());
        }
        if self.server.is_some() != (self.protocol.server_bytes > 0) {
            return wrong("server must be there if and only if the protocol keeps something".into());
        }
        let hint_bytes = self.protocol.sizes.hint_bytes;
        if self.hint_rows.is_some() != (hint_bytes > 0) {
            return wrong("hint_rows must be there if and only if the protocol has a hint".into());
        }
        if self.changes.is_some() != self.delta_of.is_some() {
            return wrong("changes must be there if and only if it is a delta".into());
        }
        if self.delta_of.is_some() && self.table.kind != TableKind::Keyword {
            return wrong("a delta is looked up by key".into());
        }
        if self.apple.is_some() != self.apple_tables.is_some() {
            return wrong("apple and apple_tables must be there together".into());
        }
        if self.apple.is_some() && (self.delta_of.is_some() || self.table.kind != TableKind::Keyword) {
            return wrong("tables for Apple's clients belong to a base that is looked up by key".into());
        }
        let apple_bytes = self.apple.as_ref().map_or(Ok(0), AppleTables::bytes)?;
        let row_hashes = self.protocol.hint_rows().map_or(0, |rows| rows.list_bytes(hint_bytes));
        let files = [
            ("matrix", Some(&self.matrix), MATRIX_FILE, self.protocol.matrix_bytes()),
            ("hint", Some(&self.hint), HINT_FILE, hint_bytes),
            ("hint_rows", self.hint_rows.as_ref(), HINT_ROWS_FILE, row_hashes),
            ("server", self.server.as_ref(), SERVER_FILE, self.protocol.server_bytes),
            // Changes may have any length: their hash identifies them.
            ("changes", self.changes.as_ref(), CHANGES_FILE, self.changes.as_ref().map_or(0, |c| c.bytes)),
            ("apple_tables", self.apple_tables.as_ref(), APPLE_FILE, apple_bytes),
        ];
        for (member, entry, file, bytes) in files {
            let Some(entry) = entry else { continue };
            if entry.file != file {
                return wrong(format!("{member}.file must be {file:?}"));
            }
            if entry.bytes != bytes {
                return wrong(format!(
                    "{member}.bytes is {}, but the parameters make it {bytes}",
                    entry.bytes
                ));
            }
        }
        let Statistics { rows, value_bytes, entry_bytes, longest_value_bytes, longest_value_row, .. } =
            self.statistics;
        if rows != self.table.entries {
            return wrong("statistics.rows must be the table's entries".into());
        }
        // A delta stores one byte before each value.
        let most = MAX_VALUE_BYTES as u64 + u64::from(self.delta_of.is_some());
        if longest_value_bytes > most {
            return wrong("statistics.longest_value_bytes is out of range".into());
        }
        let row_exists = longest_value_row.is_none_or(|row| (1..=rows).contains(&row));
        if !row_exists || value_bytes > entry_bytes {
            return wrong("statistics are not consistent".into());
        }
        Ok(())
    }

    /// Returns all files except the manifest.
    pub fn files(&self) -> impl Iterator<Item = &FileEntry> {
        let Self { matrix, hint, hint_rows, server, changes, apple_tables, .. } = self;
        let files = [Some(matrix), Some(hint), hint_rows.as_ref(), server.as_ref(), changes.as_ref()];
        files.into_iter().chain([apple_tables.as_ref()]).flatten()
    }

    /// Returns the ratio of the bytes of all payloads to the bytes of their content, all copies
    /// counted.
    pub fn padding(&self) -> f64 {
        let content = self.statistics.entry_bytes.max(1) as f64 * self.table.copies.number() as f64;
        self.table.records as f64 * self.table.payload_bytes as f64 / content
    }

    /// Returns the ratio of the bytes of the matrix to the bytes of all tags and values.
    pub fn expansion(&self) -> f64 {
        let tags = match self.table.kind {
            TableKind::Keyword => self.table.entries * TAG_BYTES as u64,
            TableKind::Index => 0,
        };
        self.matrix.bytes as f64 / (tags + self.statistics.value_bytes).max(1) as f64
    }
}

/// The rule of [`valid_name`], in words.
pub const NAME_RULE: &str = "1 to 128 of the characters a-z, 0-9 and -";

/// True if a dataset may have this name.
pub fn valid_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// Refuses formats of other versions of this software.
fn check_format(format: u32) -> Result<(), ProtocolError> {
    match format {
        FORMAT => Ok(()),
        _ => Err(malformed(format!(
            "it has format {format}, and this software reads format {FORMAT}: build it again from its table"
        ))),
    }
}

fn malformed(detail: impl Into<String>) -> ProtocolError {
    ProtocolError::Malformed { what: "manifest", detail: detail.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spirea_math::random::Seed;
    use spirea_protocols::choice::Choice;
    use spirea_protocols::hint_rows;

    use spirea_protocols::TableKind;

    use super::*;

    fn manifest() -> Manifest {
        let table = Table { entries: 3, ..spirea_specimens::table(TableKind::Keyword, 2, 92) };
        let params = ProtocolParams::choose(&Choice::default(), Seed::new([1; 32]), 2, 100).unwrap();
        let matrix = FileEntry {
            file: MATRIX_FILE.into(),
            bytes: params.matrix_bytes(),
            blake3: FileHash::new([2; 32]),
        };
        let hint = FileEntry {
            file: HINT_FILE.into(),
            bytes: params.sizes.hint_bytes,
            blake3: FileHash::new([3; 32]),
        };
        let [rows, _] = params.stored.shape();
        let bytes = rows as u64 * hint_rows::HASH_BYTES as u64;
        let hint_rows =
            Some(FileEntry { file: HINT_ROWS_FILE.into(), bytes, blake3: FileHash::new([4; 32]) });
        let changes =
            Some(FileEntry { file: CHANGES_FILE.into(), bytes: 99, blake3: FileHash::new([5; 32]) });
        let statistics = Statistics {
            rows: 3,
            value_bytes: 60,
            entry_bytes: 99,
            longest_value_bytes: 30,
            longest_value_row: Some(2),
            without_longest: None,
        };
        Manifest {
            format: FORMAT,
            name: "domains".into(),
            created: "2026-01-31T23:59:59Z".into(),
            delta_of: Some(Version::new([6; 32])),
            table,
            protocol: params,
            matrix,
            hint,
            hint_rows,
            server: None,
            changes,
            apple: None,
            apple_tables: None,
            statistics,
        }
    }

    #[test]
    fn a_manifest_survives_the_disk() {
        let manifest = manifest();
        assert_eq!(
            Manifest::from_bytes(&manifest.to_bytes()).unwrap(),
            (manifest.clone(), manifest.version())
        );
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let bytes = manifest().to_bytes();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(Manifest::from_bytes(&flipped).is_err(), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn inconsistent_manifests_are_refused_by_name() {
        type Change = (fn(&mut Manifest), &'static str);
        let broken: [Change; 22] = [
            (|m| m.format = 1, "build it again"),
            (|m| m.format = 2, "build it again"),
            (|m| m.table.places = None, "places"),
            (|m| m.name = "Up".into(), "name"),
            (|m| m.name = String::new(), "name"),
            (|m| m.created = "yesterday".into(), "created"),
            (|m| m.table.records = 3, "records"),
            (|m| m.table.payload_bytes = 93, "record_bytes"),
            (|m| m.table.fields = vec![String::new(); 4097], "fields"),
            (|m| m.matrix.file = "../matrix.bin".into(), "matrix.file"),
            (|m| m.hint.file = "/etc/passwd".into(), "hint.file"),
            (|m| m.matrix.bytes += 1, "matrix.bytes"),
            (|m| m.hint.bytes = 0, "hint.bytes"),
            (|m| m.server = Some(m.hint.clone()), "server"),
            (|m| m.statistics.rows = 4, "rows"),
            (|m| m.statistics.longest_value_bytes = 1 << 30, "longest"),
            (|m| m.statistics.longest_value_row = Some(0), "statistics"),
            (|m| m.hint_rows = None, "hint_rows"),
            (|m| m.hint_rows.as_mut().unwrap().bytes += 16, "hint_rows.bytes"),
            (|m| m.changes = None, "changes"),
            (|m| m.delta_of = None, "changes"),
            (|m| m.changes.as_mut().unwrap().file = "x".into(), "changes.file"),
        ];
        for (change, message) in broken {
            let mut manifest = manifest();
            change(&mut manifest);
            let error = Manifest::from_bytes(&manifest.to_bytes()).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_former_format_is_named_whatever_else_it_says() {
        let text = String::from_utf8(manifest().to_bytes()).unwrap();
        let former = text.replace("\"format\": 3", "\"format\": 2").replace("\"places\"", "\"formerly\"");
        let refused = Manifest::from_bytes(former.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("format 2") && refused.contains("build it again"), "{refused}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_manifest_or_an_error(bytes: Vec<u8>) {
            prop_assert!(Manifest::from_bytes(&bytes).is_err());
        }
    }
}

//! Snapshots on disk: built, or written by hand.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use spirea_backend::{Residence, StoredFile};
use spirea_cpu::CpuBackend;
use spirea_math::random::Seed;
use spirea_protocols::choice::Choice;
use spirea_protocols::keyword::{Bucket, Copies, EntryPlace, KeyHash};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::table::join_fields;
use spirea_protocols::{FileHash, Opening, PlaceSalt, Precomputation, Role, Salt, Table, TableKind};
use spirea_store::ingest::{Format, FormatHints, Selection};
use spirea_store::manifest::{FORMAT, HINT_FILE, HINT_ROWS_FILE, MANIFEST_FILE, MATRIX_FILE};
use spirea_store::{BuildOptions, FileEntry, Manifest, Protocol, Silent, Snapshot, Statistics, StoreError};

/// Backend for building and answering.
pub static BACKEND: LazyLock<Arc<CpuBackend>> = LazyLock::new(|| Arc::new(CpuBackend::new(1).unwrap()));

/// Opening of snapshots that a single server answers.
pub const MAPPED: Opening = Opening { residence: Residence::Mapped, party: None, role: Role::WHOLE };

/// Number of rows of a [written](write_snapshot) snapshot; `edition` distinguishes versions.
pub const ROWS: u64 = 300;

/// Returns the key of a row of a [written](write_snapshot) snapshot.
pub fn key(row: u64) -> Vec<u8> {
    format!("key-{row}").into_bytes()
}

/// Returns the fields of a row of a [written](write_snapshot) snapshot.
pub fn value(row: u64, edition: u8) -> Vec<Vec<u8>> {
    vec![format!("value {row} of edition {edition}").into_bytes(), vec![edition; row as usize % 7]]
}

/// Writes a snapshot of [`ROWS`] rows without the builder, using only the public format; returns
/// its folder.
pub fn write_snapshot(folder: &Path, name: &str, kind: TableKind, edition: u8) -> PathBuf {
    let values: Vec<Vec<u8>> = (0..ROWS)
        .map(|row| join_fields(&value(row, edition).iter().map(|field| &field[..]).collect::<Vec<_>>()))
        .collect();
    let (salt, places) = ([edition; 32], [edition + 1; 32]);
    let payloads: Vec<Vec<u8>> = match kind {
        TableKind::Index => values.iter().map(|value| Table::index_payload(value)).collect(),
        TableKind::Keyword => {
            let mut buckets = vec![Bucket::default(); 16];
            for (row, value) in values.iter().enumerate() {
                let hash = KeyHash::new(&Salt::new(salt), &key(row as u64));
                buckets[EntryPlace::new(&PlaceSalt::new(places), &hash.tag).part(16) as usize]
                    .push(&hash.tag, value);
            }
            buckets.iter().map(Bucket::payload).collect()
        }
    };
    let table = Table {
        kind,
        entries: ROWS,
        records: payloads.len() as u64,
        payload_bytes: payloads.iter().map(Vec::len).max().unwrap(),
        salt: Salt::new(salt),
        places: (kind == TableKind::Keyword).then_some(PlaceSalt::new(places)),
        copies: Copies::One,
        widths: None,
        rows_per_record: None,
        max_value_bytes: None,
        fields: vec!["text".into(), "more".into()],
        types: Vec::new(),
        key_form: None,
        key_queries: None,
        proofs: None,
    };
    let (records, record_bytes) = (table.records, table.record_bytes());
    let params =
        ProtocolParams::choose(&Choice::default(), Seed::new([edition; 32]), records, record_bytes).unwrap();
    let mut matrix = vec![0; params.matrix_bytes() as usize];
    for (record, payload) in payloads.iter().enumerate() {
        for (i, byte) in table.seal(record as u64, payload).into_iter().enumerate() {
            matrix[params.stored.offset(record as u64, i) as usize] = byte;
        }
    }
    let folder = folder.join(format!("{name}-{edition}"));
    std::fs::create_dir_all(&folder).unwrap();
    let entry = |file: &str, bytes: &[u8]| {
        std::fs::write(folder.join(file), bytes).unwrap();
        FileEntry {
            file: file.into(),
            bytes: bytes.len() as u64,
            blake3: FileHash::new(*blake3::hash(bytes).as_bytes()),
        }
    };
    let matrix_entry = entry(MATRIX_FILE, &matrix);
    let (mut hint, mut server) = (Vec::new(), Vec::new());
    let (matrix, progress) = (&StoredFile::at(folder.join(MATRIX_FILE)), &mut |_| ());
    let job = Precomputation { matrix, hint: &mut hint, server: &mut server, progress };
    params.on().precompute(&BACKEND, job).unwrap();
    let value_bytes = values.iter().map(Vec::len).sum::<usize>() as u64;
    let manifest = Manifest {
        format: FORMAT,
        name: name.into(),
        created: "2026-01-31T23:59:59Z".into(),
        delta_of: None,
        matrix: matrix_entry,
        hint: entry(HINT_FILE, &hint),
        hint_rows: Some(entry(HINT_ROWS_FILE, &params.hint_rows().unwrap().list(&hint))),
        server: None,
        changes: None,
        apple: None,
        apple_tables: None,
        table,
        protocol: params,
        statistics: Statistics {
            rows: ROWS,
            value_bytes,
            entry_bytes: value_bytes * 2,
            longest_value_bytes: values.iter().map(Vec::len).max().unwrap() as u64,
            longest_value_row: Some(1),
            without_longest: None,
        },
    };
    entry(MANIFEST_FILE, &manifest.to_bytes());
    folder
}

/// Returns a selection of columns.
pub fn columns(key: Option<&str>, values: &[&str]) -> Selection {
    let values = values.iter().map(|&value| value.into()).collect();
    Selection { key: key.map(Into::into), values, ..Selection::default() }
}

/// Returns options that build `input` into the folder `table` beside it, with a fixed seed.
pub fn options(input: &Path, key: Option<&str>, values: &[&str]) -> BuildOptions {
    let record_bytes = (input.extension().unwrap() == "raw").then_some(4);
    let hints = FormatHints { record_bytes, ..FormatHints::default() };
    let format = Format::choose(hints, input).unwrap();
    let out = input.with_file_name("table");
    BuildOptions { seed: Some([7; 32]), ..BuildOptions::new(input, format, columns(key, values), out) }
}

/// Writes `content` to a file called `name` in `folder`; returns its path.
pub fn write_file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Builds with [`BACKEND`].
///
/// # Errors
/// Those of [`build`](spirea_store::build()).
pub fn try_build(options: &BuildOptions) -> Result<Snapshot, StoreError> {
    spirea_store::build(options, &BACKEND, &Silent)
}

/// Writes `lines` of CSV, header first, to a file beside the folder `out`, and returns options that
/// build it into `out`.
pub fn csv_options(out: &Path, protocol: &str, selection: Selection, lines: &str) -> BuildOptions {
    let input = out.with_extension("csv");
    std::fs::write(&input, lines).unwrap();
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    BuildOptions {
        protocol: Protocol::Named(choice),
        ..BuildOptions::new(input, Format::CSV, selection, out)
    }
}

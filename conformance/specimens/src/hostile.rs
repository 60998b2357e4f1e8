//! Checks of untrusted input, for seeded tests and for the libFuzzer targets in `fuzz/`.

use std::sync::Arc;

use spirea_backend::{NaiveBackend, Share};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::delta::Change;
use spirea_protocols::keyword::{Bucket, Copies, TAG_BYTES, entries, find};
use spirea_protocols::proof::Proofs;
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::rows::{push_row, rows};
use spirea_protocols::{
    AnyIndexClient, Files, Opening, Partial, Party, PreparedKeys, ProtocolError, Query, Responder, Role,
    Salt, Table, TableKind, Version,
};
use spirea_store::Manifest;
use spirea_store::changes::Cursor;
use spirea_store::repository::StoredRecord;

/// Checks that bytes are a manifest in canonical form or give an error, and that an accepted
/// manifest is consistent.
pub fn check_manifest(bytes: &[u8]) {
    if let Ok((manifest, version)) = Manifest::from_bytes(bytes) {
        assert_eq!(manifest.to_bytes(), bytes);
        assert_eq!(manifest.version(), version);
    }
    // Parses the members without the hash, which random input never matches.
    let Ok(manifest) = serde_json::from_slice::<Manifest>(bytes) else { return };
    let wrapped = manifest.to_bytes();
    match (manifest.validate(), Manifest::from_bytes(&wrapped)) {
        (Ok(()), Ok((again, version))) => {
            assert_eq!((&again, version), (&manifest, manifest.version()));
            let (table, protocol) = (&manifest.table, &manifest.protocol);
            assert_eq!(protocol.record_bytes(), table.record_bytes());
            let bytes = u128::from(table.records) * table.record_bytes() as u128;
            assert!(bytes <= u128::from(manifest.matrix.bytes));
            assert!(manifest.padding().is_finite() && manifest.expansion().is_finite());
        }
        (Err(_), Err(_)) => {}
        (valid, read) => panic!("validate: {valid:?}, from_bytes: {read:?}"),
    }
}

/// Returns two records of versions: one with all members, and one with few.
pub fn records() -> [Vec<u8>; 2] {
    let record = StoredRecord {
        sequence: 1_800_000_000,
        created: "2026-01-31T23:59:59Z".into(),
        base: Version::new([1; 32]),
        delta: Some(Version::new([2; 32])),
        values: Some(40),
        signature: None,
        abandoned: vec![Version::new([3; 32]), Version::new([4; 32])],
        cursor: Some(Cursor::try_from("block \u{2713}\n".to_owned()).expect("it is short")),
    };
    let few =
        StoredRecord { delta: None, values: None, abandoned: Vec::new(), cursor: None, ..record.clone() };
    [record, few].map(|record| {
        let bytes = record.to_bytes();
        assert_eq!(StoredRecord::from_bytes(&bytes).as_ref(), Ok(&record));
        bytes
    })
}

/// Checks that bytes are the record of a version in canonical form or give an error.
pub fn check_record(bytes: &[u8]) {
    if let Ok(record) = StoredRecord::from_bytes(bytes) {
        assert_eq!(record.to_bytes(), bytes);
    }
    // Parses the members without the hash, which random input never matches.
    let Ok(record) = serde_json::from_slice::<StoredRecord>(bytes) else { return };
    if let Ok(again) = StoredRecord::from_bytes(&record.to_bytes()) {
        assert_eq!(again, record);
        assert_eq!(again.version(), record.version());
    }
}

/// Returns payloads of records: a bucket with two entries, rows, and a value.
pub fn payloads() -> [Vec<u8>; 3] {
    let mut bucket = Bucket::default();
    bucket.push(&[1; TAG_BYTES], b"one");
    bucket.push(&[2; TAG_BYTES], &Change::Put(b"two").to_bytes());
    let mut rows = Vec::new();
    [Some(&b"a"[..]), None, Some(b"")].into_iter().for_each(|value| push_row(&mut rows, value));
    [bucket.payload(), rows, Table::index_payload(b"a value")]
}

/// Checks that bytes parse as a bucket, rows, a value or a change, or give an error. Checks that
/// the branch-free search of a bucket finds the same value as reading its entries. Then checks that
/// a record with this content and a right checksum is refused because it lacks a valid inclusion
/// proof.
pub fn check_payload(bytes: &[u8]) {
    let read: Result<Vec<_>, _> = entries(bytes).collect();
    let tags = read.iter().flatten().map(|(tag, _)| **tag).take(4);
    for tag in tags.chain([[1; TAG_BYTES], [0; TAG_BYTES]]) {
        match (find(bytes, &tag), &read) {
            (Ok(found), Ok(read)) => {
                let last = read.iter().rev().find(|(other, _)| **other == tag);
                assert_eq!(found.as_deref(), last.map(|(_, value)| *value));
            }
            (Err(_), Err(_)) => {}
            (found, read) => panic!("find: {found:?}, entries: {read:?}"),
        }
    }
    // Each row takes at least one byte.
    assert!(rows(bytes).count() <= bytes.len());
    let _ = Table::index_value(bytes);
    if let Ok(change) = Change::from_bytes(bytes) {
        assert_eq!(change.to_bytes(), bytes);
    }
    let [proven, plain] = tables();
    let mut content = bytes.to_vec();
    content.truncate(plain.payload_bytes);
    let record = plain.seal(3, &content);
    content.resize(plain.payload_bytes, 0);
    assert_eq!(plain.unseal(3, &record).unwrap(), content);
    assert!(matches!(proven.unseal(3, &record), Err(ProtocolError::Unproven)));
    assert!(matches!(plain.unseal(3, bytes), Err(ProtocolError::Corrupted)));
}

/// Returns a table with inclusion proofs, whose roots are zeros, and a table without proofs. Their
/// records are equally long and have the same checksums.
fn tables() -> [Table; 2] {
    let proofs = Proofs::blank(1 << 16, Salt::new([6; 32]));
    let plain = Table {
        kind: TableKind::Index,
        entries: 1 << 16,
        records: 1 << 16,
        payload_bytes: 40 + proofs.bytes(),
        salt: Salt::new([9; 32]),
        places: None,
        copies: Copies::One,
        widths: None,
        rows_per_record: None,
        max_value_bytes: None,
        fields: vec!["value".into()],
        types: Vec::new(),
        key_form: None,
        key_queries: None,
        proofs: None,
    };
    [Table { payload_bytes: 40, proofs: Some(proofs), ..plain.clone() }, plain]
}

/// A client of a protocol without a database: the hint is zeros.
pub struct Asker {
    client: Box<dyn AnyIndexClient>,
    record_bytes: usize,
    answer_bytes: usize,
}

impl Asker {
    /// Returns clients of protocols whose answers are words, ciphertexts, and shares of bins.
    pub fn all() -> Vec<Self> {
        let packed = ("exppack-simple", 300, 40, 3);
        [("simple", 40, 40, 1), ("onion", 2, 40, 1), ("dpf-sum", 600, 4, 1), ("dpf-xor", 900, 8, 3), packed]
            .map(|(protocol, records, record_bytes, bins)| {
                let choice = Choice { protocol: protocol.into(), bins, ..Choice::default() };
                let params =
                    ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap();
                let hint = vec![0; params.sizes.hint_bytes as usize];
                let client = params.client(&hint, &[], &mut SecretRng::deterministic_for_tests(1)).unwrap();
                Self { client, record_bytes, answer_bytes: params.sizes.answer_bytes }
            })
            .into()
    }

    /// Checks that answers of any bytes decode to a record of each bin, or give an error.
    pub fn check(&self, bytes: &[u8]) {
        let bins = self.client.bins();
        let records: Vec<u64> = (0..bins.count()).map(|bin| bins.record(bin, 0)).collect();
        let right: Vec<u8> = bytes.iter().copied().chain([0]).cycle().take(self.answer_bytes).collect();
        for answer in [bytes, &right] {
            let mut rng = SecretRng::deterministic_for_tests(2);
            let asked = self.client.query_bins(&records, &mut rng).unwrap();
            let answers = vec![answer; self.client.parties()];
            if let Ok(decoded) = self.client.decode_bins(asked.state, &answers) {
                let lengths = (self.answer_bytes, records.len() * self.record_bytes);
                assert_eq!((answer.len(), decoded.len()), lengths);
            }
        }
    }
}

/// A server of the first of two shares, with a query and the partials of both shares. Its database
/// is zeros, since the parsing of a partial depends on shapes only.
pub struct Combiner {
    server: Box<dyn Responder>,
    keys: Option<PreparedKeys>,
    query: Vec<u8>,
    own: Partial,
    other: Partial,
}

impl Combiner {
    /// Returns servers of three kinds of protocols: partials are joined, partials are added, or the
    /// table has bins.
    pub fn all() -> Vec<Self> {
        let packed = ("exppack-simple", 300, 40, 3);
        [("simple", 40, 40, 1), ("onion", 2, 40, 1), ("dpf-sum", 600, 4, 1), ("dpf-sum", 900, 4, 3), packed]
            .map(|(protocol, records, record_bytes, bins)| Self::new(protocol, records, record_bytes, bins))
            .into()
    }

    fn new(protocol: &str, records: u64, record_bytes: usize, bins: usize) -> Self {
        let choice = Choice { protocol: protocol.into(), bins, ..Choice::default() };
        let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap();
        let name = format!("spirea-combiner-{protocol}-{bins}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let files = Files::at(folder.join("matrix"), folder.join("server"));
        for (file, bytes) in [(&files.matrix, params.matrix_bytes()), (&files.server, params.server_bytes)] {
            std::fs::write(file.path(), vec![0; bytes as usize]).unwrap();
        }
        let backend = Arc::new(NaiveBackend);
        let open = |role| {
            let opening = Opening { role, party: Some(Party::Zero), ..Opening::default() };
            params.on().open(&backend, &files, opening).unwrap()
        };
        let [first, second] = [0, 1].map(|index| Share::new(index, 2).unwrap());
        let (server, other) = (open(Role::Combines(first)), open(Role::Folds(second)));
        std::fs::remove_dir_all(&folder).unwrap();
        let mut rng = SecretRng::deterministic_for_tests(1);
        let hint = vec![0; params.sizes.hint_bytes as usize];
        let client = params.client(&hint, &[], &mut rng).unwrap();
        let keys = client.keys().map(|keys| server.prepare_keys(keys.bytes()).unwrap());
        let query = client.query(0, &mut rng).unwrap().queries.swap_remove(0);
        let of =
            |server: &dyn Responder| server.partial(&[Query { bytes: &query, keys: keys.as_ref() }]).unwrap();
        let (own, other) = (of(&*server), of(&*other));
        Self { server, keys, query, own, other }
    }

    /// Returns the bytes of the server's own partial.
    pub fn partial(&self) -> &[u8] {
        self.own.as_bytes()
    }

    /// Checks that bytes are a partial or give an error, and that partials of any content combine
    /// to answers of the right length or give an error.
    pub fn check(&self, bytes: &[u8]) {
        let Self { server, keys, query, own, other } = self;
        let batch = [Query { bytes: query, keys: keys.as_ref() }];
        if let Ok(partial) = Partial::from_bytes(bytes.to_vec()) {
            assert_eq!(partial.as_bytes(), bytes);
            assert!(partial.share().index() < partial.share().count());
            let _ = server.combine(&batch, &[partial, other.clone()]);
        }
        // After a valid header, the content repeats the bytes up to the length that the parameters
        // require.
        if !bytes.is_empty() {
            let mut right = own.as_bytes().to_vec();
            let content = right[Partial::HEADER_BYTES..].iter_mut();
            content.zip(bytes.iter().cycle()).for_each(|(to, from)| *to = *from);
            let partial = Partial::from_bytes(right).unwrap();
            if let Ok(answers) = server.combine(&batch, &[partial, other.clone()]) {
                assert_eq!(answers.len(), 1);
                assert_eq!(answers[0].len(), server.sizes().answer_bytes);
            }
        }
    }
}

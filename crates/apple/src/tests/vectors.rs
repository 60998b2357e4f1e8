//! Recorded look-ups of Apple's own client and server: `conformance/vectors/apple/README.md`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use serde_json::Value;
use sha2::{Digest, Sha256};
use spirea_backend::{NaiveBackend, ResidueBackend};
use spirea_cpu::{CpuBackend, Isa};

use super::client::Client;
use crate::ciphertext::push_polynomial;
use crate::database::write_plaintext;
use crate::keyword::{Bucket, KeywordHash, Tables};
use crate::messages::{
    EncryptedIndices, EvaluationKeyMetadata, Inbound, PirRequest, Request, Requests, SerializedEvaluationKey,
    Sharding,
};
use crate::set::RINGS;
use crate::{Arithmetic, Compression, Database, EvaluationKey, Set, Shape, UseCase};

/// Environment variable: a folder with more recordings in the same form.
const MORE: &str = "SPIREA_APPLE_VECTORS";

struct Recording {
    folder: PathBuf,
    json: Value,
}

impl Recording {
    fn all() -> Vec<Self> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/apple");
        let more = std::env::var_os(MORE).map(PathBuf::from);
        let folders = std::iter::once(own).chain(more).flat_map(|folder| std::fs::read_dir(folder).unwrap());
        let folders = folders.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        let recordings: Vec<Self> = folders
            .map(|folder| {
                let json = std::fs::read(folder.join("vector.json")).unwrap();
                Self { json: serde_json::from_slice(&json).unwrap(), folder }
            })
            .collect();
        assert!(recordings.len() >= 4, "the recordings are missing");
        recordings
    }

    fn text(&self, field: &str) -> &str {
        self.json[field].as_str().unwrap()
    }

    fn bytes(&self, file: &str) -> Bytes {
        std::fs::read(self.folder.join(file)).unwrap().into()
    }

    fn list(&self, field: &str) -> &[Value] {
        self.json[field].as_array().unwrap()
    }

    fn set(&self) -> Set {
        Set::ALL.into_iter().find(|set| set.name() == self.text("set")).unwrap()
    }

    fn shape(&self, shard: &Value) -> Shape {
        let number = |field: &str| shard[field].as_u64().unwrap() as usize;
        Shape::new(self.set(), number("tables"), number("entries"), number("entry_size")).unwrap()
    }

    fn tables(&self) -> Vec<Tables> {
        let bytes = self.bytes("buckets.bin");
        let mut rest = &bytes[..];
        let mut bucket = || {
            let (length, tail) = rest.split_at(2);
            let (bucket, tail) = tail.split_at(u16::from_le_bytes(length.try_into().unwrap()).into());
            rest = tail;
            Bucket::from_bytes(bucket).unwrap()
        };
        let shapes = self.list("shards").iter().map(|shard| self.shape(shard));
        let tables = shapes.map(|shape| {
            let table = |_| (0..shape.entries()).map(|_| bucket()).collect();
            Tables::of_buckets((0..shape.tables()).map(table).collect()).unwrap()
        });
        tables.collect()
    }

    fn use_case<B: ResidueBackend>(&self, backend: B) -> UseCase<B> {
        let arithmetic = Arc::new(Arithmetic::new(Arc::new(backend)).unwrap());
        let compression = match self.text("compression") {
            "none" => Compression::None,
            "hybrid" => Compression::Hybrid,
            "max" => Compression::Max,
            other => panic!("compression {other}"),
        };
        let shapes = self.list("shards").iter().map(|shard| self.shape(shard));
        let shards = shapes
            .zip(self.tables())
            .map(|(shape, tables)| Database::new(Arc::clone(&arithmetic), shape, &tables).unwrap());
        UseCase::new(shards.collect(), Sharding::Sha256(crate::messages::Sha256 {}), compression).unwrap()
    }
}

/// Returns a processed database in Apple's file format.
fn processed(shape: &Shape, tables: &Tables) -> Vec<u8> {
    let count = shape.tables() * shape.chunks() * shape.plaintexts();
    let mut bytes = vec![1];
    bytes.extend((count as u32).to_le_bytes());
    for (table, chunk) in
        tables.buckets().iter().flat_map(|table| (0..shape.chunks()).map(move |c| (table, c)))
    {
        for (column, row) in
            (0..shape.columns()).flat_map(|column| (0..shape.rows()).map(move |row| (column, row)))
        {
            let mut coefficients = vec![0; RINGS.ciphertext.degree()];
            write_plaintext(shape, table, row * shape.columns() + column, chunk, &mut coefficients);
            let present = coefficients.iter().any(|&coefficient| coefficient != 0);
            bytes.push(present.into());
            if present {
                let mut values = RINGS.ciphertext.lift(&coefficients);
                RINGS.ciphertext.forward(&mut values);
                push_polynomial(&mut bytes, &RINGS.ciphertext, &values, 0);
            }
        }
    }
    bytes
}

#[test]
fn configurations_are_the_recorded_bytes() {
    for recording in Recording::all() {
        let use_case = recording.use_case(NaiveBackend);
        assert_eq!(
            hex::encode(use_case.key_config().message().encode_to_vec()),
            recording.text("key_config")
        );
        assert_eq!(hex::encode(use_case.key_config().hash()), recording.text("key_config_hash"));
        assert_eq!(hex::encode(use_case.config().encode_to_vec()), recording.text("config"));
        assert_eq!(hex::encode(use_case.config_id()), recording.text("config_id"));
    }
}

#[test]
fn shapes_and_processed_databases_are_the_recorded_ones() {
    for recording in Recording::all() {
        for (shard, tables) in recording.list("shards").iter().zip(recording.tables()) {
            let (name, shape) = (recording.text("name"), &recording.shape(shard));
            let numbers = [("chunks", shape.chunks()), ("leaves", shape.leaves())];
            for (field, number) in numbers {
                assert_eq!(shard[field], number, "{name}: {field}");
            }
            let dimensions =
                shard["dimensions"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize);
            assert!(dimensions.eq(shape.dimensions().iter().copied()), "{name}");
            assert_eq!(
                shard["processed_database_sha256"],
                hex::encode(Sha256::digest(processed(shape, &tables))),
                "{name}"
            );
        }
    }
}

#[test]
fn responses_by_definition_are_the_recorded_bytes() {
    check_responses(|| NaiveBackend);
}

#[test]
fn responses_of_every_instruction_set_are_the_recorded_bytes() {
    for isa in Isa::available() {
        check_responses(|| CpuBackend::with_isa(isa, 1).unwrap());
    }
}

#[test]
fn responses_on_several_threads_are_the_recorded_bytes() {
    check_responses(|| CpuBackend::new(3).unwrap());
}

fn check_responses<B: ResidueBackend>(backend: impl Fn() -> B) {
    for recording in Recording::all() {
        let (name, use_case) = (recording.text("name"), recording.use_case(backend()));
        let client = Client::with_secret(recording.text("secret"));
        let key = SerializedEvaluationKey::from_bytes(recording.bytes("evaluation_key.bin")).unwrap();
        let key = EvaluationKey::parse(use_case.key_config(), &key).unwrap();
        for (i, query) in recording.list("queries").iter().enumerate() {
            let (keyword, shard) = (query["keyword"].as_str().unwrap(), query["shard"].as_u64().unwrap());
            let hash = KeywordHash::of(keyword.as_bytes());
            assert_eq!(query["keyword_hash"], hash.0);
            let shards = use_case.shards().len() as u64;
            assert_eq!(hash.shard(Sharding::Sha256(crate::messages::Sha256 {}), shards), shard);
            let shape = use_case.shards()[shard as usize].shape();
            let buckets = query["bucket_indices"].as_array().unwrap();
            assert!(buckets.iter().eq(&hash.buckets(shape.tables(), shape.entries())), "{name}: {keyword}");

            let bytes = recording.bytes(&format!("query_{i}.bin"));
            let request = PirRequest {
                shard_index: shard as u32,
                query: Some(EncryptedIndices::from_bytes(bytes).unwrap()),
                evaluation_key_metadata: Some(EvaluationKeyMetadata {
                    timestamp: 1_764_000_000,
                    identifier: use_case.key_config().hash(),
                }),
                configuration_hash: use_case.config_id().clone(),
                shard_id: None,
                evaluation_key: None,
            };
            let usecase = "net.example.lookup.block".to_owned();
            let requests = vec![Request { usecase, pir_request: Some(request.clone()) }];
            let body = Requests { requests }.encode_to_vec();
            assert_eq!(
                query["requests_message_sha256"],
                hex::encode(Sha256::digest(&body)),
                "{name}: {keyword}"
            );

            let response = use_case.answer(&request, Some(&key)).unwrap();
            let recorded = recording.bytes(&format!("response_{i}.bin"));
            assert!(response.encode_to_vec() == recorded[..], "{name}: another response for {keyword}");
            let value = client.value(shape, keyword.as_bytes(), &response).map(hex::encode);
            assert_eq!(query["value_hex"].as_str(), value.as_deref(), "{name}: {keyword}");
        }
    }
}

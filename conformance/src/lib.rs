//! One test body for every backend and protocol.
//!
//! A body takes a backend and parameters and panics, as a test does, where the two do not do what every
//! backend and protocol must. Tests in this crate run the bodies for all of them.

use std::sync::Arc;

use spirea_backend::{Residence, RingBackend};
use spirea_math::random::{SecretRng, public_row};
use spirea_protocols::index::{AnyIndexClient, Prepared};
use spirea_protocols::registry::{Files, Outputs, ProtocolParams};
use spirea_protocols::{PreparedKeys, Query, Responder};

/// What the records of a database hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Pseudorandom bytes of a seed.
    Random(u64),
    /// The same byte everywhere.
    Constant(u8),
    /// 0 and 255 in turns.
    Alternating,
}

/// The records of a database. The same everywhere.
pub fn records(params: &ProtocolParams, content: Content) -> Vec<Vec<u8>> {
    let bytes = params.record_bytes();
    let record = |index: u64| match content {
        Content::Constant(byte) => vec![byte; bytes],
        Content::Alternating => (0..bytes).map(|i| if i % 2 == 0 { 0 } else { 255 }).collect(),
        Content::Random(seed) => {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&seed.to_le_bytes());
            let mut words = vec![0; bytes.div_ceil(4)];
            public_row(&key, index, &mut words);
            let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            record.truncate(bytes);
            record
        }
    };
    (0..params.records()).map(record).collect()
}

/// A server with its database's records, and a client.
pub struct Party {
    /// The parameters.
    pub params: ProtocolParams,
    /// The server half.
    pub server: Box<dyn Responder>,
    /// The client half.
    pub client: Box<dyn AnyIndexClient>,
    /// The client's keys, if the protocol has any.
    pub keys: Option<PreparedKeys>,
    /// What the hint's bytes are.
    pub hint: Vec<u8>,
    /// What the server stores.
    pub records: Vec<Vec<u8>>,
}

/// Both halves over a database, through files as a snapshot has them.
pub fn party<B: RingBackend>(backend: &Arc<B>, params: &ProtocolParams, content: Content) -> Party {
    let mut rng = SecretRng::deterministic_for_tests(11);
    let (server, hint, records) = server(backend, params, content);
    let client = params.client(&hint, &mut rng).unwrap();
    let keys = client.evaluation_keys().map(|keys| server.prepare_keys(keys).unwrap());
    Party { params: params.clone(), server, client, keys, hint, records }
}

/// A server, the hint for its clients and what it stores.
pub fn server<B: RingBackend>(
    backend: &Arc<B>,
    params: &ProtocolParams,
    content: Content,
) -> (Box<dyn Responder>, Vec<u8>, Vec<Vec<u8>>) {
    let (records, stored) = (records(params, content), params.stored());
    let mut matrix = vec![0; stored.bytes() as usize];
    for (index, record) in records.iter().enumerate() {
        for (byte, &value) in record.iter().enumerate() {
            matrix[stored.offset(index as u64, byte) as usize] = value;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let files = Files { matrix: folder.path().join("matrix"), server: folder.path().join("server") };
    std::fs::write(&files.matrix, matrix).unwrap();
    let (mut hint, mut server) = (Vec::new(), Vec::new());
    let outputs = Outputs { hint: &mut hint, server: &mut server };
    params.precompute(backend, &files.matrix, outputs, &mut |_| ()).unwrap();
    assert_eq!(hint.len() as u64, params.sizes().hint_bytes);
    assert_eq!(server.len() as u64, params.server_bytes());
    std::fs::write(&files.server, server).unwrap();
    let server = params.open_server(backend, &files, Residence::Copied).unwrap();
    assert_eq!(server.sizes(), params.sizes());
    (server, hint, records)
}

impl Party {
    /// Queries of its client as a batch.
    pub fn batch<'a, Q: AsRef<[u8]>>(&'a self, queries: &'a [Q]) -> Vec<Query<'a>> {
        queries.iter().map(|query| Query { bytes: query.as_ref(), keys: self.keys.as_ref() }).collect()
    }
}

/// The least distance, in bits, that the noise of an answer keeps from what decoding tolerates.
pub const LEAST_MARGIN_BITS: f64 = 3.0;

/// Every record of `indices` decodes through bytes, in batches, with a margin of noise. Returns the margin
/// that was measured, in bits.
pub fn records_decode(party: &Party, indices: &[u64], rng: &mut SecretRng) -> f64 {
    let sizes = party.params.sizes();
    let (mut squares, mut count) = (0.0, 0usize);
    for batch in indices.chunks(party.server.max_batch().min(16)) {
        let prepared: Vec<Prepared> =
            batch.iter().map(|&index| party.client.query(index, rng).unwrap()).collect();
        assert!(prepared.iter().all(|prepared| prepared.query.len() == sizes.query_bytes));
        let (queries, states): (Vec<_>, Vec<_>) =
            prepared.into_iter().map(|prepared| (prepared.query, prepared.state)).unzip();
        let answers = party.server.answer(&party.batch(&queries)).unwrap();
        assert_eq!(answers.len(), batch.len());
        for ((&index, state), answer) in batch.iter().zip(states).zip(&answers) {
            assert_eq!(answer.len(), sizes.answer_bytes);
            let errors = party.client.errors(&*state, answer).unwrap();
            squares += errors.iter().map(|error| error.powi(2)).sum::<f64>();
            count += errors.len();
            let decoded = party.client.decode(state, answer).unwrap();
            assert!(decoded == party.records[index as usize], "record {index} of {:?}", party.params);
        }
    }
    let margin = -(squares / count.max(1) as f64).sqrt().log2();
    assert!(count < 64 || margin > LEAST_MARGIN_BITS, "{margin:.2} bits of margin: {:?}", party.params);
    margin
}

/// An answer of one backend is the answer of another, bit for bit, and so is the hint.
pub fn answers_agree(a: &Party, b: &Party, rng: &mut SecretRng) {
    assert_eq!(blake3::hash(&a.hint), blake3::hash(&b.hint), "hints differ");
    let most = a.server.max_batch().min(7) as u64;
    let queries: Vec<Vec<u8>> =
        (0..a.client.records().min(most)).map(|index| a.client.query(index, rng).unwrap().query).collect();
    // Both clients were drawn from one generator: their keys are the same.
    assert_eq!(a.client.evaluation_keys(), b.client.evaluation_keys());
    let answers = a.server.answer(&a.batch(&queries)).unwrap();
    assert!(answers == b.server.answer(&b.batch(&queries)).unwrap(), "answers differ");
}

/// A server refuses what is not a batch of queries, says what is wrong, and answers the next one.
pub fn malformed_queries_are_refused(party: &Party, rng: &mut SecretRng) {
    let Prepared { query, state } = party.client.query(0, rng).unwrap();
    let longer = [query.clone(), vec![0]].concat();
    let too_many = vec![query.as_slice(); party.server.max_batch() + 1];
    let batches: [&[&[u8]]; 5] = [&[], &[&query[1..]], &[&longer], &[query.as_slice(), b""], &too_many];
    for batch in batches {
        let error = party.server.answer(&party.batch(batch)).unwrap_err().to_string();
        assert!(error.starts_with("malformed query"), "{error}");
    }
    if let Some(keys) = party.client.evaluation_keys() {
        let without = Query { bytes: &query, keys: None };
        let error = party.server.answer(&[without]).unwrap_err().to_string();
        assert!(error.starts_with("malformed query"), "{error}");
        for damaged in [&keys[1..], &[keys, &[0]].concat(), &[&keys[..keys.len() - 4], &[255; 4]].concat()] {
            assert!(party.server.prepare_keys(damaged).is_err());
        }
    }
    let answer = party.server.answer(&party.batch(&[&query])).unwrap().remove(0);
    let other = party.client.query(0, rng).unwrap().state;
    assert!(party.client.decode(other, &answer[1..]).is_err());
    assert!(party.client.decode(state, &answer).unwrap() == party.records[0]);
    assert!(party.client.query(party.params.records(), rng).is_err());
}

/// Two queries for one record have no run of 16 bytes in common at the same place: neither secrets nor
/// seeds are used twice.
pub fn queries_share_nothing(party: &Party, rng: &mut SecretRng) {
    let [a, b] = [(); 2].map(|()| party.client.query(0, rng).unwrap().query);
    assert!(a.windows(16).zip(b.windows(16)).all(|(a, b)| a != b), "two queries share bytes");
}

//! One test body for every backend and protocol.
//!
//! A body takes a backend and parameters and panics, as a test does, where the two do not do what every
//! backend and protocol must. Tests in this crate run the bodies for all of them.

use std::sync::Arc;

use spirea_backend::Backend;
use spirea_lattice::noise;
use spirea_math::random::{SecretRng, public_row};
use spirea_protocols::parameters::Parameters as _;
use spirea_protocols::simple::{Client, Hint, Params, Server};
use spirea_protocols::{IndexClient, Query, Responder};

/// A database of pseudorandom records, and its matrix in the layout of `params`. The same everywhere.
pub fn database(params: &Params, seed: u64) -> (Vec<u8>, Vec<Vec<u8>>) {
    let layout = params.layout();
    let mut matrix = vec![0; layout.bytes()];
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let records = (0..params.records)
        .map(|index| {
            let mut words = vec![0; params.record_bytes.div_ceil(4)];
            public_row(&key, index, &mut words);
            let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            record.truncate(params.record_bytes);
            record
        })
        .collect::<Vec<_>>();
    for (index, record) in records.iter().enumerate() {
        for (byte, &value) in record.iter().enumerate() {
            matrix[params.offset(index as u64, byte)] = value;
        }
    }
    (matrix, records)
}

/// A server with its database's records, and a client that holds the hint's bytes.
pub struct Party<B: Backend> {
    /// The server half.
    pub server: Server<B>,
    /// The client half.
    pub client: Client,
    /// What the hint's bytes are.
    pub hint: Vec<u8>,
    /// What the server stores.
    pub records: Vec<Vec<u8>>,
}

/// Both halves over a pseudorandom database.
pub fn party<B: Backend>(backend: &Arc<B>, params: &Params, seed: u64) -> Party<B> {
    let (matrix, records) = database(params, seed);
    let matrix = backend.upload(params.layout(), &matrix).unwrap();
    let server = Server::new(params.clone(), Arc::clone(backend), matrix).unwrap();
    let hint: Vec<u8> = server.hint().unwrap().iter().flat_map(|word| word.to_le_bytes()).collect();
    let client = Client::new(params.clone(), Hint::from_bytes(params, &hint).unwrap()).unwrap();
    Party { server, client, hint, records }
}

/// Queries of a client without keys as a batch.
pub fn batch_of<Q: AsRef<[u8]>>(queries: &[Q]) -> Vec<Query<'_>> {
    queries.iter().map(|query| Query { bytes: query.as_ref(), keys: None }).collect()
}

/// Every record of `indices` decodes through bytes, in batches of several clients' queries, with the noise
/// that the parameters promise.
pub fn records_decode<B: Backend>(party: &Party<B>, params: &Params, indices: &[u64], rng: &mut SecretRng) {
    let (mut squares, mut count) = (0.0, 0usize);
    for batch in indices.chunks(params.max_batch().min(16)) {
        let (queries, states): (Vec<_>, Vec<_>) =
            batch.iter().map(|&index| party.client.query(index, rng).unwrap()).unzip();
        assert!(queries.iter().all(|query| query.len() == params.sizes().query_bytes));
        let answers = party.server.answer(&batch_of(&queries)).unwrap();
        assert_eq!(answers.len(), batch.len());
        for ((&index, state), answer) in batch.iter().zip(states).zip(&answers) {
            assert_eq!(answer.len(), params.sizes().answer_bytes);
            let record = &party.records[index as usize];
            let errors = party.client.errors(&state, answer).unwrap();
            squares += errors.iter().map(|&error| f64::from(error).powi(2)).sum::<f64>();
            count += errors.len();
            assert_eq!(&party.client.decode(state, answer).unwrap(), record, "record {index} of {params:?}");
        }
    }
    // The worst database's noise and the rounding of answers (uniform) bound the deviation.
    let rounding = 2f64.powi(32 - Params::ANSWER_BITS as i32) / 12f64.sqrt();
    let bound = noise::worst_fold_deviation(params.columns).hypot(rounding);
    let measured = (squares / count.max(1) as f64).sqrt();
    assert!(count < 64 || measured < 1.5 * bound, "measured deviation {measured}, bound {bound}");
}

/// An answer of one backend is the answer of another, bit for bit, and so is the hint.
pub fn answers_agree<A: Backend, B: Backend>(a: &Party<A>, b: &Party<B>, rng: &mut SecretRng) {
    assert_eq!(blake3::hash(&a.hint), blake3::hash(&b.hint), "hints differ");
    let queries: Vec<Vec<u8>> =
        (0..a.client.records().min(7)).map(|index| a.client.query(index, rng).unwrap().0).collect();
    let batch = batch_of(&queries[..queries.len().min(a.server.max_batch())]);
    assert_eq!(a.server.answer(&batch).unwrap(), b.server.answer(&batch).unwrap(), "answers differ");
}

/// A server refuses what is not a batch of queries, says what is wrong, and answers the next one.
pub fn malformed_queries_are_refused<B: Backend>(party: &Party<B>, params: &Params, rng: &mut SecretRng) {
    let (query, state) = party.client.query(0, rng).unwrap();
    let longer = [query.clone(), vec![0]].concat();
    let too_many = vec![query.as_slice(); params.max_batch() + 1];
    let batches: [&[&[u8]]; 5] = [&[], &[&query[1..]], &[&longer], &[query.as_slice(), b""], &too_many];
    for batch in batches {
        let error = party.server.answer(&batch_of(batch)).unwrap_err().to_string();
        assert!(error.starts_with("malformed query"), "{error}");
    }
    let answer = party.server.answer(&batch_of(&[&query])).unwrap().remove(0);
    let (_, other) = party.client.query(0, rng).unwrap();
    assert!(party.client.decode(other, &answer[1..]).is_err());
    assert_eq!(party.client.decode(state, &answer).unwrap(), party.records[0]);
    assert!(party.client.query(params.records, rng).is_err());
}

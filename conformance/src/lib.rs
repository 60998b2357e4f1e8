//! One test body for every backend and protocol.
//!
//! A body takes a backend and parameters, and panics like a test if they violate the requirements
//! of every backend and protocol. The tests of this crate run the bodies for all of them.

mod form;
pub mod shards;

use std::sync::Arc;

use spirea_backend::{ProtocolBackend, Residence};
use spirea_math::random::{SecretRng, Seed, public_row};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{
    AnyIndexClient, ClientKeys, Files, Precomputation, Prepared, PreparedKeys, Query, Responder,
};
use tempfile::TempDir;

pub use form::{Count, Form, is_drawn};

/// Returns true if the tests run in their long form.
pub fn is_long() -> bool {
    Form::of_environment() == Form::Long
}

/// Content of a database's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Pseudorandom bytes of a seed.
    Random(u64),
    /// A constant byte.
    Constant(u8),
    /// Bytes 0 and 255, alternating.
    Alternating,
    /// One byte of 255 among zeros; its position advances with the record's number.
    OneHot,
}

/// Returns the records of a database, which are deterministic.
pub fn records(params: &ProtocolParams, content: Content) -> Vec<Vec<u8>> {
    let bytes = params.record_bytes();
    let record = |index: u64| match content {
        Content::Constant(byte) => vec![byte; bytes],
        Content::Alternating => (0..bytes).map(|i| if i % 2 == 0 { 0 } else { 255 }).collect(),
        Content::OneHot => {
            (0..bytes as u64).map(|i| if i == index % bytes as u64 { 255 } else { 0 }).collect()
        }
        Content::Random(seed) => {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&seed.to_le_bytes());
            let mut words = vec![0; bytes.div_ceil(4)];
            public_row(&Seed::new(key), index, &mut words);
            let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            record.truncate(bytes);
            record
        }
    };
    (0..params.records()).map(record).collect()
}

/// Returns the parameters with some members of their grid replaced.
pub fn with_grid(params: &ProtocolParams, members: &[(&str, u64)]) -> ProtocolParams {
    with_members(params, "/grid", members)
}

/// Returns the parameters with some members replaced, in the object at a JSON pointer.
pub fn with_members(params: &ProtocolParams, object: &str, members: &[(&str, u64)]) -> ProtocolParams {
    let mut json: serde_json::Value = serde_json::from_slice(&params.to_json()).unwrap();
    for &(member, value) in members {
        json.pointer_mut(object).unwrap()[member] = value.into();
    }
    ProtocolParams::from_json(json.to_string().as_bytes()).unwrap()
}

/// The servers of a database with its records, and a client.
pub struct Setup {
    /// The parameters.
    pub params: ProtocolParams,
    /// Server halves, one for each party, all over the same files.
    pub servers: Vec<Box<dyn Responder>>,
    /// The client half.
    pub client: Box<dyn AnyIndexClient>,
    /// The client's keys, if the protocol has any.
    pub keys: Option<PreparedKeys>,
    /// Bytes of the hint.
    pub hint: Vec<u8>,
    /// Records that the servers store.
    pub records: Vec<Vec<u8>>,
}

/// Sets up all halves over a database, through files like those of a snapshot.
pub fn setup<B: ProtocolBackend>(backend: &Arc<B>, params: &ProtocolParams, content: Content) -> Setup {
    setup_of(backend, params, records(params, content))
}

/// Sets up like [`setup`], with the given records.
pub fn setup_of<B: ProtocolBackend>(
    backend: &Arc<B>,
    params: &ProtocolParams,
    records: Vec<Vec<u8>>,
) -> Setup {
    prepare(backend, backend, params, records)
}

/// Sets up like [`setup_of`], but the server lies: `change` modifies the bytes that it precomputed
/// from the database.
pub fn setup_of_liar<B: ProtocolBackend>(
    backend: &Arc<B>,
    params: &ProtocolParams,
    records: Vec<Vec<u8>>,
    change: impl FnOnce(&mut [u8]),
) -> Setup {
    let stored = stored(backend, params, &records);
    let mut server = std::fs::read(stored.files.server.path()).unwrap();
    change(&mut server);
    std::fs::write(&stored.files.server, server).unwrap();
    open(backend, params, records, stored)
}

/// Sets up like [`setup`], but the backend `preparing` does the precomputation from the database,
/// and `backend` answers.
pub fn setup_prepared_by<P: ProtocolBackend, B: ProtocolBackend>(
    preparing: &Arc<P>,
    backend: &Arc<B>,
    params: &ProtocolParams,
    content: Content,
) -> Setup {
    prepare(preparing, backend, params, records(params, content))
}

/// A database in files like those of a snapshot.
struct Stored {
    files: Files,
    hint: Vec<u8>,
    /// Folder of the files, deleted on drop.
    folder: TempDir,
}

fn stored<B: ProtocolBackend>(backend: &Arc<B>, params: &ProtocolParams, records: &[Vec<u8>]) -> Stored {
    let stored = params.stored;
    let mut matrix = vec![0; stored.bytes() as usize];
    for (index, record) in records.iter().enumerate() {
        for (byte, &value) in record.iter().enumerate() {
            matrix[stored.offset(index as u64, byte) as usize] = value;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let files = Files::at(folder.path().join("matrix"), folder.path().join("server"));
    std::fs::write(&files.matrix, matrix).unwrap();
    let (mut hint, mut server) = (Vec::new(), Vec::new());
    let mut told = vec![0.0];
    let (matrix, progress) = (&files.matrix, &mut |share| told.push(share));
    let job = Precomputation { matrix, hint: &mut hint, server: &mut server, progress };
    params.on().precompute(backend, job).unwrap();
    assert!(told.is_sorted() && told.iter().all(|share| (0.0..=1.0).contains(share)), "{told:?}");
    assert_eq!(hint.len() as u64, params.sizes.hint_bytes);
    assert_eq!(server.len() as u64, params.server_bytes);
    std::fs::write(&files.server, server).unwrap();
    Stored { files, hint, folder }
}

fn prepare<P: ProtocolBackend, B: ProtocolBackend>(
    preparing: &Arc<P>,
    backend: &Arc<B>,
    params: &ProtocolParams,
    records: Vec<Vec<u8>>,
) -> Setup {
    let stored = stored(preparing, params, &records);
    open(backend, params, records, stored)
}

fn open<B: ProtocolBackend>(
    backend: &Arc<B>,
    params: &ProtocolParams,
    records: Vec<Vec<u8>>,
    stored: Stored,
) -> Setup {
    let Stored { files, hint, folder: _folder } = stored;
    let open = |opening| params.on().open(backend, &files, opening).unwrap();
    let servers: Vec<_> = params.openings(Residence::Copied).into_iter().map(open).collect();
    assert_eq!(servers.len(), params.parties);
    assert!(servers.iter().all(|server| server.sizes() == params.sizes));
    let client = params.client(&hint, &[], &mut SecretRng::deterministic_for_tests(11)).unwrap();
    let keys = client.keys().map(|keys| servers[0].prepare_keys(keys.bytes()).unwrap());
    Setup { params: params.clone(), servers, client, keys, hint, records }
}

impl Setup {
    /// Makes a batch of the client's queries to one server.
    pub fn batch<'a, Q: AsRef<[u8]>>(&'a self, queries: &'a [Q]) -> Vec<Query<'a>> {
        queries.iter().map(|query| Query { bytes: query.as_ref(), keys: self.keys.as_ref() }).collect()
    }

    /// Returns the maximum number of look-ups that all servers take in one batch.
    pub fn max_batch(&self) -> usize {
        self.servers.iter().map(|server| server.max_batch()).min().unwrap()
    }

    /// Returns the answers of every server to a batch of look-ups, ordered like the queries: by
    /// look-up, then by server.
    pub fn answers(&self, queries: &[Vec<Vec<u8>>]) -> Vec<Vec<Vec<u8>>> {
        let mut answers = vec![Vec::new(); queries.len()];
        for (party, server) in self.servers.iter().enumerate() {
            let batch: Vec<&Vec<u8>> = queries.iter().map(|queries| &queries[party]).collect();
            let answered = server.answer(&self.batch(&batch)).unwrap();
            assert_eq!(answered.len(), queries.len());
            answers.iter_mut().zip(answered).for_each(|(answers, answer)| answers.push(answer));
        }
        answers
    }
}

/// Borrows the answers of all servers, for a client.
pub fn slices(answers: &[Vec<u8>]) -> Vec<&[u8]> {
    answers.iter().map(Vec::as_slice).collect()
}

/// Minimum margin, in bits, between an answer's noise and the noise that decoding tolerates.
pub const LEAST_MARGIN_BITS: f64 = 3.0;

/// Checks that every record of `indices` decodes from the bytes of answers to batches, and that the
/// noise keeps a margin. Returns the measured margin in bits.
pub fn records_decode(setup: &Setup, indices: &[u64], rng: &mut SecretRng) -> f64 {
    let sizes = setup.params.sizes;
    let (mut squares, mut count) = (0.0, 0usize);
    for batch in indices.chunks(setup.max_batch().min(16)) {
        let prepared = batch.iter().map(|&index| setup.client.query(index, rng).unwrap());
        let (queries, states): (Vec<_>, Vec<_>) =
            prepared.map(|prepared| (prepared.queries, prepared.state)).unzip();
        assert!(queries.iter().all(|queries| queries.len() == setup.servers.len()));
        assert!(queries.iter().flatten().all(|query| query.len() == sizes.query_bytes));
        for ((&index, state), answers) in batch.iter().zip(states).zip(setup.answers(&queries)) {
            assert!(answers.iter().all(|answer| answer.len() == sizes.answer_bytes));
            let errors = setup.client.errors(&*state, &slices(&answers)).unwrap();
            assert!(errors.iter().all(|error| error.abs() < 1.0), "{errors:.3?} of {:?}", setup.params);
            squares += errors.iter().map(|error| error.powi(2)).sum::<f64>();
            count += errors.len();
            let decoded = setup.client.decode(state, &slices(&answers)).unwrap();
            assert!(decoded == setup.records[index as usize], "record {index} of {:?}", setup.params);
        }
    }
    let margin = -(squares / count.max(1) as f64).sqrt().log2();
    assert!(count < 64 || margin > LEAST_MARGIN_BITS, "{margin:.2} bits of margin: {:?}", setup.params);
    margin
}

/// log2 of the minimum probability that the parameters' error model must give to the greatest
/// measured error.
pub const LEAST_EXCEEDANCE_LOG2: f64 = -20.0;

/// Returns the greatest error of any number in the answers to `indices`, as a share of the error
/// that decoding tolerates, over `clients` clients with separate secrets and keys. Checks that
/// every record decodes, and that the parameters' error model gives such an error a probability of
/// at least 2^[`LEAST_EXCEEDANCE_LOG2`].
pub fn greatest_error(setup: &mut Setup, indices: &[u64], clients: usize, rng: &mut SecretRng) -> f64 {
    let greatest = greatest_error_of_any(setup, indices, clients, rng);
    let responses = (indices.len() * clients) as f64;
    let exceedance = setup.params.exceedance(greatest).map_or(0.0, |failure| failure.log2);
    assert!(
        exceedance + responses.log2() > LEAST_EXCEEDANCE_LOG2,
        "an error of {greatest:.3} should come once in 2^{:.0} responses: {:?}",
        -exceedance,
        setup.params
    );
    greatest
}

/// Measures like [`greatest_error`], for content to which the parameters' error model does not
/// apply: checks only that every record decodes.
pub fn greatest_error_of_any(setup: &mut Setup, indices: &[u64], clients: usize, rng: &mut SecretRng) -> f64 {
    errors(setup, indices, clients, rng).into_iter().map(f64::abs).fold(0.0, f64::max)
}

/// Returns the errors of all numbers in the answers to `indices`, as shares of the error that
/// decoding tolerates, over `clients` clients with separate secrets and keys. Checks that every
/// record decodes.
pub fn errors(setup: &mut Setup, indices: &[u64], clients: usize, rng: &mut SecretRng) -> Vec<f64> {
    let mut all = Vec::new();
    for _ in 0..clients {
        setup.client = setup.params.client(&setup.hint, &[], rng).unwrap();
        setup.keys = setup.client.keys().map(|keys| setup.servers[0].prepare_keys(keys.bytes()).unwrap());
        for batch in indices.chunks(setup.max_batch().min(16)) {
            let prepared = batch.iter().map(|&index| setup.client.query(index, rng).unwrap());
            let (queries, states): (Vec<_>, Vec<_>) =
                prepared.map(|prepared| (prepared.queries, prepared.state)).unzip();
            for ((&index, state), answers) in batch.iter().zip(states).zip(setup.answers(&queries)) {
                let errors = setup.client.errors(&*state, &slices(&answers)).unwrap();
                let decoded = setup.client.decode(state, &slices(&answers)).unwrap();
                let right = decoded == setup.records[index as usize];
                assert!(right, "record {index} of {:?}, errors {errors:.3?}", setup.params);
                all.extend(errors);
            }
        }
    }
    all
}

/// Checks that two backends give the same answers and the same hint, bit for bit.
pub fn answers_agree(a: &Setup, b: &Setup, rng: &mut SecretRng) {
    let most = a.max_batch().min(7) as u64;
    let indices: Vec<u64> = (0..a.client.records().min(most)).collect();
    look_ups_agree(a, b, &indices, rng);
}

/// Checks agreement like [`answers_agree`] for one batch of look-ups, which must decode. This is
/// the cheapest test of all steps of a database.
pub fn look_ups_agree(a: &Setup, b: &Setup, indices: &[u64], rng: &mut SecretRng) {
    assert_eq!(blake3::hash(&a.hint), blake3::hash(&b.hint), "hints differ");
    // Both clients were drawn from equal generators, so their keys are equal.
    let keys = |setup: &Setup| setup.client.keys().map(|keys| keys.bytes().to_vec());
    assert_eq!(keys(a), keys(b));
    let prepared = indices.iter().map(|&index| a.client.query(index, rng).unwrap());
    let (queries, states): (Vec<_>, Vec<_>) =
        prepared.map(|prepared| (prepared.queries, prepared.state)).unzip();
    let answers = b.answers(&queries);
    assert!(a.answers(&queries) == answers, "answers differ");
    for ((&index, state), answers) in indices.iter().zip(states).zip(answers) {
        let decoded = a.client.decode(state, &slices(&answers)).unwrap();
        assert!(decoded == a.records[index as usize], "record {index} of {:?}", a.params);
    }
}

/// Checks that every server refuses malformed batches, names the fault, and answers the next batch;
/// and that the client refuses anything but the answers of all servers.
pub fn malformed_queries_are_refused(setup: &Setup, rng: &mut SecretRng) {
    let Prepared { queries, state } = setup.client.query(0, rng).unwrap();
    let malformed = |server: &dyn Responder, batch: &[Query<'_>]| {
        let error = server.answer(batch).unwrap_err().to_string();
        assert!(error.starts_with("malformed query"), "{error}");
    };
    for (server, query) in setup.servers.iter().zip(&queries) {
        let longer = [query.clone(), vec![0]].concat();
        let too_many = vec![query.as_slice(); server.max_batch() + 1];
        let batches: [&[&[u8]]; 5] = [&[], &[&query[1..]], &[&longer], &[query.as_slice(), b""], &too_many];
        batches.iter().for_each(|batch| malformed(&**server, &setup.batch(batch)));
        if let Some(keys) = setup.client.keys().map(ClientKeys::bytes) {
            malformed(&**server, &[Query { bytes: query, keys: None }]);
            let other_end = [&keys[..keys.len() - 4], &[255; 4]].concat();
            for damaged in [&keys[1..], &[keys, &[0]].concat(), &other_end] {
                assert!(server.prepare_keys(damaged).is_err());
            }
        }
    }
    let answers = setup.answers(&[queries]).remove(0);
    let answers = slices(&answers);
    let refused = |answers: &[&[u8]], rng: &mut SecretRng| {
        let other = setup.client.query(0, rng).unwrap().state;
        assert!(setup.client.decode(other, answers).is_err());
    };
    for party in 0..answers.len() {
        let mut shorter = answers.clone();
        shorter[party] = &shorter[party][1..];
        refused(&shorter, rng);
    }
    refused(&answers[1..], rng);
    refused(&[&answers[..], &answers[..1]].concat(), rng);
    assert!(setup.client.decode(state, &answers).unwrap() == setup.records[0]);
    assert!(setup.client.query(setup.params.records(), rng).is_err());
}

/// Checks that two queries to a server for one record share no run of 16 bytes at the same
/// position: neither secrets nor seeds are reused.
pub fn queries_share_nothing(setup: &Setup, rng: &mut SecretRng) {
    let [a, b] = [(); 2].map(|()| setup.client.query(0, rng).unwrap().queries);
    for (a, b) in a.iter().zip(&b) {
        assert!(a.windows(16).zip(b.windows(16)).all(|(a, b)| a != b), "two queries share bytes");
    }
}

//! A protocol outside this crate. Adding a protocol takes a type with its traits, and a line in a
//! list.
//!
//! The answer is the whole database, which hides the wanted record.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spirea_backend::{NaiveBackend, ProtocolBackend};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::choice::Choice;
use spirea_protocols::grid::{Grid, Spread};
use spirea_protocols::parameters::{Failure, FirstFold, Parameters, Profile, Sets, Stored};
use spirea_protocols::{
    AnyIndexClient, Files, Holdings, IndexClient, Opening, Partial, Precomputation, Prepared, PreparedKeys,
    Protocol, ProtocolError, Query, Responder, Serve, Sizes, onion, simple,
};

/// The toy protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Everything {
    grid: Grid,
}

impl Everything {
    fn sizes(&self) -> Sizes {
        let answer_bytes = Stored::Units { grid: self.grid }.bytes() as usize;
        Sizes { query_bytes: 0, answer_bytes, hint_bytes: 0, keys_bytes: 0 }
    }
}

impl Parameters for Everything {
    fn validate(&self) -> Result<(), ProtocolError> {
        self.grid.validate(Spread::Rows)
    }

    fn profile(&self) -> Profile {
        let stored = Stored::Units { grid: self.grid };
        Profile {
            name: "everything",
            set: String::new(),
            parties: 1,
            grid: self.grid,
            bins: 1,
            stored,
            first_fold: FirstFold::Bytes,
            sets: Sets { lwe: None, ring: None },
            security_bits: f64::INFINITY,
            key_shape: None,
            key_delivery: None,
            combined_answer_bits: 0.0,
            sizes: self.sizes(),
            hint_bits: 32,
            hint_determines_records: false,
            server_bytes: 0,
            memory_bytes: stored.bytes(),
            work: Vec::new(),
            failure: None,
            worst_failure: None,
        }
    }

    fn exceedance(&self, _: f64) -> Option<Failure> {
        None
    }
}

impl Protocol for Everything {
    fn check(_: &Choice) -> Result<(), ProtocolError> {
        Ok(())
    }

    fn choose(_: &Choice, _: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        let columns = records as usize;
        Ok(Self { grid: Grid { records, record_bytes, unit_rows: record_bytes, groups: 1, columns } })
    }

    fn choice(&self) -> Choice {
        Choice { protocol: "everything".into(), ..Choice::default() }
    }

    fn client_of(
        &self,
        _: Holdings<'_>,
        _: &mut SecretRng,
    ) -> Result<Box<dyn AnyIndexClient>, ProtocolError> {
        Ok(Box::new(Client(self.clone())))
    }
}

struct Client(Everything);

impl IndexClient for Client {
    type State = u64;

    fn records(&self) -> u64 {
        self.0.grid.records
    }

    fn sizes(&self) -> Sizes {
        self.0.sizes()
    }

    fn query(&self, index: u64, _: &mut SecretRng) -> Result<Prepared<u64>, ProtocolError> {
        Ok(Prepared { queries: vec![Vec::new()], state: index })
    }

    fn decode(&self, index: &u64, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let bytes = self.0.grid.record_bytes;
        Ok(answers[0][*index as usize * bytes..][..bytes].to_vec())
    }

    fn errors(&self, _: &u64, _: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        Ok(Vec::new())
    }
}

struct Server {
    sizes: Sizes,
    database: Vec<u8>,
}

impl Responder for Server {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn max_batch(&self) -> usize {
        8
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        Ok(vec![self.database.clone(); queries.len()])
    }
}

/// Works on every backend, since it needs no operation of a backend.
impl<B> Serve<B> for Everything {
    fn open(&self, _: &Arc<B>, files: &Files, _: Opening) -> Result<Box<dyn Responder>, ProtocolError> {
        let database = std::fs::read(&files.matrix).map_err(ProtocolError::Write)?;
        Ok(Box::new(Server { sizes: self.sizes(), database }))
    }
}

spirea_protocols::registry! {
    /// A list that combines the toy with some of this crate's protocols.
    struct Extended(Members) over ProtocolBackend {
        /// The toy protocol.
        Everything = "everything": Everything,
        /// A protocol that every backend serves.
        Simple = "simple": simple::Params,
        /// A protocol that needs a backend with rings.
        Onion = "onion": onion::Params,
    }
}

/// Returns the files of a database in a folder, and its records.
fn database(params: &Extended, folder: &Path) -> (Files, Vec<Vec<u8>>) {
    let record = |index: u64| (0..params.record_bytes()).map(|i| (index * 31 + i as u64) as u8).collect();
    let records: Vec<Vec<u8>> = (0..params.records()).map(record).collect();
    let mut matrix = vec![0; params.matrix_bytes() as usize];
    for (index, record) in (0..).zip(&records) {
        for (i, &byte) in record.iter().enumerate() {
            matrix[params.stored.offset(index, i) as usize] = byte;
        }
    }
    let files = Files::at(folder.join("matrix"), folder.join("server"));
    std::fs::write(&files.matrix, matrix).unwrap();
    (files, records)
}

/// Builds, opens and queries any protocol, without naming one.
fn every_record_comes_back<B: ProtocolBackend>(params: &Extended, backend: &Arc<B>) {
    let folder = tempfile::tempdir().unwrap();
    let (files, records) = database(params, folder.path());
    let (mut hint, mut server) = (Vec::new(), Vec::new());
    let (matrix, progress) = (&files.matrix, &mut |_| ());
    let job = Precomputation { matrix, hint: &mut hint, server: &mut server, progress };
    params.on().precompute(backend, job).unwrap();
    std::fs::write(&files.server, server).unwrap();
    let server = params.on().open(backend, &files, Opening::default()).unwrap();
    let mut rng = SecretRng::from_os().unwrap();
    let client = params.client(&hint, &[], &mut rng).unwrap();
    let keys = client.keys().map(|keys| server.prepare_keys(keys.bytes()).unwrap());
    for (index, record) in (0..).zip(&records) {
        let Prepared { queries, state } = client.query(index, &mut rng).unwrap();
        let answers = server.answer(&[Query { bytes: &queries[0], keys: keys.as_ref() }]).unwrap();
        assert_eq!(client.decode(state, &[&answers[0]]).unwrap(), *record, "{}", params.name);
    }
    the_only_partial_has_the_answers(&*server, &*client, keys.as_ref(), &mut rng);
}

/// Checks that an undivided server combines its partial of a batch to the batch's answers.
fn the_only_partial_has_the_answers(
    server: &dyn Responder,
    client: &dyn AnyIndexClient,
    keys: Option<&PreparedKeys>,
    rng: &mut SecretRng,
) {
    let queries = [0, 2].map(|index| client.query(index, rng).unwrap().queries.remove(0));
    let batch = [0, 1].map(|i| Query { bytes: &queries[i], keys });
    let partial = server.partial(&batch).unwrap();
    assert_eq!(partial.as_bytes().len(), server.partial_bytes(partial.share(), batch.len()));
    let partial = Partial::from_bytes(partial.as_bytes().to_vec()).unwrap();
    assert_eq!(server.combine(&batch, &[partial]).unwrap(), server.answer(&batch).unwrap());
    assert!(server.combine(&batch, &[]).is_err());
}

#[test]
fn a_protocol_is_added_by_a_type_and_a_line() {
    assert_eq!(Extended::NAMES, ["everything", "simple", "onion"]);
    for name in Extended::NAMES {
        let choice = Choice { protocol: name.into(), ..Choice::default() };
        Extended::check(&choice).unwrap();
        let params = Extended::choose(&choice, Seed::new([5; 32]), 3, 40).unwrap();
        assert_eq!(params.name, name);
        let json = serde_json::to_string(&params).unwrap();
        assert!(json.contains(&format!(r#""protocol":"{name}""#)), "{json}");
        assert_eq!(serde_json::from_str::<Extended>(&json).unwrap(), params);
        every_record_comes_back(&params, &Arc::new(NaiveBackend));
    }
    let unknown = Choice { protocol: "nothing".into(), ..Choice::default() };
    let refusal = Extended::check(&unknown).unwrap_err().to_string();
    assert!(refusal.contains("everything, simple, onion"), "{refusal}");
}

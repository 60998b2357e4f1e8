use spirea_backend::Residence;
use spirea_math::random::SecretRng;
use spirea_protocols::keyword::{TAG_BYTES, entries};
use spirea_protocols::table::{Fetched, LookupState};
use spirea_protocols::{Prepared, PreparedKeys, ProtocolError, Query, Responder, TableClient};
use spirea_store::Snapshot;

use crate::snapshots::BACKEND;

/// A tag with its value.
pub type Entry = ([u8; TAG_BYTES], Vec<u8>);

/// Client and servers of a snapshot.
pub struct LookUps {
    client: TableClient,
    servers: Vec<Box<dyn Responder>>,
    keys: Option<PreparedKeys>,
    rng: SecretRng,
}

impl LookUps {
    /// Opens client and servers of a snapshot.
    pub fn new(snapshot: &Snapshot) -> Self {
        Self::between(snapshot, snapshot)
    }

    /// Opens a client that has the table of the snapshot `known`. The servers and the hint are
    /// those of `snapshot`, another snapshot with the same parameters.
    pub fn between(known: &Snapshot, snapshot: &Snapshot) -> Self {
        let params = &snapshot.manifest().protocol;
        let hint = std::fs::read(snapshot.hint_path()).unwrap();
        let mut rng = SecretRng::deterministic_for_tests(3);
        let index = params.client(&hint, &[], &mut rng).unwrap();
        let client = TableClient::new(known.manifest().table.clone(), index).unwrap();
        let open = |opening| params.on().open(&BACKEND, snapshot.files(), opening).unwrap();
        let servers: Vec<_> = params.openings(Residence::Copied).into_iter().map(open).collect();
        let keys = client.index().keys().map(|keys| servers[0].prepare_keys(keys.bytes()).unwrap());
        Self { client, servers, keys, rng }
    }

    fn answers(&self, queries: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let mut answers = Vec::new();
        for (server, bytes) in self.servers.iter().zip(queries) {
            answers.extend(server.answer(&[Query { bytes, keys: self.keys.as_ref() }])?);
        }
        Ok(answers)
    }

    fn ask(&self, (queries, state): (Vec<Vec<u8>>, LookupState)) -> Result<Option<Vec<u8>>, ProtocolError> {
        self.client.decode(state, &slices(&self.answers(&queries)?))
    }

    /// Fetches the values of keys with one query for a record of each bin.
    ///
    /// # Errors
    /// Those of the client and the servers.
    pub fn fetch(&mut self, keys: &[&[u8]]) -> Result<Vec<Fetched<Vec<u8>>>, ProtocolError> {
        let (queries, state) = self.client.fetch_keys(keys, &mut self.rng)?;
        self.client.decode_fetch(state, &slices(&self.answers(&queries)?))
    }

    /// Returns the entries of a bucket: tags with values.
    ///
    /// # Errors
    /// Those of the client and the servers.
    pub fn bucket(&mut self, record: u64) -> Result<Vec<Entry>, ProtocolError> {
        let Prepared { queries, state } = self.client.index().query(record, &mut self.rng)?;
        let sealed = self.client.index().decode(state, &slices(&self.answers(&queries)?))?;
        let payload = self.client.table().unseal(record, &sealed)?;
        entries(payload).map(|entry| entry.map(|(tag, value)| (*tag, value.to_vec()))).collect()
    }

    /// Looks up the value of a key.
    ///
    /// # Errors
    /// Those of the client and the servers.
    pub fn key(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, ProtocolError> {
        let lookup = self.client.query_key(key, &mut self.rng)?;
        self.ask(lookup)
    }

    /// Looks up the value at a position.
    ///
    /// # Errors
    /// Those of the client and the servers.
    pub fn index(&mut self, index: u64) -> Result<Option<Vec<u8>>, ProtocolError> {
        let lookup = self.client.query_index(index, &mut self.rng)?;
        self.ask(lookup)
    }

    /// Looks up a key, and returns the fields of its value as text.
    pub fn fields(&mut self, key: &[u8]) -> Vec<String> {
        let value = self.key(key).unwrap().unwrap();
        let fields = self.client.table().split_fields(&value).unwrap();
        fields.into_iter().map(|field| String::from_utf8(field).unwrap()).collect()
    }
}

/// Borrows answers, for a client.
fn slices(answers: &[Vec<u8>]) -> Vec<&[u8]> {
    answers.iter().map(Vec::as_slice).collect()
}

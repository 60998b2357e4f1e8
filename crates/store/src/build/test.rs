//! The self-test: real queries to a snapshot before it is published.

use std::collections::BTreeMap;
use std::path::Path;

use spirea_math::random::SecretRng;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{Prepared, ProtocolError, Query, Responder, Table};

use crate::error::IoContext;
use crate::progress::go_on;
use crate::record_file::RecordFile;
use crate::{Phase, Progress, StoreError};

/// Number of random records to query, besides the first and the last.
const RANDOM_RECORDS: usize = 4;

/// Records to query, as they were sealed.
pub(super) struct Samples(BTreeMap<u64, Vec<u8>>);

impl Samples {
    /// Chooses the first of `records` records, the last and some at random.
    pub(super) fn choose(records: u64) -> Result<Self, StoreError> {
        let mut rng = SecretRng::from_os().map_err(ProtocolError::from)?;
        let random = (0..RANDOM_RECORDS).map(|_| rng.next_u64() % records);
        Ok(Self([0, records - 1].into_iter().chain(random).map(|index| (index, Vec::new())).collect()))
    }

    /// Reads the chosen records, and record `also`, from a written database.
    pub(super) fn of_file(records: u64, also: u64, file: &mut RecordFile) -> Result<Self, StoreError> {
        let mut samples = Self::choose(records)?;
        samples.0.insert(also, Vec::new());
        for (index, sample) in &mut samples.0 {
            *sample = file.read(*index)?;
        }
        Ok(samples)
    }

    /// Keeps a copy of the record if it was chosen.
    pub(super) fn offer(&mut self, index: u64, record: &[u8]) {
        if let Some(sample) = self.0.get_mut(&index) {
            *sample = record.to_vec();
        }
    }

    /// Checks that a client accepts the chosen records, by checksum and proof.
    pub(super) fn check_seals(&self, table: &Table) -> Result<(), StoreError> {
        self.0.iter().try_for_each(|(&record, sealed)| match table.unseal(record, sealed) {
            Ok(_) => Ok(()),
            Err(error) => Err(StoreError::SelfTest { record, detail: error.to_string() }),
        })
    }

    /// Queries each chosen record through the client and all server halves, which `open` opens.
    /// Returns the server halves.
    pub(super) fn test(
        self,
        params: &ProtocolParams,
        open: impl FnOnce() -> Result<Vec<Box<dyn Responder>>, ProtocolError>,
        hint: &Path,
        progress: &dyn Progress,
    ) -> Result<Vec<Box<dyn Responder>>, StoreError> {
        let mut rng = SecretRng::from_os().map_err(ProtocolError::from)?;
        // The hint's bytes are freed before the matrix is opened: together they would be the peak
        // memory of a build.
        let client = {
            let bytes = std::fs::read(hint).at("read", hint)?;
            params.client(&bytes, &[], &mut rng)?
        };
        let servers = open()?;
        let keys = client.keys().map(|keys| servers[0].prepare_keys(keys.bytes())).transpose()?;
        let mut answers = Vec::new();
        for (done, (index, record)) in self.0.iter().enumerate() {
            progress.update(Phase::Test, done as u64, self.0.len() as u64);
            go_on(progress)?;
            let Prepared { queries, state } = client.query(*index, &mut rng)?;
            let mut answered = Vec::new();
            for (server, bytes) in servers.iter().zip(&queries) {
                answered.extend(server.answer(&[Query { bytes, keys: keys.as_ref() }])?);
            }
            answers.push((*index, record, state, answered));
        }
        for (record, sealed, state, answers) in answers {
            let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
            let decoded = match client.decode(state, &answers) {
                Err(ProtocolError::Corrupted) => {
                    let detail = "it came back with numbers that are no bytes".into();
                    return Err(StoreError::SelfTest { record, detail });
                }
                decoded => decoded?,
            };
            if decoded != *sealed {
                let wrong = decoded.iter().zip(sealed).filter(|(a, b)| a != b).count();
                let detail = format!("{wrong} of its {} bytes came back wrong", sealed.len());
                return Err(StoreError::SelfTest { record, detail });
            }
        }
        progress.update(Phase::Test, self.0.len() as u64, self.0.len() as u64);
        Ok(servers)
    }
}

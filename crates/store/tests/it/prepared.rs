//! A publication computes the data that a delta's server half needs once, and returns the server
//! half.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spirea_backend::{BackendError, Observed, Observer, Operation, Residence};
use spirea_cpu::CpuBackend;
use spirea_math::random::SecretRng;
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::registry::Choice;
use spirea_protocols::{Prepared, Query, Responder};
use spirea_specimens::snapshots::{BACKEND, options, try_build, write_file};
use spirea_store::repository::{Applied, Settings, Shrinking};
use spirea_store::{Changes, Protocol, Repository, Silent, Snapshot};

/// Number of operations that compute a packing's data from records.
#[derive(Default)]
struct Preparations {
    encoded: AtomicUsize,
    fixed: AtomicUsize,
}

impl Preparations {
    fn take(&self) -> [usize; 2] {
        [&self.encoded, &self.fixed].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

impl Observer for Preparations {
    fn observe<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        match operation {
            Operation::Encode { .. } => self.encoded.fetch_add(1, Ordering::Relaxed),
            Operation::FixUniform(_) => self.fixed.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        work()
    }
}

/// Returns a repository in `folder` whose base has ten values.
fn repository(folder: &Path, protocol: &str, keys: KeyDelivery) -> Repository {
    let rows: String = (0..10).map(|row| format!("key {row},value {row}\n")).collect();
    let input = write_file(folder, "data.csv", format!("key,value\n{rows}"));
    let mut options = options(&input, Some("key"), &["value"]);
    options.protocol = Protocol::Named(Choice { protocol: protocol.into(), keys, ..Choice::default() });
    let base = try_build(&options).unwrap();
    let repository = Repository::create(folder.join("repository"), Settings::default()).unwrap();
    repository.add_base(&base, Shrinking::Refuse, &Silent).unwrap();
    repository
}

/// Looks up the first and the last record of a snapshot through its server halves. A wrong record
/// fails its checksum.
fn check(snapshot: &Snapshot, servers: &[Box<dyn Responder>]) {
    let (params, table) = (&snapshot.manifest().protocol, &snapshot.manifest().table);
    assert_eq!(servers.len(), params.parties);
    let mut rng = SecretRng::deterministic_for_tests(1);
    let hint = std::fs::read(snapshot.hint_path()).unwrap();
    let client = params.client(&hint, &[], &mut rng).unwrap();
    let keys = client.keys().map(|keys| servers[0].prepare_keys(keys.bytes()).unwrap());
    for record in [0, table.records - 1] {
        let Prepared { queries, state } = client.query(record, &mut rng).unwrap();
        let pairs = servers.iter().zip(&queries);
        let answers: Vec<_> = pairs
            .flat_map(|(server, bytes)| server.answer(&[Query { bytes, keys: keys.as_ref() }]).unwrap())
            .collect();
        let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
        table.unseal(record, &client.decode(state, &answers).unwrap()).unwrap();
    }
}

fn changes(number: u32) -> Changes {
    let mut changes = Changes::new();
    changes.put("key 3", format!("change {number}"));
    changes
}

#[test]
fn a_publication_prepares_a_delta_once() {
    for (keys, once) in [(KeyDelivery::Registered, [1, 0]), (KeyDelivery::PerQuery, [1, 1])] {
        let folder = tempfile::tempdir().unwrap();
        let repository = repository(folder.path(), "exppack-simple", keys);
        let backend = Arc::new(Observed::<CpuBackend, Preparations>::new(Arc::clone(&BACKEND)));
        for number in 0..2 {
            let applied = repository.apply_open(changes(number), &backend, Residence::Copied, &Silent);
            let Applied { record, servers } = applied.unwrap();
            assert_eq!(backend.observer().take(), once, "{keys:?}");
            check(record.delta.as_ref().unwrap(), &servers);
            // After a start, the delta is opened from its files.
            let delta = record.delta.unwrap();
            let protocol = &delta.manifest().protocol;
            let opening = protocol.openings(Residence::Copied)[0];
            check(&delta, &[protocol.on().open(&backend, delta.files(), opening).unwrap()]);
            assert_eq!(backend.observer().take(), once, "{keys:?}");
        }
    }
}

#[test]
fn a_publication_returns_the_servers_of_its_delta() {
    for protocol in ["simple", "dpf-xor", "dpf-sum"] {
        let folder = tempfile::tempdir().unwrap();
        let repository = repository(folder.path(), protocol, KeyDelivery::Registered);
        let apply = |changes| repository.apply_open(changes, &BACKEND, Residence::Mapped, &Silent).unwrap();
        let Applied { record, servers } = apply(changes(1));
        check(record.delta.as_ref().unwrap(), &servers);
        assert!(apply(Changes::new()).servers.is_empty());
    }
}

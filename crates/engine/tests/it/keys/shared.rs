//! Keys that several servers share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spirea_engine::keys::SharedKeys;
use spirea_engine::{KeyEvents, KeyOptions, KeyRegistry};
use spirea_protocols::KeysHash;
use spirea_specimens::keyed::{PREPARED, keys};

use super::fixture::{Fixture, files, on_disk, set_bytes};

/// Store in memory that records its requests.
#[derive(Clone, Default)]
struct Store {
    entries: Arc<Mutex<HashMap<[u8; 32], Vec<u8>>>>,
    limits: Arc<Mutex<Vec<usize>>>,
    expiries: Arc<Mutex<Vec<Duration>>>,
}

impl SharedKeys for Store {
    fn fetch(&self, name: &[u8; 32], most: usize) -> Option<Vec<u8>> {
        self.limits.lock().push(most);
        self.entries.lock().get(name).cloned()
    }

    fn store(&self, name: &[u8; 32], bytes: &[u8], expiry: Duration) {
        self.expiries.lock().push(expiry);
        self.entries.lock().insert(*name, bytes.to_vec());
    }
}

fn server(options: &KeyOptions, store: &Store) -> Fixture {
    Fixture::over(KeyRegistry::open(options).unwrap().with_shared(Box::new(store.clone())))
}

#[test]
fn keys_that_one_server_registered_answer_on_another() {
    let (store, options) = (Store::default(), KeyOptions::default());
    let [one, other] = [(); 2].map(|()| server(&options, &store));
    let hash = one.register(&keys(1));
    assert_eq!(*store.expiries.lock(), [options.expiry]);
    // The keys are fetched once from the shared store, and then found in memory.
    assert_eq!([other.ask(hash).unwrap(), other.ask(hash).unwrap()], [1, 1]);
    assert_eq!(*store.limits.lock(), [set_bytes() as usize]);
    assert!(!other.knows(KeysHash::new([7; 32])));
    let events = KeyEvents { from_shared: 1, from_memory: 1, unknown: 1, ..KeyEvents::default() };
    assert_eq!(other.engine.key_events(), events);
    assert_eq!(other.usage(), [(1, PREPARED), (0, 0)]);
    assert_eq!(one.engine.key_events(), KeyEvents::default());
}

#[test]
fn shared_keys_are_written_to_the_folder() {
    let (store, folder) = (Store::default(), tempfile::tempdir().unwrap());
    let hash = server(&KeyOptions::default(), &store).register(&keys(1));
    let other = server(&on_disk(folder.path(), 8), &store);
    assert!(other.knows(hash) && other.knows(hash));
    let events = KeyEvents { from_shared: 1, from_disk: 1, ..KeyEvents::default() };
    assert_eq!((other.engine.key_events(), files(folder.path())), (events, 1));
    assert_eq!(store.limits.lock().len(), 1);
}

#[test]
fn damaged_shared_keys_are_unknown() {
    let (store, options) = (Store::default(), KeyOptions::default());
    let hash = server(&options, &store).register(&keys(1));
    store.entries.lock().values_mut().for_each(|bytes| bytes[77] ^= 1);
    let other = server(&options, &store);
    assert!(!other.knows(hash));
    assert_eq!((other.usage()[0], other.seen.prepared()), ((0, 0), 0));
}

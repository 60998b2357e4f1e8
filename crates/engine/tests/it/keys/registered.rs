//! Registration of keys, by database and version.

use std::sync::Arc;

use bytes::Bytes;
use spirea_backend::{Backend as _, BackendId, NaiveBackend};
use spirea_engine::{Database, Engine, EngineError, Identity, KeyOptions, KeyRegistry};
use spirea_protocols::{KeysHash, ProtocolError, Query, Responder, Sizes, Version};
use spirea_specimens::keyed::{BAD, Keyed, PARAMS, PREPARED, Seen, keys, queries};
use spirea_specimens::{VERSION, identity, no_hook, params};

use super::fixture::{Fixture, ask, both, files, publish, register, set_bytes, submit};

#[test]
fn keys_are_registered_once_and_answer_all_queries_that_name_them() {
    let fixture = Fixture::new(&KeyOptions::default());
    let hashes = [1, 2].map(|client| fixture.register(&keys(client)));
    assert_eq!(hashes[0], KeysHash::from(blake3::hash(&keys(1))));
    for _ in 0..3 {
        assert_eq!(hashes.map(|hash| fixture.ask(hash).unwrap()), [1, 2]);
    }
    assert_eq!(fixture.register(&keys(1)), hashes[0]);
    assert_eq!(fixture.seen.prepared(), 2);
    assert_eq!(fixture.usage(), [(2, 2 * PREPARED), (0, 0)]);
}

#[test]
fn what_are_no_keys_is_refused_and_what_names_none_is_unknown() {
    let fixture = Fixture::new(&KeyOptions::default());
    let refused = |bytes: &[u8]| register(&fixture.engine, "test", bytes).unwrap_err();
    for length in [0, set_bytes() - 1, set_bytes() + 1] {
        assert!(matches!(refused(&vec![0; length as usize]), EngineError::Malformed(_)));
    }
    let bad = refused(&keys(BAD));
    assert!(matches!(bad, EngineError::Protocol(ProtocolError::Malformed { .. })), "{bad}");
    let other = register(&fixture.engine, "other", &keys(1)).unwrap_err();
    assert!(matches!(other, EngineError::UnknownDatabase));
    assert_eq!(fixture.usage(), [(0, 0), (0, 0)]);

    for keys in [None, Some(KeysHash::new([7; 32])), Some(blake3::hash(&keys(BAD)).into())] {
        let error = submit(&fixture.engine, "test", &VERSION, keys, queries(1)).map(drop).unwrap_err();
        assert!(matches!(error, EngineError::UnknownKeys) && !error.accepted(), "{error}");
    }
    // A query for another version gets the error about the version, not about the keys: its client
    // will make new keys anyway.
    let stale =
        submit(&fixture.engine, "test", &Version::new([9; 32]), Some(KeysHash::new([7; 32])), queries(1))
            .map(drop)
            .unwrap_err();
    assert!(matches!(stale, EngineError::Stale { .. }));
}

#[test]
fn a_protocol_that_needs_no_keys_takes_none() {
    struct Keyless(Sizes);
    impl Responder for Keyless {
        fn sizes(&self) -> Sizes {
            self.0
        }
        fn max_batch(&self) -> usize {
            1
        }
        fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
            assert!(queries.iter().all(|query| query.keys.is_none()));
            Ok(vec![vec![0; self.0.answer_bytes]; queries.len()])
        }
    }
    let params = params("simple");
    let sizes = params.sizes;
    let engine = Engine::new(8, KeyRegistry::default()).unwrap();
    engine.publish(Database::new(identity("test", VERSION, &params), Box::new(Keyless(sizes))).unwrap());
    assert!(matches!(register(&engine, "test", &keys(1)), Err(EngineError::Malformed(_))));
    assert!(matches!(register(&engine, "test", &[]), Err(EngineError::Protocol(_))));
    let queries = vec![Bytes::from(vec![0; sizes.query_bytes])];
    let named = submit(&engine, "test", &VERSION, Some(KeysHash::new([7; 32])), queries.clone()).map(drop);
    assert!(matches!(named, Err(EngineError::Malformed(_))));
    assert!(submit(&engine, "test", &VERSION, None, queries).is_ok());
}

#[test]
fn keys_belong_to_the_database_that_they_were_registered_for() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(&both(folder.path()));
    let other = publish(&fixture.engine, "other", Version::new([2; 32]), 0, no_hook());
    let hash = fixture.register(&keys(1));
    let asked = |version| ask(&fixture.engine, "other", version, hash);
    assert!(matches!(asked(Version::new([2; 32])), Err(EngineError::UnknownKeys)));
    assert_eq!(register(&fixture.engine, "other", &keys(1)).unwrap(), hash);
    assert_eq!((asked(Version::new([2; 32])).unwrap(), fixture.ask(hash).unwrap()), (1, 1));
    assert_eq!((fixture.seen.prepared(), other.prepared()), (1, 1));
    assert_eq!(fixture.usage(), [(2, 2 * PREPARED), (2, 2 * set_bytes())]);
}

#[test]
fn keys_serve_every_version_that_needs_their_form() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(&both(folder.path()));
    let hash = fixture.register(&keys(1));
    let publish = |version, backend, form| {
        let seen = Arc::new(Seen::default());
        let responder = Keyed { seen: Arc::clone(&seen), form: Some(form), ..Keyed::default() };
        let identity = Identity { backend, ..identity("test", version, &PARAMS) };
        fixture.engine.publish(Database::new(identity, Box::new(responder)).unwrap());
        seen
    };
    let next = publish(Version::new([2; 32]), NaiveBackend.id(), 0);
    assert_eq!(ask(&fixture.engine, "test", Version::new([2; 32]), hash).unwrap(), 1);
    assert_eq!((fixture.seen.prepared(), next.prepared()), (1, 0));
    // Publishes the same version on another backend.
    let elsewhere = publish(Version::new([2; 32]), BackendId::unique(), 0);
    assert_eq!(ask(&fixture.engine, "test", Version::new([2; 32]), hash).unwrap(), 1);
    assert_eq!((next.prepared(), elsewhere.prepared()), (0, 1));
    // A version that takes keys of another form does not know these keys. Versions that took these
    // keys still know them.
    publish(Version::new([3; 32]), BackendId::unique(), 1);
    assert!(matches!(
        ask(&fixture.engine, "test", Version::new([3; 32]), hash),
        Err(EngineError::UnknownKeys)
    ));
    assert_eq!(
        (ask(&fixture.engine, "test", Version::new([2; 32]), hash).unwrap(), files(folder.path())),
        (1, 1)
    );
}

#[test]
fn memory_is_counted_for_each_backend() {
    let fixture = Fixture::new(&KeyOptions::default());
    for client in [1, 2] {
        fixture.register(&keys(client));
    }
    let own = fixture.engine.version("test", None).unwrap().base().identity().backend;
    let count = |backends: &[BackendId]| fixture.engine.keys_prepared_for(backends);
    assert_eq!(count(&[own]), 2 * PREPARED);
    assert_eq!(count(&[BackendId::unique(), own]), 2 * PREPARED);
    assert_eq!([count(&[]), count(&[BackendId::unique()])], [0, 0]);
}

//! Malformed queries cost no scan of the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spirea_backend::{BackendError, Observed, Observer, Operation};
use spirea_conformance::{Content, setup_prepared_by};
use spirea_cpu::CpuBackend;
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::Query;
use spirea_protocols::registry::{Choice, NAMES, ProtocolParams};

/// Counter of scans of a database.
#[derive(Default)]
struct Scans(AtomicUsize);

impl Observer for Scans {
    fn observe<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        if matches!(operation.step(), "scalar_fold" | "poly_fold" | "share_fold") {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        work()
    }
}

#[test]
fn a_query_that_cannot_be_read_is_refused_before_the_database_is() {
    let cpu = Arc::new(CpuBackend::new(2).unwrap());
    let mut rng = SecretRng::from_os().unwrap();
    // For the other two protocols, all words are valid queries.
    for protocol in NAMES.into_iter().filter(|protocol| !["simple", "double"].contains(protocol)) {
        let record_bytes = if protocol.ends_with("double") { 3 } else { 300 };
        let choice = Choice { protocol: protocol.into(), ..Choice::default() };
        let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 20, record_bytes).unwrap();
        let watched = Arc::new(Observed::<_, Scans>::new(Arc::clone(&cpu)));
        let setup = setup_prepared_by(&cpu, &watched, &params, Content::Random(8));
        let query = setup.client.query(5, &mut rng).unwrap().queries.remove(0);
        let mut unreadable = query.clone();
        let is_rotated = params.key_shape.is_some_and(|shape| shape.rotations.is_some());
        match params.sets.ring {
            // The last value of the ciphertext is above every prime.
            Some(_) => unreadable.iter_mut().rev().take(4).for_each(|byte| *byte = 0xff),
            // The key belongs to another party.
            None => unreadable[0] ^= 1,
        }
        let scans = || watched.observer().0.load(Ordering::Relaxed);
        let before = scans();
        let refused = |batch: &[Query<'_>]| {
            let error = setup.servers[0].answer(batch).unwrap_err().to_string();
            assert!(error.starts_with("malformed query"), "{error}");
            assert_eq!(scans(), before, "{protocol}");
        };
        // For a rotated ciphertext, all bytes of the right length are valid.
        if !is_rotated {
            refused(&setup.batch(&[&query, &unreadable]));
        }
        if setup.keys.is_some() {
            refused(&[Query { bytes: &query, keys: None }]);
        }
        setup.servers[0].answer(&setup.batch(&[&query])).unwrap();
        assert!(scans() > before, "{protocol}");
    }
}

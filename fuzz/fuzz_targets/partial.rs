//! Any bytes are a partial of a share, which they are again when it is sent on, or an error; and whatever a partial holds,
//! what combines it gives answers as long as always, or an error.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use spirea_backend::{NaiveBackend, Share};
use spirea_math::random::SecretRng;
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::{Files, Opening, Partial, Party, PreparedKeys, Query, Responder, Role};

/// A server of the first of two shares, with a query and what each of them makes of it.
struct Combiner {
    server: Box<dyn Responder>,
    keys: Option<PreparedKeys>,
    query: Vec<u8>,
    own: Partial,
    other: Partial,
}

/// Databases of zeros: what a partial is parsed by are its shapes.
static COMBINERS: LazyLock<Vec<Combiner>> =
    LazyLock::new(|| {
        [("simple", 40, 40, 1), ("onion", 2, 40, 1), ("dpf-sum", 600, 4, 1), ("dpf-sum", 900, 4, 3)].map(combiner).into()
    });

fn combiner((protocol, records, record_bytes, bins): (&str, u64, usize, usize)) -> Combiner {
    let choice = Choice { protocol: protocol.into(), bins, ..Choice::default() };
    let params = ProtocolParams::choose(&choice, [7; 32], records, record_bytes).unwrap();
    let folder = std::env::temp_dir().join(format!("spirea-fuzz-partial-{protocol}-{bins}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = Files::at(folder.join("matrix"), folder.join("server"));
    std::fs::write(&files.matrix, vec![0; params.matrix_bytes() as usize]).unwrap();
    let backend = Arc::new(NaiveBackend);
    let open = |role| {
        let opening = Opening { role, party: Some(Party::Zero), ..Opening::default() };
        params.on().open(&backend, &files, opening).unwrap()
    };
    let [first, second] = [0, 1].map(|index| Share::new(index, 2).unwrap());
    let (server, other) = (open(Role::Combines(first)), open(Role::Folds(second)));
    std::fs::remove_dir_all(&folder).unwrap();
    let mut rng = SecretRng::deterministic_for_tests(1);
    let hint = vec![0; params.sizes().hint_bytes as usize];
    let client = params.client(&hint, &[], &mut rng).unwrap();
    let keys = client.keys().map(|keys| server.prepare_keys(keys.bytes()).unwrap());
    let query = client.query(0, &mut rng).unwrap().queries.swap_remove(0);
    let of = |server: &dyn Responder| server.partial(&[Query { bytes: &query, keys: keys.as_ref() }]).unwrap();
    let (own, other) = (of(&*server), of(&*other));
    Combiner { server, keys, query, own, other }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let Combiner { server, keys, query, own, other } = &COMBINERS[usize::from(*which) % COMBINERS.len()];
    let batch = [Query { bytes: query, keys: keys.as_ref() }];
    if let Ok(partial) = Partial::from_bytes(bytes.to_vec()) {
        assert_eq!(partial.as_bytes(), bytes);
        assert!(partial.share().index() < partial.share().count());
        let _ = server.combine(&batch, &[partial, other.clone()]);
    }
    // Behind the right header, the bytes over and over, as many as the parameters want.
    if !bytes.is_empty() {
        let mut right = own.as_bytes().to_vec();
        let content = right[Partial::HEADER_BYTES..].iter_mut();
        content.zip(bytes.iter().cycle()).for_each(|(to, from)| *to = *from);
        let partial = Partial::from_bytes(right).unwrap();
        if let Ok(answers) = server.combine(&batch, &[partial, other.clone()]) {
            assert_eq!(answers.len(), 1);
            assert_eq!(answers[0].len(), server.sizes().answer_bytes);
        }
    }
});

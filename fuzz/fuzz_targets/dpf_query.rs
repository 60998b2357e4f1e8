//! Any bytes either decode to a query for the bins of a table, whose answer has a row of each bin,
//! or give an error.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use spirea_backend::NaiveBackend;
use spirea_dpf::{Domain, OutputKind};
use spirea_protocols::registry::{Choice, ProtocolParams, Seed};
use spirea_protocols::{Files, Opening, Party, Query, Responder};

/// Servers of two protocols: bins have more records than a leaf under one, and fewer under the
/// other.
static SERVERS: LazyLock<Vec<Server>> = LazyLock::new(|| {
    let of = |(protocol, records, output)| server(protocol, records, output);
    [("dpf-xor", 1300, OutputKind::Bit), ("dpf-sum", 40, OutputKind::U32)].map(of).into()
});

const BINS: usize = 2;

struct Server {
    responder: Box<dyn Responder>,
    key: Domain,
}

fn server(protocol: &str, records: u64, output: OutputKind) -> Server {
    let choice = Choice { protocol: protocol.into(), bins: BINS, ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), records, 8).unwrap();
    let folder = std::env::temp_dir().join(format!("spirea-fuzz-query-{protocol}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = Files::at(folder.join("matrix"), folder.join("server"));
    std::fs::write(&files.matrix, vec![1; params.matrix_bytes() as usize]).unwrap();
    let opening = Opening { party: Some(Party::Zero), ..Opening::default() };
    let responder = params.on().open(&Arc::new(NaiveBackend), &files, opening).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    Server { responder, key: Domain::new(records / BINS as u64, output).unwrap() }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let Server { responder, key } = &SERVERS[usize::from(*which) % SERVERS.len()];
    let sizes = responder.sizes();
    let answer = |bytes: &[u8]| responder.answer(&[Query { bytes, keys: None }]);
    if let Ok(answers) = answer(bytes) {
        assert_eq!((bytes.len(), answers[0].len()), (sizes.query_bytes, sizes.answer_bytes));
    }
    // Repeats the bytes to the length of a query, and sets the fixed bits of each key. The result
    // is always a query.
    if !bytes.is_empty() {
        let mut query: Vec<u8> = bytes.iter().copied().cycle().take(sizes.query_bytes).collect();
        let depth = key.depth() as usize;
        for key in query.chunks_exact_mut(key.key_bytes()) {
            key[0] = 0;
            key[1] &= !1;
            if !depth.is_multiple_of(8) {
                key[17 + 16 * depth + depth / 8] &= (1 << (depth % 8)) - 1;
            }
        }
        assert_eq!(answer(&query).unwrap()[0].len(), sizes.answer_bytes);
        // Turns the key of the last bin into a key for the other party, which a server refuses.
        let last = query.len() - key.key_bytes();
        query[last] = 1;
        assert!(answer(&query).is_err());
    }
});

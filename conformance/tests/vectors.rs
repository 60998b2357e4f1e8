//! Vectors that pin the bytes on the wire, for clients in other languages and for archives of this one.

use std::fmt::Write as _;
use std::sync::Arc;

use spirea_backend::NaiveBackend;
use spirea_conformance::{Content, party};
use spirea_lattice::LweSet;
use spirea_math::random::SecretRng;
use spirea_protocols::index::Prepared;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::simple::Params;

/// Everything that two implementations must agree on, in one text.
fn vector(set: LweSet) -> String {
    let params = ProtocolParams::Simple(Params::choose(set, [0x5a; 32], 40, 50).unwrap());
    let party = party(&Arc::new(NaiveBackend), &params, Content::Random(1));
    let mut rng = SecretRng::deterministic_for_tests(1);
    let Prepared { query, state } = party.client.query(17, &mut rng).unwrap();
    let answer = party.server.answer(&party.batch(&[&query])).unwrap().remove(0);
    let mut text = String::new();
    let json = params.to_json();
    writeln!(text, "params {}", String::from_utf8(json).unwrap()).unwrap();
    writeln!(text, "hint   {}", blake3::hash(&party.hint)).unwrap();
    writeln!(text, "query  {}", blake3::hash(&query)).unwrap();
    writeln!(text, "answer {}", blake3::hash(&answer)).unwrap();
    writeln!(text, "record {}", blake3::hash(&party.client.decode(state, &answer).unwrap())).unwrap();
    text
}

#[test]
fn vectors_are_what_was_committed() {
    for (set, committed) in [
        (LweSet::Module1280, include_str!("../vectors/simple-module-1280.txt")),
        (LweSet::Paper, include_str!("../vectors/simple-paper.txt")),
    ] {
        let computed = vector(set);
        assert_eq!(
            computed,
            committed,
            "{}: the wire's bytes changed; a new format version is due",
            set.name()
        );
    }
}

//! Vectors that fix the bytes on the wire, for clients in other languages and for archives of this
//! software's data.

use std::fmt::Write as _;
use std::sync::Arc;

use spirea_backend::NaiveBackend;
use spirea_conformance::{Content, setup, slices};
use spirea_lattice::LweSet;
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::Prepared;
use spirea_protocols::choice::HintForm;
use spirea_protocols::registry::{Choice, ProtocolParams};

/// Returns everything on which two implementations must agree, as one text.
fn vector(set: LweSet, hint: HintForm) -> String {
    let choice = Choice { set: Some(set.name().into()), hint, ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([0x5a; 32]), 40, 50).unwrap();
    let setup = setup(&Arc::new(NaiveBackend), &params, Content::Random(1));
    let mut rng = SecretRng::deterministic_for_tests(1);
    let Prepared { queries, state } = setup.client.query(17, &mut rng).unwrap();
    let answers = setup.answers(std::slice::from_ref(&queries)).remove(0);
    let mut text = String::new();
    let json = params.to_json();
    writeln!(text, "params {}", String::from_utf8(json).unwrap()).unwrap();
    writeln!(text, "hint   {}", blake3::hash(&setup.hint)).unwrap();
    for (query, answer) in queries.iter().zip(&answers) {
        writeln!(text, "query  {}", blake3::hash(query)).unwrap();
        writeln!(text, "answer {}", blake3::hash(answer)).unwrap();
    }
    let record = setup.client.decode(state, &slices(&answers)).unwrap();
    writeln!(text, "record {}", blake3::hash(&record)).unwrap();
    text
}

#[test]
fn vectors_are_what_was_committed() {
    for (set, hint, committed) in [
        (LweSet::Module1280, HintForm::Whole, include_str!("../vectors/simple-module-1280.txt")),
        (LweSet::Paper, HintForm::Whole, include_str!("../vectors/simple-paper.txt")),
        (LweSet::Module1280, HintForm::Rounded, include_str!("../vectors/simple-module-1280-rounded.txt")),
    ] {
        let computed = vector(set, hint);
        assert_eq!(
            computed,
            committed,
            "{} {}: the wire's bytes changed; a new format version is due",
            set.name(),
            hint.name()
        );
    }
}

//! Manifests, records of versions, payloads, answers and partials from an attacker.
//! `SPIREA_CONFORMANCE=long` tests 100,000 of each.

use spirea_protocols::TableKind;
use spirea_specimens::hostile::{
    Asker, Combiner, check_manifest, check_payload, check_record, payloads, records,
};
use spirea_specimens::snapshots::write_snapshot;
use spirea_specimens::{Inputs, inputs};

#[test]
fn any_bytes_are_a_manifest_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let corpus: Vec<Vec<u8>> = [("a", TableKind::Keyword), ("b", TableKind::Index)]
        .map(|(name, kind)| {
            let snapshot = write_snapshot(folder.path(), name, kind, 1);
            std::fs::read(snapshot.join("manifest.json")).unwrap()
        })
        .into();
    let mut made = Inputs::new(1);
    corpus.iter().for_each(|manifest| check_manifest(manifest));
    (0..inputs(2000)).for_each(|_| check_manifest(&made.changed(&corpus)));
}

#[test]
fn any_bytes_are_a_record_or_an_error() {
    let (corpus, mut made) = (records(), Inputs::new(3));
    (0..inputs(2000)).for_each(|_| check_record(&made.changed(&corpus)));
}

#[test]
fn any_bytes_are_a_payload_or_an_error() {
    let (corpus, mut made) = (payloads(), Inputs::new(4));
    corpus.iter().for_each(|payload| check_payload(payload));
    (0..inputs(2000)).for_each(|_| check_payload(&made.changed(&corpus)));
}

#[test]
fn any_bytes_are_answers_that_decode_or_an_error() {
    let (clients, corpus, mut made) = (Asker::all(), payloads(), Inputs::new(5));
    for _ in 0..inputs(400) {
        let bytes = made.changed(&corpus);
        made.of(&clients).check(&bytes);
    }
}

#[test]
fn any_bytes_are_a_partial_that_combines_or_an_error() {
    let combiners = Combiner::all();
    let corpus: Vec<Vec<u8>> = combiners.iter().map(|combiner| combiner.partial().to_vec()).collect();
    let mut made = Inputs::new(2);
    for _ in 0..inputs(150) {
        let bytes = made.changed(&corpus);
        made.of(&combiners).check(&bytes);
    }
}

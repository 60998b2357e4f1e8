//! Partial batch retrieval: several records of a table in one query.

use std::sync::Arc;

use spirea_backend::ShareBackend as _;
use spirea_conformance::{Content, records};
use spirea_cpu::CpuBackend;
use spirea_dpf::{Party, PrfKind};
use spirea_math::random::SecretRng;
use spirea_protocols::Protocol as _;
use spirea_protocols::choice::Choice;
use spirea_protocols::dpf::{Bins, BinsClient, BinsServer, Params, Shares, SumParams, Words, XorParams};
use spirea_protocols::registry::ProtocolParams;

fn aes() -> Choice {
    Choice { prf: PrfKind::Aes128, ..Choice::default() }
}

/// A client and both servers of a table in bins, with its records.
fn setup<S: Shares>(
    params: &Params<S>,
    records: &[Vec<u8>],
    bins: u64,
) -> (BinsClient<S>, Vec<BinsServer<S, CpuBackend>>, Bins<S>) {
    let backend = Arc::new(CpuBackend::new(2).unwrap());
    let (layout, bins) = (params.layout(), Bins::new(params.clone(), bins).unwrap());
    let mut bytes = vec![0; layout.bytes()];
    for (index, record) in records.iter().enumerate() {
        for (part, piece) in record.chunks(layout.row_bytes()).enumerate() {
            let at = layout.range(part, index..index + 1).start;
            bytes[at..at + piece.len()].copy_from_slice(piece);
        }
    }
    let server = |party| {
        let rows = backend.upload_rows(layout, &bytes).unwrap();
        BinsServer::new(bins.clone(), party, Arc::clone(&backend), rows).unwrap()
    };
    (BinsClient::new(bins.clone()), Party::BOTH.map(server).into(), bins)
}

fn brings<S: Shares>(
    params: &Params<S>,
    all: &ProtocolParams,
    count: u64,
    wanted: &[u64],
    overflow: &[usize],
) {
    let mut rng = SecretRng::from_os().unwrap();
    let stored = records(all, Content::Random(4));
    let (client, servers, bins) = setup(params, &stored, count);
    let query = client.query(wanted, &mut rng).unwrap();
    assert_eq!(query.overflow, overflow, "{wanted:?} of {count} bins");
    assert!(query.queries.iter().all(|query| query.len() == bins.sizes().query_bytes));
    let answers: Vec<Vec<u8>> =
        servers.iter().zip(&query.queries).map(|(server, query)| server.answer(query).unwrap()).collect();
    let mut found = client.combine(&query, [&answers[0], &answers[1]]).unwrap();
    found.sort();
    let places: Vec<usize> = (0..wanted.len()).filter(|place| !overflow.contains(place)).collect();
    assert_eq!(found.iter().map(|(place, _)| *place).collect::<Vec<_>>(), places);
    assert!(found.iter().all(|(place, record)| *record == stored[wanted[*place] as usize]));
    assert!(client.combine(&query, [&answers[0][1..], &answers[1]]).is_err());
}

#[test]
fn one_record_of_each_bin_and_the_rest_overflows() {
    for record_bytes in [40, 5000] {
        let params = XorParams::choose(&aes(), [0; 32], 1000, record_bytes).unwrap();
        let all = ProtocolParams::DpfXor(params.clone());
        brings(&params, &all, 10, &[5, 105, 999, 450], &[]);
        brings(&params, &all, 10, &[5, 6, 105, 5, 199], &[1, 3, 4]);
        brings(&params, &all, 10, &[], &[]);
        brings(&params, &all, 1, &[999], &[]);
    }
    // Bins that are no equal shares: 7 of 143, the last of 142.
    let params = SumParams::choose(&Choice { prf: PrfKind::ChaCha12, ..aes() }, [0; 32], 1000, 64).unwrap();
    let all = ProtocolParams::DpfSum(params.clone());
    brings(&params, &all, 7, &[0, 142, 143, 857, 858, 999], &[1, 5]);
}

#[test]
fn every_record_of_every_bin() {
    let params = SumParams::choose(&Choice { words: Words::U64, ..aes() }, [0; 32], 60, 24).unwrap();
    let all = ProtocolParams::DpfSum(params.clone());
    for first in 0..12 {
        let wanted: Vec<u64> = (0..5).map(|bin| bin * 12 + (first + bin) % 12).collect();
        brings(&params, &all, 5, &wanted, &[]);
    }
}

#[test]
fn what_is_no_query_is_refused_before_anything_is_expanded() {
    let params = XorParams::choose(&aes(), [0; 32], 1000, 40).unwrap();
    let stored = records(&ProtocolParams::DpfXor(params.clone()), Content::Random(4));
    let (client, servers, _) = setup(&params, &stored, 10);
    let mut rng = SecretRng::from_os().unwrap();
    let query = client.query(&[3], &mut rng).unwrap();
    let damaged = {
        let mut damaged = query.queries[0].clone();
        damaged[1] |= 1;
        damaged
    };
    let wrong = [&query.queries[0][1..], &query.queries[1][..], &damaged, b""];
    for wrong in wrong {
        let error = servers[0].answer(wrong).unwrap_err().to_string();
        assert!(error.starts_with("malformed query"), "{error}");
    }
    assert!(client.query(&[1000], &mut rng).is_err());
    for bins in [0, 1001, u64::MAX] {
        assert!(Bins::new(params.clone(), bins).is_err());
    }
}

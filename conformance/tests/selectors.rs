//! A lying server that selects by the ciphertexts of an earlier query under the same keys. It folds
//! a forged table by the query whose record it knows, and plays the tournament with the selectors
//! of the earlier query. The resulting record names the group of the earlier query
//! (docs/soundness.md).
#![allow(clippy::print_stdout, reason = "the number of accepted answers is worth seeing")]

use std::sync::Arc;

use spirea_conformance::shards::{Shards, shards_of};
use spirea_conformance::{Form, with_grid};
use spirea_cpu::CpuBackend;
use spirea_math::random::{SecretRng, Seed, public_row};
use spirea_protocols::proof::Proofs;
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::{Partial, Prepared, ProtocolError, Query, Salt, Table, TableKind};

const GROUPS: usize = 8;
const PAYLOAD_BYTES: usize = 40;
/// Index of the current query's record, which the server knows.
const KNOWN: u64 = 3;

/// Returns onion's parameters for records of this size, in eight groups of one unit each.
fn parameters(record_bytes: usize) -> ProtocolParams {
    // Numbers of 32 bits, so that the pad consists of words.
    let choice = Choice { protocol: "onion".into(), ring: Some("onion-32".into()), ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 1, record_bytes).unwrap();
    let per_unit = params.grid.records_per_unit() as u64;
    with_grid(&params, &[("groups", GROUPS as u64), ("columns", 1), ("records", GROUPS as u64 * per_unit)])
}

fn payload(name: u64) -> Vec<u8> {
    let mut payload = name.to_le_bytes().to_vec();
    payload.resize(PAYLOAD_BYTES, 0);
    payload
}

/// Returns bytes for the unit of `group` that a client reads as `bytes` if it expects the unit of
/// the first group, whose pad it subtracts (docs/wire/ring.md, 12.5).
fn moved_to_the_first_pad(params: &ProtocolParams, group: u64, bytes: &[u8]) -> Vec<u8> {
    let json: serde_json::Value = serde_json::from_slice(&params.to_json()).unwrap();
    let seed = blake3::Hash::from_hex(json["pad"].as_str().unwrap()).unwrap();
    let key = blake3::derive_key("spirea v1: public pad of polynomials", seed.as_bytes());
    let pad = |unit: u64| {
        let mut words = vec![0; bytes.len() / 4];
        public_row(&Seed::new(key), unit, &mut words);
        words
    };
    let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let moved = words
        .zip(pad(0))
        .zip(pad(group))
        .map(|((word, known), own)| word.wrapping_add(known).wrapping_sub(own));
    moved.flat_map(u32::to_le_bytes).collect()
}

/// A published table, and the shards of a server with forged records.
struct Attack {
    table: Table,
    per_group: u64,
    shards: Shards,
}

impl Attack {
    /// Makes a table with or without proofs, and forged records. In each group, the position of the
    /// known record holds a record that names the group, with a valid checksum and the known
    /// record's proof.
    fn new(proofs: Option<Proofs>) -> Self {
        let proof_bytes = proofs.as_ref().map_or(0, Proofs::bytes);
        let params = parameters(PAYLOAD_BYTES + proof_bytes + 8);
        let records = params.records();
        let mut table = Table { proofs, ..spirea_specimens::table(TableKind::Index, records, PAYLOAD_BYTES) };
        let honest = |table: &Table, index: u64| table.leaf(index, &payload(index));
        let proof = match &table.proofs {
            None => Vec::new(),
            Some(_) => {
                let leaves = (0..records).map(|index| honest(&table, index)).collect();
                let tree = table.prove(leaves).unwrap();
                let record = table.seal_proven(KNOWN, &payload(KNOWN), &tree);
                assert_eq!(table.unseal(KNOWN, &record).unwrap(), payload(KNOWN));
                record[PAYLOAD_BYTES..PAYLOAD_BYTES + proof_bytes].to_vec()
            }
        };
        // The checksum's key is public. A table without proofs, whose payloads end with the proof,
        // gives the same seals.
        let forger = Table { proofs: None, payload_bytes: PAYLOAD_BYTES + proof_bytes, ..table.clone() };
        let per_group = params.grid.records_per_unit() as u64;
        let lies = (0..GROUPS as u64).flat_map(|group| {
            let lie = forger.seal(KNOWN, &[payload(1000 + group), proof.clone()].concat());
            moved_to_the_first_pad(&params, group, &lie.repeat(per_group as usize))
        });
        let lies = lies.collect::<Vec<u8>>();
        let lies = lies.chunks(params.record_bytes()).map(<[u8]>::to_vec).collect();
        let backend = Arc::new(CpuBackend::new(2).unwrap());
        let shards = shards_of(&backend, &params, lies, GROUPS);
        Self { table, per_group, shards }
    }

    /// Decodes and verifies the forged answer to a query for the known record, after an earlier
    /// query for a record of `group`.
    fn lie(&self, group: u64, rng: &mut SecretRng) -> Result<Vec<u8>, ProtocolError> {
        let Shards { servers, client } = &self.shards;
        let earlier = client.query(group * self.per_group + 5, rng).unwrap().queries.remove(0);
        let Prepared { queries, state } = client.query(KNOWN, rng).unwrap();
        let keys = servers[0].prepare_keys(client.keys().unwrap().bytes()).unwrap();
        let batch = |bytes| [Query { bytes, keys: Some(&keys) }];
        let partials = servers.iter().map(|server| {
            // The header names the batch of the earlier query; the content comes from the query for
            // the known record.
            let [known, earlier] =
                [&queries[0], &earlier].map(|query| server.partial(&batch(query)).unwrap());
            let (header, _) = earlier.as_bytes().split_at(Partial::HEADER_BYTES);
            let (_, content) = known.as_bytes().split_at(Partial::HEADER_BYTES);
            Partial::from_bytes([header, content].concat()).unwrap()
        });
        let partials: Vec<_> = partials.collect();
        let batch = batch(&earlier);
        let answer = servers[0].combine(&batch, &partials).unwrap().remove(0);
        let record = client.decode(state, &[&answer])?;
        Ok(self.table.unseal(KNOWN, &record)?.to_vec())
    }
}

#[test]
fn without_proofs_selectors_of_an_earlier_query_reveal_its_group() {
    let (attack, mut rng) = (Attack::new(None), SecretRng::from_os().unwrap());
    for group in 0..GROUPS as u64 {
        assert_eq!(attack.lie(group, &mut rng).unwrap(), payload(1000 + group));
    }
}

#[test]
fn with_proofs_selectors_of_an_earlier_query_reveal_nothing() {
    let records = parameters(PAYLOAD_BYTES + Proofs::bytes_of(2000) + 8).records();
    let attack = Attack::new(Some(Proofs::blank(records, Salt::new([6; 32]))));
    let mut rng = SecretRng::from_os().unwrap();
    let tries = if Form::of_environment() == Form::Long { 1000 } else { 2 * GROUPS as u64 };
    for attempt in 0..tries {
        let told = attack.lie(attempt % GROUPS as u64, &mut rng);
        assert!(matches!(told, Err(ProtocolError::Unproven)), "{told:?}");
    }
    println!("0 of {tries} accepted");
}

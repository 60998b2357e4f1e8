//! A lying server of the hybrid protocol that selects by the ciphertexts of an earlier query under
//! the same keys. It folds a forged table by a query whose record it knows, so that the resulting
//! record names the group of the earlier query (docs/soundness.md). Inclusion proofs refuse the
//! record: conformance/tests/selectors.rs.

use std::sync::Arc;

use spirea_backend::{Residence, StoredFile};
use spirea_cpu::CpuBackend;
use spirea_math::random::Seed;

use super::*;
use crate::choice::Choice;
use crate::grid::RecordPlace;
use crate::keys::PreparedKeys;
use crate::packing::registered::Registered;
use crate::packing::rotated::RotatedShape;
use crate::protocol::Protocol as _;
use crate::protocols::exppack_simple;
use crate::protocols::hybrid::{Hybrid, Params};
use crate::query::Query;
use crate::responder::Rows;
use crate::steps::ring::Shape;

const GROUPS: u64 = 8;
const RECORD_BYTES: usize = 64;
const COLUMNS: usize = 256;
/// Record that the server knows to be queried now, in the first group.
const KNOWN: u64 = 3;

/// Returns a record that names a group and a column; with a checksum, a client would accept it.
fn record_of(group: u64, column: u64) -> Vec<u8> {
    [group, column].iter().flat_map(|name| name.to_le_bytes()).cycle().take(RECORD_BYTES).collect()
}

/// Returns parameters of eight groups of one block each.
fn parameters() -> Params {
    let records = GROUPS * (RingSet::DEGREE / RECORD_BYTES * COLUMNS) as u64;
    let json = serde_json::json!({
        "set": "module-1280",
        "ring": "fast",
        "seed": "07".repeat(32),
        "dropped_bits": 5,
        "grid": {
            "records": records, "record_bytes": RECORD_BYTES, "unit_rows": RingSet::DEGREE, "groups": GROUPS, "columns": COLUMNS
        },
    });
    let params: Params = serde_json::from_value(json).unwrap();
    params.validate().unwrap();
    assert!((params.profile().combined_answer_bits - 3.0).abs() < 1e-9);
    params
}

struct Server {
    rows: MatrixRows<CpuBackend>,
    packing: Registered<CpuBackend, RotatedShape>,
    shape: PackedShape,
}

impl Server {
    /// Creates a server with a forged table. In every group, the position that the known record has
    /// in the first group holds a record that names the group.
    fn of_lies(params: &Params) -> Self {
        let (backend, stored, grid) =
            (Arc::new(CpuBackend::new(2).unwrap()), params.profile().stored, params.profile().grid);
        let mut matrix = vec![0; stored.bytes() as usize];
        for index in 0..grid.records {
            let RecordPlace { column, group, .. } = grid.place(Hybrid::SPREAD, index);
            for (byte, value) in record_of(group as u64, column as u64).into_iter().enumerate() {
                matrix[stored.offset(index, byte) as usize] = value;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let file = StoredFile::at(folder.path().join("matrix"));
        std::fs::write(file.path(), matrix).unwrap();
        let shape = params.shape();
        let PackingShape::Rotated(ring) = shape.ring else { panic!("{:?}", shape.ring) };
        let hint = params.0.hint(Hybrid::SPREAD, &*backend, &file, |_| ()).unwrap();
        let query = shape.first_queries();
        let opening = Opening { residence: Residence::Copied, ..Opening::default() };
        let rows =
            MatrixRows::open(&backend, params.0.layout(Hybrid::SPREAD), query, &file, opening).unwrap();
        let packing =
            Registered::new(ring, &backend, shape.rows(), hint.first_rows(shape.rows().rows).unwrap())
                .unwrap();
        Self { rows, packing, shape }
    }

    /// Answers a query with the selectors of an earlier query.
    fn lie(&self, keys: &PreparedKeys, query: &[u8], earlier: &[u8]) -> Vec<u8> {
        let Self { rows, packing, shape } = self;
        let (ring, layout) = (&packing.ring, shape.layout());
        let batch = [query, earlier].map(|bytes| Query { bytes, keys: Some(keys) });
        let parsed = [&batch[..1], &batch[1..]].map(|one| ring.parse_all(one, layout).unwrap());
        let [asked, earlier] = parsed.each_ref().map(|parsed| {
            let (_, unpacked) = ring.unpack_groups(parsed).unwrap().next().unwrap().unwrap();
            unpacked
        });
        let folded = rows.fold(&batch[..1]).unwrap().unwrap();
        let bodies = shape.rows().bodies(0, 0);
        let packed = ring.pack(&packing.parts[0], &asked, &folded, &bodies).unwrap();
        let selectors = ring.selectors(&earlier, 0..ring.shape.depth()).unwrap();
        let selected = ring.select(&selectors, packed).unwrap();
        ring.switch(&[selected]).unwrap().concat()
    }
}

#[test]
fn selectors_of_an_earlier_query_reveal_its_group() {
    let (params, mut rng) = (parameters(), SecretRng::from_os().unwrap());
    let server = Server::of_lies(&params);
    let client = params.client_of(Holdings { hint: &[], keys: &[] }, &mut rng).unwrap();
    let keys = server.packing.ring.prepare_keys(client.keys().unwrap().bytes()).unwrap();
    let grid = params.profile().grid;
    let RecordPlace { column, group, .. } = grid.place(Hybrid::SPREAD, KNOWN);
    assert_eq!(group, 0);
    for group in 0..GROUPS {
        let of_group = |&index: &u64| grid.place(Hybrid::SPREAD, index).group as u64 == group;
        let index = (0..grid.records).rev().find(of_group).unwrap();
        let earlier = client.query(index, &mut rng).unwrap().queries.remove(0);
        let Prepared { queries, state } = client.query(KNOWN, &mut rng).unwrap();
        let answer = server.lie(&keys, &queries[0], &earlier);
        let record = client.decode(state, &[&answer]).unwrap();
        assert_eq!(record, record_of(group, column as u64), "the earlier query's group");
    }
}

/// The failure bound is a union bound over the bytes of the records of all bins.
#[test]
fn twice_the_bytes_decode_wrongly_twice_as_often() {
    let params = |bins: usize, record_bytes: usize| -> exppack_simple::Params {
        let choice = Choice { protocol: "exppack-simple".into(), bins, ..Choice::default() };
        exppack_simple::Params::choose(&choice, Seed::new([7; 32]), 1000, record_bytes).unwrap()
    };
    for bins in [1, 8, 75] {
        let params = params(bins, 40);
        let mut twice = params.clone();
        twice.0.grid.record_bytes = 80;
        let [of, of_twice] = [params, twice].map(|params| params.exceedance(0.5).unwrap().log2);
        assert!((of_twice - of - 1.0).abs() < 1e-6, "{bins} bins: {of}, {of_twice}");
    }
}

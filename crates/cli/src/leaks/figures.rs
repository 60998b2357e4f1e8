//! Figures of a look-up that follow from the parameters.

use bytes::Bytes;
use serde::Serialize;
use spirea_lattice::Security;
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::keyword::TAG_BYTES;
use spirea_protocols::parameters::{Claim, Failure};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::table::CHECKSUM_BYTES;
use spirea_protocols::{KeysHash, Sizes, TableKind, Version};
use spirea_store::Manifest;
use spirea_wire::{Queries, Request, Response};

/// Length of a message that grows with the number of look-ups, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Growing {
    /// Length with one look-up.
    pub first: usize,
    /// Increase for each further look-up.
    pub further: usize,
}

impl Growing {
    fn of(bytes: impl Fn(usize) -> usize) -> Self {
        let first = bytes(1);
        Self { first, further: bytes(2) - first }
    }
}

/// A lattice parameter set, with log2 of the cost of attacks by three models.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetSecurity {
    /// Name of the set.
    pub set: &'static str,
    /// Operations, by MATZOV's model.
    pub matzov: f64,
    /// Operations, by the model of Becker, Ducas, Gama and Laarhoven.
    pub bdgl16: f64,
    /// Core-SVP: only one sieve call is counted.
    pub core_svp: f64,
    /// True if none of the three values is below ML-KEM-512's.
    pub at_least_ml_kem_512: bool,
}

/// Returns the parameter sets of some protocols, each once.
pub fn set_securities<'a>(protocols: impl Iterator<Item = &'a ProtocolParams>) -> Vec<SetSecurity> {
    let mut found = Vec::new();
    for (set, security) in protocols.flat_map(|params| params.sets.securities()) {
        let Security { matzov, bdgl16, core_svp } = security;
        let at_least_ml_kem_512 = security.reaches(Security::ML_KEM_512);
        let security = SetSecurity { set, matzov, bdgl16, core_svp, at_least_ml_kem_512 };
        if !found.contains(&security) {
            found.push(security);
        }
    }
    found
}

/// Figures of a version: of its base, and of its delta if it has one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Number of values in the base.
    pub values: u64,
    /// Number of records in the base: rows or buckets.
    pub records: u64,
    /// Length of a record of the base, in bytes.
    pub record_bytes: usize,
    /// Mean number of values in a bucket; `None` in a table by position whose records are rows.
    pub values_in_bucket: Option<f64>,
    /// Number of records whose bytes an answer contains: those in the same unit as the requested
    /// record.
    pub records_in_answer: u64,
    /// Number of changes in the delta; `None` without a delta.
    pub changes: Option<u64>,
    /// Length of a request.
    pub request_bytes: Growing,
    /// Length of a response.
    pub response_bytes: Growing,
    /// Delivery of evaluation keys to the server; `None` if the protocol needs none.
    pub keys: Option<KeyDelivery>,
    /// Length of the evaluation keys that a client registers, in bytes; 0 if it registers none.
    pub keys_bytes: usize,
    /// Length of all hints, in bytes; 0 if the protocol has none.
    pub hint_bytes: u64,
    /// True if the base's hint has at least as many equations as a row has unknowns, so that it
    /// determines the table.
    pub hint_determines_table: bool,
    /// Number of servers that a look-up asks.
    pub servers: usize,
    /// Security of the weakest part, in bits.
    pub security_bits: f64,
    /// Lattice parameter sets in use, with the cost of attacks.
    pub sets: Vec<SetSecurity>,
    /// Probability that a look-up decodes wrongly; `None` if there is no noise.
    #[serde(flatten)]
    pub failure: Option<Failure>,
    /// log2 of a bound on the probability that an absent key is found; `None` in a table by
    /// position without changes.
    pub false_match_log2: Option<f64>,
    /// log2 of the probability that a randomly damaged record passes its checksum.
    pub checksum_log2: f64,
}

impl Figures {
    /// Returns the figures of a base with or without a delta.
    pub fn of(base: &Manifest, delta: Option<&Manifest>) -> Self {
        let parts: Vec<&Manifest> = [base].into_iter().chain(delta).collect();
        let sizes: Vec<Sizes> = parts.iter().map(|part| part.protocol.sizes).collect();
        let keyed = |part: &&&Manifest| part.table.kind == TableKind::Keyword;
        let keyed: u64 = parts.iter().filter(keyed).map(|part| part.table.entries).sum();
        let table = &base.table;
        Self {
            values: table.entries,
            records: table.records,
            record_bytes: table.record_bytes(),
            values_in_bucket: table.has_buckets().then(|| table.entries as f64 / table.records as f64),
            records_in_answer: (base.protocol.grid.records_per_unit() as u64).min(table.records),
            changes: delta.map(|delta| delta.table.entries),
            request_bytes: Growing::of(|count| request_bytes(&sizes, count)),
            response_bytes: Growing::of(|count| response_bytes(&sizes, count)),
            keys: base.protocol.key_delivery,
            keys_bytes: keys_bytes(&parts),
            hint_bytes: sizes.iter().map(|sizes| sizes.hint_bytes).sum(),
            hint_determines_table: base.protocol.hint_determines_records,
            servers: base.protocol.parties,
            security_bits: parts.iter().map(|part| part.protocol.security_bits).fold(f64::INFINITY, f64::min),
            sets: set_securities(parts.iter().map(|part| &part.protocol)),
            failure: parts.iter().filter_map(|part| part.protocol.failure).reduce(either),
            false_match_log2: (keyed > 0).then(|| (keyed as f64).log2() - 8.0 * TAG_BYTES as f64),
            checksum_log2: -8.0 * CHECKSUM_BYTES as f64,
        }
    }
}

/// Bounds the probability that at least one of two failures happens, by twice the likelier one. The
/// bound is an estimate if either probability is an estimate.
fn either(a: Failure, b: Failure) -> Failure {
    let claim = if b.claim == Claim::Estimate { b.claim } else { a.claim };
    Failure { log2: a.log2.max(b.log2) + 1.0, claim }
}

/// Returns the length of the evaluation keys. Base and delta share keys of the same shape.
fn keys_bytes(parts: &[&Manifest]) -> usize {
    let mut shapes = Vec::new();
    let mut bytes = 0;
    for part in parts {
        let shape = part.protocol.key_shape;
        if !shapes.contains(&shape) {
            bytes += part.protocol.sizes.keys_bytes;
            shapes.push(shape);
        }
    }
    bytes
}

/// Returns the length of a request, by encoding one.
fn request_bytes(parts: &[Sizes], count: usize) -> usize {
    let mut queries = parts.iter().map(|sizes| Queries {
        keys: (sizes.keys_bytes > 0).then_some(KeysHash::default()),
        queries: vec![Bytes::from(vec![0; sizes.query_bytes]); count],
    });
    let base = queries.next().expect("there is a base");
    Request { version: Version::default(), base, delta: queries.next() }.encode().len()
}

/// Returns the length of a response, by encoding one. The computation time in a real response
/// changes it by up to five bytes.
fn response_bytes(parts: &[Sizes], count: usize) -> usize {
    let mut answers = parts.iter().map(|sizes| vec![Bytes::from(vec![0; sizes.answer_bytes]); count]);
    let response = Response {
        version: Version::default(),
        newest: Version::default(),
        answers: answers.next().expect("there is a base"),
        delta_answers: answers.next(),
        compute: std::time::Duration::from_millis(1),
    };
    response.encode().len()
}

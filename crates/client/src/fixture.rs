//! Requests and responses for tests of the client. The protocols are fakes: `Keyed` needs keys;
//! `Shares` has two servers, whose queries are shares of the index and whose answers are shares of
//! a record.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use spirea_lattice::RingSet;
use spirea_lattice::rlwe::{Conversion, KeyShape};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::{
    ClientKeys, IndexClient, Party, Prepared, PrfKind, ProtocolError, Sizes, Table, TableKind,
};
use spirea_wire::{
    Code, Config, KeysResponse, Lengths, Limits, Part, PartConfig, Refusal, Request, Response, Version,
};

pub(crate) const OLD: Version = Version::new([1; 32]);
pub(crate) const NEW: Version = Version::new([2; 32]);
pub(crate) static KEYS: LazyLock<ClientKeys> = LazyLock::new(|| {
    let shape = KeyShape { set: RingSet::Fast, levels: 1, rotations: None, conversion: Conversion::None };
    ClientKeys::of_shape(shape, &[], &mut SecretRng::from_os().unwrap())
});

pub(crate) fn table() -> Table {
    spirea_specimens::table(TableKind::Index, 10, 24)
}

pub(crate) fn params() -> ProtocolParams {
    ProtocolParams::choose(&Choice::default(), Seed::new([0; 32]), 10, 32).unwrap()
}

pub(crate) fn config(version: Version) -> Config {
    let params = params();
    Config {
        name: "test".into(),
        version,
        base: part(&params),
        delta: None,
        max_batch: 2,
        party: None,
        versions: vec![version],
        signature: Bytes::new(),
        request_bytes: 0,
    }
}

pub(crate) fn part(params: &ProtocolParams) -> PartConfig {
    let Sizes { query_bytes, answer_bytes, hint_bytes, keys_bytes } = params.sizes;
    PartConfig {
        protocol_params: params.to_json().into(),
        table: serde_json::to_vec(&table()).unwrap().into(),
        hint_bytes,
        hint_blake3: blake3::hash(&vec![0; hint_bytes as usize]).into(),
        lengths: Lengths { query_bytes, answer_bytes, keys_bytes },
        manifest: Bytes::new(),
    }
}

/// A client half that needs keys and decodes any answer to the value `v`.
pub(crate) struct Keyed;

impl IndexClient for Keyed {
    type State = u64;

    fn records(&self) -> u64 {
        10
    }

    fn sizes(&self) -> Sizes {
        params().sizes
    }

    fn keys(&self) -> Option<&ClientKeys> {
        Some(&KEYS)
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<u64>, ProtocolError> {
        let mut query = vec![0; self.sizes().query_bytes];
        rng.fill(&mut query);
        Ok(Prepared { queries: vec![query], state: index })
    }

    fn decode(&self, &index: &u64, _: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        Ok(table().seal(index, &Table::index_payload(b"v")))
    }

    fn errors(&self, _: &u64, _: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        Ok(Vec::new())
    }
}

/// A status and a body.
pub(crate) type Reply = (u16, Vec<u8>);

pub(crate) fn refusal(status: u16, code: Code) -> Reply {
    let refusal =
        Refusal { code, message: "no".into(), remedy: "none".into(), accepted: false, current_version: None };
    (status, refusal.encode())
}

pub(crate) fn unknown() -> Reply {
    refusal(424, Code::UnknownKeys)
}

/// Returns the limits of the database `test` under the protocol `Keyed`.
pub(crate) fn keyed_limits() -> Limits {
    let limits = config(OLD).limits();
    Limits { base: Lengths { keys_bytes: KEYS.bytes().len(), ..limits.base }, ..limits }
}

/// Returns a request and the keys that were sent with it, as `Keyed` makes them.
pub(crate) fn request_with_keys(body: &[u8]) -> (Request, Vec<(Part, Bytes)>) {
    Request::decode_with_keys(Bytes::copy_from_slice(body), &keyed_limits()).unwrap()
}

/// Returns the response of a server that has everything it needs.
pub(crate) fn willing(path: &str) -> Reply {
    match path {
        "keys" => (200, KeysResponse { blake3: blake3::hash(KEYS.bytes()).into() }.encode()),
        "query" => {
            let answers = vec![Bytes::from(vec![0; params().sizes.answer_bytes])];
            (
                200,
                Response { version: OLD, newest: OLD, answers, delta_answers: None, compute: Duration::ZERO }
                    .encode(),
            )
        }
        _ => refusal(404, Code::NoSuchEndpoint),
    }
}

/// Returns the configuration of one server of a two-server protocol.
pub(crate) fn described(party: Party, version: Version) -> Config {
    described_under(PrfKind::default(), party, version)
}

pub(crate) fn described_under(prf: PrfKind, party: Party, version: Version) -> Config {
    let choice = Choice { protocol: "dpf-xor".into(), prf, ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([0; 32]), 10, 32).unwrap();
    Config { base: part(&params), party: Some(party.number()), ..config(version) }
}

/// A client half: the index is the XOR of the queries' first bytes, the record the XOR of the
/// answers.
pub(crate) struct Shares;

impl IndexClient for Shares {
    const PARTIES: usize = 2;

    type State = ();

    fn records(&self) -> u64 {
        10
    }

    fn sizes(&self) -> Sizes {
        params().sizes
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<()>, ProtocolError> {
        let mut zero = vec![0; self.sizes().query_bytes];
        rng.fill(&mut zero);
        let mut one = zero.clone();
        one[0] ^= index as u8;
        Ok(Prepared { queries: vec![zero, one], state: () })
    }

    fn decode(&self, (): &(), answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let [zero, one] = answers else { panic!("both have answered") };
        Ok(zero.iter().zip(*one).take(table().record_bytes()).map(|(zero, one)| zero ^ one).collect())
    }

    fn errors(&self, (): &(), _: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        Ok(Vec::new())
    }
}

/// Returns a response with one server's share of record 3.
pub(crate) fn share(party: Party) -> Reply {
    let mut answer = vec![0x5a; params().sizes.answer_bytes];
    if party == Party::One {
        let record = table().seal(3, &Table::index_payload(b"v"));
        answer.iter_mut().zip(record).for_each(|(share, byte)| *share ^= byte);
    }
    respond(answer)
}

pub(crate) fn respond(answer: Vec<u8>) -> Reply {
    (
        200,
        Response {
            version: OLD,
            newest: OLD,
            answers: vec![answer.into()],
            delta_answers: None,
            compute: Duration::ZERO,
        }
        .encode(),
    )
}

//! Look-ups with their secrets marked.

use spirea_math::random::{SecretRng, Seed};
use spirea_math::secret;
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::table::{Fetched, LookupState};
use spirea_protocols::{ProtocolError, TableClient, TableKind};

use crate::tables::{Sealed, Size, Spread, key, sealed, value};

const SENT: &str = "a server sees queries and evaluation keys";
const RECEIVED: &str = "the application gets the value";
/// Seed of a client's randomness.
const CLIENT_SEED: u64 = 11;

/// The servers of consecutive tables, as a client sees them.
pub trait Servers {
    /// Serves a table with these records; returns its hint.
    fn open(&mut self, params: &ProtocolParams, records: Vec<Vec<u8>>) -> Vec<u8>;

    /// Registers the client's evaluation keys.
    fn register(&mut self, keys: &[u8]);

    /// Answers a look-up's queries, one for each server.
    fn answer(&mut self, queries: &[Vec<u8>]) -> Vec<Vec<u8>>;
}

/// Returns true with `SPIREA_CONFORMANCE=long`: every kind of look-up then runs in every kind of
/// table.
fn is_long() -> bool {
    std::env::var("SPIREA_CONFORMANCE").is_ok_and(|wanted| wanted == "long")
}

/// Returns sizes of two tables that are served quickly even under valgrind. Records of the first
/// share units; those of the second take several units or lie in several groups.
fn sizes(protocol: &str) -> (Size, Size) {
    let small = match protocol {
        "double" | "exppack-double" => Size { values: 20, value_bytes: 2 },
        // The table has more than one unit, since a table of one unit needs no keys.
        "onion" => Size { values: 200, value_bytes: 300 },
        _ => Size { values: 20, value_bytes: 300 },
    };
    let large = match protocol {
        "double" | "exppack-double" => small,
        "hybrid" => Size { values: 600, value_bytes: 9000 },
        "onion" => Size { values: 60, value_bytes: 9000 },
        _ => Size { values: 4, value_bytes: 5000 },
    };
    (small, large)
}

/// Looks up values under `protocol` with this key delivery.
pub fn of(protocol: &str, keys: KeyDelivery, servers: &mut dyn Servers) {
    let (small, large) = sizes(protocol);
    let tables = [
        (TableKind::Keyword, Spread::Even, small, None),
        (TableKind::Index, Spread::Even, large, Some(2)),
        (TableKind::Keyword, Spread::Wide, small, None),
        (TableKind::Index, Spread::Wide, small, None),
        (TableKind::Index, Spread::Several, small, Some(1)),
    ];
    // Wide buckets are handled by the table's code, which is the same for every protocol, so most
    // protocols test one table of each kind. `double-pack` gets one table: its server takes
    // longest, and it adds little to the test of `exppack-simple`.
    let count = match protocol {
        _ if is_long() => 5,
        "simple" | "onion" | "dpf-xor" => 5,
        "double-pack" => 1,
        _ => 2,
    };
    let choice = Choice { protocol: protocol.into(), keys, ..Choice::default() };
    for &(kind, spread, size, proof_levels) in &tables[..count] {
        let (client, rng) = &mut client(&choice, sealed(kind, spread, size, proof_levels), servers);
        // The first value is present, the second one absent.
        for number in [size.values * 2 / 3, size.values + 5] {
            let expected = (number < size.values).then(|| value(number, size));
            let found = match kind {
                TableKind::Keyword => look_up_key(servers, client, number, rng),
                TableKind::Index => look_up_index(servers, client, number, rng),
            };
            assert_eq!(found, expected, "{protocol}: {number}");
        }
    }
}

/// Creates a client of a table, with secret randomness.
fn client(
    choice: &Choice,
    Sealed { table, records }: Sealed,
    servers: &mut dyn Servers,
) -> (TableClient, SecretRng) {
    let params =
        ProtocolParams::choose(choice, Seed::new([7; 32]), table.records, table.record_bytes()).unwrap();
    let hint = servers.open(&params, records);
    let mut rng = SecretRng::deterministic_for_tests(CLIENT_SEED);
    let client = TableClient::new(table, params.client(&hint, &[], &mut rng).unwrap()).unwrap();
    if let Some(keys) = client.index().keys() {
        let mut sent = keys.bytes().to_vec();
        public(&mut sent, SENT);
        servers.register(&sent);
    }
    (client, rng)
}

/// Checks that bytes are still marked as secret, and then marks them as public for the reason
/// `why`.
fn public(bytes: &mut [u8], why: &'static str) {
    let marked = spirea_memcheck::undefined_bits(bytes) > 0 || !spirea_memcheck::running();
    assert!(marked || bytes.is_empty(), "nothing of it was marked as secret any more: {why}");
    secret::declassify_bytes(bytes, why);
}

fn look_up_key(
    servers: &mut dyn Servers,
    client: &TableClient,
    number: u64,
    rng: &mut SecretRng,
) -> Option<Vec<u8>> {
    let mut key = key(number);
    secret::poison(&mut key[..]);
    finish(servers, client, client.query_key(&key, rng)).unwrap()
}

/// Looks up an index. An index beyond the table is refused, and gives `None`.
fn look_up_index(
    servers: &mut dyn Servers,
    client: &TableClient,
    number: u64,
    rng: &mut SecretRng,
) -> Option<Vec<u8>> {
    let mut index = number;
    secret::poison(&mut index);
    match finish(servers, client, client.query_index(index, rng)) {
        Err(ProtocolError::BadRequest(_)) => None,
        found => found.unwrap(),
    }
}

/// Sends the queries to the servers, and decodes their answers.
fn finish(
    servers: &mut dyn Servers,
    client: &TableClient,
    made: Result<(Vec<Vec<u8>>, LookupState), ProtocolError>,
) -> Result<Option<Vec<u8>>, ProtocolError> {
    let (mut queries, state) = made?;
    queries.iter_mut().for_each(|query| public(query, SENT));
    let answers = servers.answer(&queries);
    let mut value = client.decode(state, &slices(&answers))?;
    value.iter_mut().for_each(|value| public(value, RECEIVED));
    Ok(value)
}

/// Fetches several values at once from two servers, by position and by key. The fetches ask for
/// values in different bins, for a value that is dropped, and for no value.
pub fn from_bins(servers: &mut dyn Servers) {
    let (even, wide) = ((TableKind::Index, Spread::Even), (TableKind::Index, Spread::Wide));
    let [keyed, copied] = [Spread::Even, Spread::Copied].map(|spread| (TableKind::Keyword, spread));
    fetches("dpf-xor", &[even, wide, keyed, copied], servers);
}

/// Fetches several values at once from one server, like [`from_bins`].
pub fn from_packed_bins(servers: &mut dyn Servers) {
    let tables = [Spread::Even, Spread::Copied].map(|spread| (TableKind::Keyword, spread));
    fetches("exppack-simple", &tables, servers);
}

fn fetches(protocol: &str, tables: &[(TableKind, Spread)], servers: &mut dyn Servers) {
    let size = Size { values: 40, value_bytes: 60 };
    for &(kind, spread) in tables {
        let choice = Choice { protocol: protocol.into(), bins: 4, ..Choice::default() };
        let (client, rng) = &mut client(&choice, sealed(kind, spread, size, Some(2)), servers);
        for wanted in [&[][..], &[1, 12, 39, 1], &[7]] {
            let fetched = fetch(servers, client, kind, wanted, rng);
            assert_eq!(fetched.len(), wanted.len());
            for (fetched, &number) in fetched.into_iter().zip(wanted) {
                match fetched {
                    Fetched::Value(mut found) => {
                        public(&mut found, RECEIVED);
                        assert!(found == value(number, size), "{number}");
                    }
                    Fetched::Absent => panic!("{number} is there"),
                    Fetched::Dropped => assert!(wanted.len() > 1, "{number} is brought"),
                }
            }
        }
    }
}

fn fetch(
    servers: &mut dyn Servers,
    client: &TableClient,
    kind: TableKind,
    wanted: &[u64],
    rng: &mut SecretRng,
) -> Vec<Fetched<Vec<u8>>> {
    let made = match kind {
        TableKind::Keyword => {
            let mut keys: Vec<Vec<u8>> = wanted.iter().map(|&number| key(number)).collect();
            keys.iter_mut().for_each(|key| secret::poison(&mut key[..]));
            client.fetch_keys(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>(), rng)
        }
        TableKind::Index => {
            let mut indices = wanted.to_vec();
            secret::poison(&mut indices[..]);
            client.fetch_indices(&indices, rng)
        }
    };
    let (mut queries, state) = made.unwrap();
    queries.iter_mut().for_each(|query| public(query, SENT));
    let answers = servers.answer(&queries);
    client.decode_fetch(state, &slices(&answers)).unwrap()
}

/// Borrows the answers, for a client.
fn slices(answers: &[Vec<u8>]) -> Vec<&[u8]> {
    answers.iter().map(Vec::as_slice).collect()
}

//! Checks that the shares of a database together give the answers of a server of the whole
//! database.

use std::sync::Arc;

use spirea_backend::{ProtocolBackend, Residence, Share, StoredFile};
use spirea_math::random::SecretRng;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{
    AnyIndexClient, Files, Opening, Partial, PreparedKeys, ProtocolError, Query, Responder, Role, Sharded,
};

use crate::{Content, Stored, records, stored};

/// Servers of the shares of a database, one for each share, and a client. The first server
/// combines.
pub struct Shards {
    /// The servers, in the order of their shares.
    pub servers: Vec<Box<dyn Responder>>,
    /// The client half.
    pub client: Box<dyn AnyIndexClient>,
}

/// Divides a database with these records among `count` servers.
pub fn shards_of<B: ProtocolBackend>(
    backend: &Arc<B>,
    params: &ProtocolParams,
    records: Vec<Vec<u8>>,
    count: usize,
) -> Shards {
    let stored = stored(backend, params, &records);
    let client = params.client(&stored.hint, &[], &mut SecretRng::from_os().unwrap()).unwrap();
    let opening = params.openings(Residence::Copied).remove(0);
    let servers = roles(count)
        .map(|role| params.on().open(backend, &stored.files, Opening { role, ..opening }).unwrap())
        .collect();
    Shards { servers, client }
}

/// Returns the roles of `count` shares; the first combines.
fn roles(count: usize) -> impl Iterator<Item = Role> {
    let role = |share: Share| if share.index() == 0 { Role::Combines(share) } else { Role::Folds(share) };
    Share::new(0, count).unwrap().all().map(role)
}

/// A database in files, with the queries of a batch of look-ups, and the answers of servers of the
/// whole database.
pub struct Divided {
    params: ProtocolParams,
    stored: Stored,
    client: Box<dyn AnyIndexClient>,
    /// Queries to each party.
    queries: Vec<Vec<Vec<u8>>>,
    /// Answers of each party's server of the whole database.
    expected: Vec<Vec<Vec<u8>>>,
}

/// Prepares a database, and lets `oracle` answer look-ups of its first `look_ups` records.
pub fn divided<B: ProtocolBackend>(
    oracle: &Arc<B>,
    params: &ProtocolParams,
    look_ups: u64,
    rng: &mut SecretRng,
) -> Divided {
    let records = records(params, Content::Random(5));
    let stored = stored(oracle, params, &records);
    let client = params.client(&stored.hint, &[], rng).unwrap();
    let mut queries = vec![Vec::new(); params.parties];
    let mut states = Vec::new();
    for index in 0..look_ups {
        let prepared = client.query(index, rng).unwrap();
        queries.iter_mut().zip(prepared.queries).for_each(|(queries, query)| queries.push(query));
        states.push(prepared.state);
    }
    let mut divided = Divided { params: params.clone(), stored, client, queries, expected: Vec::new() };
    let openings = params.openings(Residence::Copied);
    for (party, opening) in openings.into_iter().enumerate() {
        let server = divided.open(oracle, opening);
        let keys = divided.keys(&*server);
        divided.expected.push(server.answer(&divided.batch(party, keys.as_ref())).unwrap());
    }
    for (index, state) in states.into_iter().enumerate() {
        let answers: Vec<&[u8]> = divided.expected.iter().map(|answers| answers[index].as_slice()).collect();
        assert!(divided.client.decode(state, &answers).unwrap() == records[index]);
    }
    divided
}

impl Divided {
    fn open<B: ProtocolBackend>(&self, backend: &Arc<B>, opening: Opening) -> Box<dyn Responder> {
        self.params.on().open(backend, &self.stored.files, opening).unwrap()
    }

    fn keys(&self, server: &dyn Responder) -> Option<PreparedKeys> {
        self.client.keys().map(|keys| server.prepare_keys(keys.bytes()).unwrap())
    }

    fn batch<'a>(&'a self, party: usize, keys: Option<&'a PreparedKeys>) -> Vec<Query<'a>> {
        self.queries[party].iter().map(|bytes| Query { bytes, keys }).collect()
    }

    /// Opens the servers of the shares of a party's database; the first combines.
    fn shards<B: ProtocolBackend>(
        &self,
        backend: &Arc<B>,
        opening: Opening,
        count: usize,
    ) -> Vec<Box<dyn Responder>> {
        roles(count).map(|role| self.open(backend, Opening { role, ..opening })).collect()
    }

    fn openings(&self, residence: Residence) -> impl Iterator<Item = (usize, Opening)> {
        self.params.openings(residence).into_iter().enumerate()
    }

    /// Returns the partials of each share as bytes.
    fn partials(&self, party: usize, shards: &[Box<dyn Responder>]) -> Vec<Vec<u8>> {
        let partial = |shard: &dyn Responder| {
            let keys = self.keys(shard);
            let batch = self.batch(party, keys.as_ref());
            let partial = shard.partial(&batch).unwrap();
            assert_eq!(partial.share(), shard.share());
            assert_eq!(partial.as_bytes().len(), shards[0].partial_bytes(partial.share(), batch.len()));
            partial.as_bytes().to_vec()
        };
        shards.iter().map(|shard| partial(&**shard)).collect()
    }

    /// Checks that `count` shares answer like a server of the whole database, both through the
    /// bytes of their partials and as one [`Sharded`].
    pub fn shares_answer<B: ProtocolBackend>(&self, backend: &Arc<B>, residence: Residence, count: usize) {
        self.partials_combine(backend, residence, count);
        for (party, opening) in self.openings(residence) {
            let together = Sharded::new(self.shards(backend, opening, count)).unwrap();
            assert_eq!(together.sizes(), self.params.sizes);
            assert_eq!(together.specimen(), self.shards(backend, opening, 1)[0].specimen());
            let keys = self.keys(&together);
            let answers = together.answer(&self.batch(party, keys.as_ref())).unwrap();
            assert!(answers == self.expected[party], "{count} shares of {:?} as one", self.params);
        }
    }

    /// Checks that the partials of `count` shares, parsed from bytes and in any order, combine to
    /// the answers of a server of the whole database.
    pub fn partials_combine<B: ProtocolBackend>(&self, backend: &Arc<B>, residence: Residence, count: usize) {
        for (party, opening) in self.openings(residence) {
            let shards = self.shards(backend, opening, count);
            let mut travelled = self.partials(party, &shards);
            travelled.reverse();
            let keys = self.keys(&*shards[0]);
            let batch = self.batch(party, keys.as_ref());
            let combined = shards[0].combine(&batch, &parsed(travelled)).unwrap();
            assert!(combined == self.expected[party], "{count} shares of {:?}", self.params);
        }
    }

    /// Checks that each share folds from a file that contains only its own bytes, and that a
    /// joining server needs no file of the database.
    pub fn shares_need_their_own_bytes_alone<B: ProtocolBackend>(
        &self,
        backend: &Arc<B>,
        residence: Residence,
        count: usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let whole = std::fs::read(&self.stored.files.matrix).unwrap();
        for (party, opening) in self.openings(residence) {
            let expected = self.partials(party, &self.shards(backend, opening, count));
            let own = |share: Share| {
                let mut bytes = vec![0xff; whole.len()];
                for range in self.params.share_bytes(share) {
                    let range = range.start as usize..range.end as usize;
                    bytes[range.clone()].copy_from_slice(&whole[range]);
                }
                let matrix = folder.path().join(format!("{}", share.index()));
                std::fs::write(&matrix, bytes).unwrap();
                let files = Files::at(matrix, folder.path().join("none"));
                let role = Role::Folds(share);
                self.params.on().open(backend, &files, Opening { role, ..opening }).unwrap()
            };
            let shares = Share::new(0, count).unwrap();
            let alone: Vec<Box<dyn Responder>> = shares.all().map(own).collect();
            let needed = alone[0].partial_keys_bytes();
            assert!([0, self.params.sizes.keys_bytes].contains(&needed));
            for (shard, expected) in alone.iter().zip(&expected) {
                // If a fold needs no keys, its batch has none.
                let keys = self.keys(&**shard).filter(|_| needed > 0);
                let partial = shard.partial(&self.batch(party, keys.as_ref())).unwrap();
                assert!(partial.as_bytes() == expected, "{count} shares of {:?}", self.params);
            }
            let files =
                Files { matrix: StoredFile::at(folder.path().join("none")), ..self.stored.files.clone() };
            let opening = Opening { role: Role::Joins(shares), ..opening };
            let joins = self.params.on().open(backend, &files, opening).unwrap();
            let keys = self.keys(&*joins);
            let batch = self.batch(party, keys.as_ref());
            joins.check(&batch).unwrap();
            assert!(joins.combine(&batch, &parsed(expected)).unwrap() == self.expected[party]);
            // No share refuses a batch that the joining server admits.
            for byte in [0x00, 0x01, 0x7f, 0xff] {
                let garbled = vec![byte; batch[0].bytes.len()];
                let batch = [Query { bytes: &garbled, ..batch[0] }];
                let refused = |error: &ProtocolError| matches!(error, ProtocolError::Malformed { .. });
                let by_a_share = alone.iter().any(|shard| {
                    let keys = self.keys(&**shard).filter(|_| needed > 0);
                    let batch = [Query { keys: keys.as_ref(), ..batch[0] }];
                    shard.partial(&batch).is_err_and(|error| refused(&error))
                });
                assert!(!by_a_share || joins.check(&batch).is_err_and(|error| refused(&error)));
            }
            assert!(matches!(joins.answer(&batch), Err(ProtocolError::Backend(_))));
        }
    }

    /// Checks that partials have the same bytes on both backends.
    pub fn partials_agree<A: ProtocolBackend, B: ProtocolBackend>(
        &self,
        a: &Arc<A>,
        b: &Arc<B>,
        count: usize,
    ) {
        for (party, opening) in self.openings(Residence::Mapped) {
            let partials = self.partials(party, &self.shards(a, opening, count));
            assert!(partials == self.partials(party, &self.shards(b, opening, count)), "{:?}", self.params);
        }
    }

    /// Checks that partials are refused unless there is exactly one well-formed partial from each
    /// share, for this batch. Also checks that a share refuses to answer alone. Partials with wrong
    /// content are accepted, but give wrong answers.
    pub fn wrong_partials_are_refused<B: ProtocolBackend>(&self, backend: &Arc<B>, rng: &mut SecretRng) {
        for (party, opening) in self.openings(Residence::Copied) {
            let shards = self.shards(backend, opening, 2);
            let keys = self.keys(&*shards[0]);
            let batch = self.batch(party, keys.as_ref());
            let right = self.partials(party, &shards);
            let refused = |partials: Vec<Vec<u8>>| {
                let error = shards[0].combine(&batch, &parsed(partials)).unwrap_err();
                assert!(matches!(error, ProtocolError::Malformed { what: "partial", .. }), "{error}");
            };
            // Puts a share with rows before a share that may have none.
            let (first, second) = match right[0].len() {
                Partial::HEADER_BYTES => (&right[1], &right[0]),
                _ => (&right[0], &right[1]),
            };
            refused(vec![]);
            refused(vec![first.clone()]);
            refused(vec![first.clone(), first.clone()]);
            refused(vec![first.clone(), [second, &[0][..]].concat()]);
            refused(vec![first[..first.len() - 1].to_vec(), second.clone()]);
            refused(vec![first[..Partial::HEADER_BYTES].to_vec(), second.clone()]);
            let mut other_batch = second.clone();
            other_batch[8] ^= 1;
            refused(vec![first.clone(), other_batch]);
            let of_three = self.partials(party, &self.shards(backend, opening, 3));
            refused(vec![first.clone(), of_three[1].clone()]);
            assert!(Partial::from_bytes(first[..Partial::HEADER_BYTES - 1].to_vec()).is_err());
            for bit in 0..Partial::HEADER_BYTES * 8 {
                if let Ok(partial) = Partial::from_bytes(flipped(first, bit)) {
                    let partials = [partial, Partial::from_bytes(second.clone()).unwrap()];
                    let refused = matches!(
                        shards[0].combine(&batch, &partials),
                        Err(ProtocolError::Malformed { what: "partial", .. })
                    );
                    assert!(refused, "bit {bit} of a header");
                }
            }
            let content = Partial::HEADER_BYTES..first.len();
            let anywhere = || content.start * 8 + (rng.next_u64() % (content.len() as u64 * 8)) as usize;
            let damaged = std::iter::repeat_with(anywhere).take(4).map(|bit| flipped(first, bit));
            let filled = [0, 0xff].map(|byte| [&first[..content.start], &vec![byte; content.len()]].concat());
            for wrong in damaged.chain(filled) {
                match shards[0].combine(&batch, &parsed(vec![wrong, second.clone()])) {
                    Ok(answers) => {
                        assert_eq!(answers.len(), batch.len());
                        assert!(answers.iter().all(|it| it.len() == self.params.sizes.answer_bytes));
                    }
                    Err(error) => assert!(error.to_string().contains("below the ring's primes"), "{error}"),
                }
            }
            for shard in &shards {
                let keys = self.keys(&**shard);
                assert!(matches!(
                    shard.answer(&self.batch(party, keys.as_ref())),
                    Err(ProtocolError::Backend(_))
                ));
            }
            assert!(shards[0].partial(&batch[..0]).is_err());
            assert!(shards[0].combine(&batch[..0], &parsed(right)).is_err());
            let mut reversed = self.shards(backend, opening, 2);
            reversed.reverse();
            assert!(Sharded::new(reversed).is_err() && Sharded::new(Vec::new()).is_err());
        }
    }
}

fn parsed(partials: Vec<Vec<u8>>) -> Vec<Partial> {
    partials.into_iter().map(|bytes| Partial::from_bytes(bytes).unwrap()).collect()
}

/// Returns the bytes with one bit flipped.
fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

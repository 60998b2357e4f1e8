//! Fetches from the bins of a table with one server or two, through the bytes of requests and
//! responses.

use std::collections::BTreeSet;

use spirea_protocols::table::Fetched;

use super::*;
use crate::PendingFetch;

/// All servers of a table, without a transport.
struct Servers {
    description: Description,
    responders: Vec<Box<dyn Responder>>,
}

/// Lengths that cross the wire in a fetch: of requests, then of responses.
type Lengths = Vec<usize>;

impl Servers {
    fn of(protocol: &str, bins: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let choice = Choice { protocol: protocol.into(), bins, ..Choice::default() };
        let snapshot = snapshot(choice, folder.path());
        let params = &snapshot.manifest().protocol;
        let open = |opening| params.on().open(&BACKEND, snapshot.files(), opening).unwrap();
        let responders = params.openings(Residence::Copied).into_iter().map(open).collect();
        // Description that both parties have in common.
        let party = (params.parties > 1).then_some(0);
        let config = Config { party, ..config(&part(&snapshot), VERSION) };
        Self { description: describe(&config), responders }
    }

    fn session(&self) -> Session {
        Session::new(self.description.clone(), &[no_hint(&self.description)]).unwrap()
    }

    /// Fetches rows; `change` is applied to the first server's answer.
    fn fetch(
        &self,
        rows: &[u64],
        change: impl Fn(&mut [u8]),
    ) -> (Lengths, Result<Vec<Fetched<Value>>, ClientError>) {
        let mut session = self.session();
        let (lengths, fetched) = self.fetch_in(&mut session, rows, change);
        // A refusal ends the keys.
        assert_eq!(session.needs_keys(), fetched.is_err() && self.registers());
        (lengths, fetched)
    }

    fn registers(&self) -> bool {
        self.description.base().params().sizes.keys_bytes > 0
    }

    fn fetch_in(
        &self,
        session: &mut Session,
        rows: &[u64],
        change: impl Fn(&mut [u8]),
    ) -> (Lengths, Result<Vec<Fetched<Value>>, ClientError>) {
        let keys = session.keys().first().map(|keys| keys.bytes().to_vec());
        let keys = keys.map(|keys| self.responders[0].prepare_keys(&keys).unwrap());
        let mut fetch = session.fetch_indices(rows).unwrap();
        let round = fetch.ask(session).unwrap();
        let mut lengths: Lengths = round.requests.iter().map(Vec::len).collect();
        let respond = |(party, request): (usize, &Vec<u8>)| {
            let request = Request::decode(request.clone().into(), &self.description.limits()).unwrap();
            assert_eq!((request.base.queries.len(), request.delta), (PendingFetch::QUERIES, None));
            let query = Query { bytes: &request.base.queries[0], keys: keys.as_ref() };
            let mut answer = self.responders[party].answer(&[query]).unwrap().remove(0);
            if party == 0 {
                change(&mut answer);
            }
            response(answer, VERSION, VERSION)
        };
        let responses: Vec<Bytes> = round.requests.iter().enumerate().map(respond).collect();
        lengths.extend(responses.iter().map(Bytes::len));
        let read = |response| session.read(PendingFetch::QUERIES, response);
        let responses = responses.into_iter().map(read).collect();
        assert!(!fetch.is_complete());
        fetch.answer(session, round.pending, responses);
        assert!(fetch.is_complete());
        (lengths, fetch.finish(Ok(())))
    }

    fn brought(&self, rows: &[u64]) -> Vec<Fetched<Vec<u8>>> {
        let fields = |fetched| match fetched {
            Fetched::Value(value) => Fetched::Value(Value::into_fields(value).concat()),
            Fetched::Absent => Fetched::Absent,
            Fetched::Dropped => Fetched::Dropped,
        };
        self.fetch(rows, |_| ()).1.unwrap().into_iter().map(fields).collect()
    }
}

#[test]
fn a_query_brings_a_value_of_each_bin_and_says_what_it_drops() {
    let [five, one] = [5, 1].map(|bins| Servers::of("dpf-xor", bins));
    let value = |row| Fetched::Value(value(row));
    let found = five.brought(&[3, 4, 0, 19, 3, 5]);
    assert_eq!(found, [value(3), value(4), Fetched::Dropped, value(19), value(3), Fetched::Dropped]);
    for first in 0..4 {
        let rows: Vec<u64> = (0..5).map(|bin| 4 * bin + first).collect();
        assert_eq!(five.brought(&rows), rows.iter().map(|&row| value(row)).collect::<Vec<_>>());
    }
    assert_eq!(one.brought(&[7, 8, 7]), [value(7), Fetched::Dropped, value(7)]);
    let mut session = five.session();
    let fetch = session.fetch_indices(&[ROWS]).unwrap();
    assert!(matches!(fetch.ask(&session), Err(ClientError::Protocol(ProtocolError::BadRequest(_)))));
    let fetch = session.fetch_keys(&[b"key"]).unwrap();
    assert!(matches!(fetch.ask(&session), Err(ClientError::Protocol(ProtocolError::BadRequest(_)))));
}

/// Runs a thousand fetches of random rows, about half of them of no rows, the others of up to
/// `ROWS` + 4.
#[test]
fn whatever_is_fetched_has_requests_and_responses_of_one_length() {
    let (pair, mut rng) = (Servers::of("dpf-xor", 5), SecretRng::from_os().unwrap());
    let mut seen = BTreeSet::new();
    for _ in 0..1000 {
        let count = rng.next_u64() % 2 * (rng.next_u64() % (ROWS + 5));
        let rows: Vec<u64> = (0..count).map(|_| rng.next_u64() % ROWS).collect();
        let (lengths, found) = pair.fetch(&rows, |_| ());
        assert_eq!(found.unwrap().len(), rows.len());
        seen.insert(lengths);
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[test]
fn a_lie_is_refused_whether_or_not_anything_is_wanted_of_its_bin() {
    let pair = Servers::of("dpf-xor", 5);
    let each = pair.description.base().params().sizes.answer_bytes / 5;
    for bin in 0..5 {
        for rows in [&[][..], &[0], &[17], &[1, 5, 9, 13, 17]] {
            let (_, found) = pair.fetch(rows, |answer| answer[bin * each] ^= 1);
            let error = found.unwrap_err();
            assert!(matches!(error, ClientError::Protocol(ProtocolError::Corrupted)), "{error:?}");
        }
    }
}

/// Checks that one query returns a value of each bin. Also checks that a changed answer is refused,
/// whatever is wanted, because all bins share the answer.
#[test]
fn one_server_with_registered_keys_is_fetched_from() {
    let server = Servers::of("exppack-simple", 5);
    let bins = server.session().base.client().index().bins();
    let [one, same] = [3, 4].map(|turn| bins.record(1, turn));
    let wanted = [one, bins.record(0, 0), same, bins.record(4, 2), one];
    let value = |row| Fetched::Value(value(row));
    let expected = [value(one), value(wanted[1]), Fetched::Dropped, value(wanted[3]), value(one)];
    assert_eq!(server.brought(&wanted), expected);
    let lengths: BTreeSet<Lengths> =
        [&[][..], &[7], &wanted].map(|rows| server.fetch(rows, |_| ()).0).into_iter().collect();
    assert_eq!(lengths.len(), 1, "{lengths:?}");
    for rows in [&[][..], &[7], &wanted] {
        let (_, found) = server.fetch(rows, |answer| answer.iter_mut().for_each(|byte| *byte ^= 0x55));
        let error = found.unwrap_err();
        assert!(matches!(error, ClientError::Protocol(ProtocolError::Corrupted)), "{error:?}");
    }
}

#[test]
fn a_version_with_a_delta_is_not_fetched_from() {
    let mut session = Servers::of("dpf-xor", 5).session();
    session.delta = Some(Arc::clone(&session.base));
    let fetch = session.fetch_indices(&[1]).unwrap();
    let error = fetch.ask(&session).err().unwrap();
    assert!(error.to_string().contains("has a delta"), "{error}");
}

//! A lying server that searches for the ring secret: it adds to one coefficient of an honest
//! answer, and sees whether the client accepted the result.

use std::collections::HashSet;

use spirea_lattice::RingSet;
use spirea_protocols::Prepared;
use spirea_protocols::grid::Spread;

use super::*;

/// Number of changed answers; each targets another entry of the secret.
const TRIES: usize = 300;
/// The row that is asked for.
const ROW: u64 = 7;
/// The ring.
const SET: RingSet = RingSet::Onion32;
/// Number of coefficients of a polynomial.
const N: usize = RingSet::DEGREE;

/// Adds `amount` to the number of `bits` bits that begins at bit `start` of `bytes`, lowest bit
/// first.
fn add(bytes: &mut [u8], start: usize, bits: u32, amount: i64) {
    let places = (start..start + bits as usize).map(|i| (i / 8, i % 8));
    let number = places
        .clone()
        .rev()
        .fold(0, |number, (byte, shift)| number << 1 | i64::from(bytes[byte] >> shift & 1));
    let sum = number + amount;
    for (i, (byte, shift)) in places.enumerate() {
        bytes[byte] = bytes[byte] & !(1 << shift) | ((sum >> i & 1) as u8) << shift;
    }
}

fn add_to_a(ciphertext: &mut [u8], coefficient: usize, amount: i64) {
    let (a, _) = SET.response_bits();
    add(ciphertext, coefficient * a as usize, a, amount);
}

fn add_to_b(ciphertext: &mut [u8], coefficient: usize, amount: i64) {
    let (a, b) = SET.response_bits();
    add(ciphertext, N * a as usize + coefficient * b as usize, b, amount);
}

/// Returns the entries of the session's ring secret, which are the phases of the ciphertext (1, 0).
fn secret(session: &Session) -> Vec<i64> {
    let index = session.base.client.index();
    let Prepared { state, .. } = index.query(0, &mut SecretRng::from_os().unwrap()).unwrap();
    let mut answer = vec![0; index.sizes().answer_bytes];
    add_to_a(&mut answer, 0, 1);
    let errors = index.errors(&*state, &[&answer]).unwrap();
    let half_step = f64::from(1 << (SET.response_bits().0 - SET.plaintext_bits() - 1));
    errors[..N].iter().map(|share| (share * half_step) as i64).collect()
}

/// Changes an honest answer as the attacker does: one number of the record becomes its neighbour
/// exactly if the entry of the secret is not 0.
///
/// This attacker knows all other entries. With them, it compensates the effects of the change on
/// all other numbers.
fn tamper(answer: &mut [u8], number: usize, entry: usize, secret: &[i64]) {
    let (a, b) = SET.response_bits();
    let [step_of_a, step_of_b] = [a, b].map(|bits| 1 << (bits - SET.plaintext_bits()));
    // X^N = -1.
    let (coefficient, sign) = if entry <= number { (number - entry, 1) } else { (N + number - entry, -1) };
    add_to_a(answer, coefficient, step_of_a * sign);
    for other in (0..N).filter(|&other| other != number) {
        let moved = match other.checked_sub(coefficient) {
            Some(i) => secret[i],
            None => -secret[N + other - coefficient],
        };
        add_to_b(answer, other, -step_of_b * sign * moved);
    }
}

#[test]
fn a_server_that_sees_which_answers_are_refused_learns_one_bit_of_each_secret_and_no_secret() {
    let mut server = Server::of("onion");
    let mut session = server.session();
    assert_eq!(session.description().params().set, SET.name());
    let offset = session.description().params().grid.place(Spread::Rows, ROW).offset;
    // First number whose bytes are all in the record.
    let number = offset.div_ceil(SET.plaintext_bits() as usize / 8);
    let mut secrets: HashMap<KeysHash, Vec<i64>> = HashMap::new();
    let mut seen = Vec::new();
    let mut refusals = 0;
    for entry in 0..TRIES {
        let rows = [ROW];
        let mut look_up = session.look_up_indices(&rows).unwrap();
        let keys = named(&session);
        let known = secrets.entry(keys).or_insert_with(|| {
            server.register_keys(&session);
            secret(&session)
        });
        let round = look_up.ask(&session).unwrap();
        let mut answer = server.answer(&server.read(&round.requests[0])).unwrap();
        tamper(&mut answer, number, entry, known);
        let response = session.read(1, server.respond(answer)).map(|response| vec![response]);
        look_up.answer(round.pending, response);
        let result = look_up.finish(Ok(()));

        // The attack itself works: the client accepts the answer exactly if the entry is 0.
        match known[entry] {
            0 => assert_eq!(result.unwrap()[0].as_ref().unwrap().fields(), [value(ROW)]),
            _ => assert!(matches!(result, Err(ClientError::Protocol(ProtocolError::Corrupted)))),
        }
        // After a refusal the client discards the secret before it sends anything else.
        assert_eq!(secret(&session) == *known, known[entry] == 0);
        // The server sees a refusal only by the client's change of keys, and the new keys were
        // never used before.
        session.look_up_indices(&rows).unwrap();
        let refused = named(&session) != keys;
        assert_eq!(refused, known[entry] != 0);
        assert!(!refused || !secrets.contains_key(&named(&session)), "keys come back");
        seen.push(refused);
        refusals += usize::from(refused);
    }
    let different: HashSet<&Vec<i64>> = secrets.values().collect();
    assert_eq!(different.len(), refusals + usize::from(!seen[TRIES - 1]), "one secret for each refusal");
    // By chance, an answer is refused with probability 2/3, and an entry is not 0 with probability
    // 2/3. So refusals agree with the entries of an unrelated secret with probability 5/9.
    for secret in different {
        let agree = seen.iter().zip(secret).filter(|&(&refused, &entry)| refused == (entry != 0)).count();
        assert!(agree < TRIES * 3 / 4, "{agree} of {TRIES} entries of one secret");
    }
}

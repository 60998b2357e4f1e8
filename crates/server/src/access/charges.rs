//! Recent charges, remembered so that a retry is not charged again.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Token;
use super::quota::Exceeded;
use crate::refused::Refused;

/// Limits for remembered charges: their age and their number.
const MEMORY_TIME: Duration = Duration::from_secs(10 * 60);
const MEMORY_REQUESTS: usize = 1 << 16;
/// Number of free retries of a charged request. Clients make fewer retries than that.
const FREE_RETRIES: u32 = 16;

/// Random id that a client gives to a request. Retries of the request have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId([u8; 32]);

impl RequestId {
    /// Reads 32 hexadecimal digits.
    pub fn parse(text: &[u8]) -> Result<Self, Refused> {
        let digits: Option<[u8; 32]> = text.try_into().ok();
        digits
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .map(|digits| Self(digits.map(|digit| digit.to_ascii_lowercase())))
            .ok_or_else(Refused::wrong_request_id)
    }
}

/// A remembered request: a hash of its token's name, its id and its bytes. A different request
/// under an old id is therefore charged.
type Fingerprint = [u8; 32];

#[derive(Default)]
struct Memory {
    retries: HashMap<Fingerprint, u32>,
    /// The charges with their times, oldest first.
    order: VecDeque<(Instant, Fingerprint)>,
}

impl Memory {
    /// Returns true if the request has been charged and has free retries left; counts this retry.
    fn knows(&mut self, request: &Fingerprint) -> bool {
        let Some(retries) = self.retries.get_mut(request) else { return false };
        *retries += 1;
        *retries <= FREE_RETRIES
    }

    fn remember(&mut self, request: Fingerprint, now: Instant) {
        let outdated =
            |oldest: &(Instant, Fingerprint)| now.saturating_duration_since(oldest.0) > MEMORY_TIME;
        while self.order.len() >= MEMORY_REQUESTS || self.order.front().is_some_and(outdated) {
            if let Some((_, oldest)) = self.order.pop_front() {
                self.retries.remove(&oldest);
            }
        }
        self.retries.insert(request, 0);
        self.order.push_back((now, request));
    }

    fn forget(&mut self, request: &Fingerprint) {
        self.retries.remove(request);
        // A refused request was charged a moment ago, so its entry is near the end.
        if let Some(place) = self.order.iter().rposition(|(_, remembered)| remembered == request) {
            self.order.remove(place);
        }
    }
}

/// Recent charges of a server.
#[derive(Default)]
pub(crate) struct Charges(Mutex<Memory>);

impl Charges {
    pub fn charge<'a>(
        &'a self,
        token: &'a Token,
        id: Option<RequestId>,
        body: &[u8],
        queries: u64,
        now: Instant,
    ) -> Result<Charge<'a>, Refused> {
        let Some(quota) = token.usage.quota else { return Ok(Charge::nothing()) };
        let request = id.map(|id| {
            let mut hasher = blake3::Hasher::new_derive_key("spirea 2026 request that was charged");
            hasher.update(blake3::hash(token.name.as_bytes()).as_bytes()).update(&id.0).update(body);
            *hasher.finalize().as_bytes()
        });
        let mut memory = self.0.lock();
        if request.is_some_and(|request| memory.knows(&request)) {
            return Ok(Charge::nothing());
        }
        token.usage.window.lock().take(quota, queries, now).map_err(|exceeded| match exceeded {
            Exceeded::Never => Refused::above_quota(quota),
            Exceeded::For(time) => Refused::quota_used_up(quota, time),
        })?;
        if let Some(request) = request {
            memory.remember(request, now);
        }
        Ok(Charge(Some(Taken { charges: self, token, request, queries, at: now })))
    }
}

struct Taken<'a> {
    charges: &'a Charges,
    token: &'a Token,
    request: Option<Fingerprint>,
    queries: u64,
    at: Instant,
}

/// Part of a quota that was taken for one request. Dropping this value gives the part back, unless
/// the request was accepted.
#[must_use = "a charge that is dropped is given back"]
pub(crate) struct Charge<'a>(Option<Taken<'a>>);

impl Charge<'_> {
    pub fn nothing() -> Self {
        Self(None)
    }

    /// Keeps the charge: the request was accepted.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        let Some(Taken { charges, token, request, queries, at }) = self.0.take() else { return };
        token.usage.window.lock().give_back(queries, at);
        if let Some(request) = request {
            charges.0.lock().forget(&request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Scope, tokens};

    fn token(quota: &str) -> Token {
        tokens::token_for_tests("phones", &[Scope::Query], Some(quota.parse().unwrap()))
    }

    fn id(digit: u8) -> Option<RequestId> {
        Some(RequestId::parse(&[digit; 32]).unwrap())
    }

    #[test]
    fn a_retry_costs_nothing_and_anything_else_does() {
        let (charges, token, now) = (Charges::default(), token("3/day"), Instant::now());
        let charge = |id, body: &[u8]| charges.charge(&token, id, body, 1, now).map(Charge::keep).is_ok();
        assert!(charge(id(b'a'), b"first"));
        for _ in 0..FREE_RETRIES {
            assert!(charge(id(b'A'), b"first"));
        }
        // Further repetitions are charged, and so is another body under this id.
        assert!(charge(id(b'a'), b"first"));
        assert!(charge(id(b'a'), b"second"));
        assert!(!charge(id(b'b'), b"first"));
        assert!(!charge(None, b"first"));
        assert!(charge(id(b'a'), b"second"), "the retry of what was charged, with the quota used up");
    }

    #[test]
    fn what_was_not_accepted_is_given_back() {
        let (charges, token, now) = (Charges::default(), token("1/day"), Instant::now());
        for _ in 0..5 {
            drop(charges.charge(&token, id(b'a'), b"refused", 1, now).unwrap());
        }
        assert!(charges.0.lock().order.is_empty());
        charges.charge(&token, id(b'a'), b"refused", 1, now).unwrap().keep();
        assert!(charges.charge(&token, None, b"another", 1, now).is_err());
    }

    #[test]
    fn memory_is_bounded_in_number_and_time() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        let request = |number: usize| *blake3::hash(&number.to_le_bytes()).as_bytes();
        for number in 0..MEMORY_REQUESTS + 10 {
            memory.remember(request(number), start);
        }
        assert_eq!((memory.order.len(), memory.retries.len()), (MEMORY_REQUESTS, MEMORY_REQUESTS));
        assert!(!memory.knows(&request(9)) && memory.knows(&request(10)));
        memory.remember(request(0), start + MEMORY_TIME + Duration::from_secs(1));
        assert_eq!((memory.order.len(), memory.retries.len()), (1, 1));
    }
}

use spirea_wire::{Response, Version};

use crate::wanted::Wanted;
use crate::{Answered, ClientError, Pending, Round, Session, Value};

/// An operation of an application: a look-up or a fetch.
pub(crate) trait Asking {
    /// State of a round of requests until its answers come.
    type Pending;

    /// Returns true if nothing is left to ask for.
    fn is_complete(&self) -> bool {
        let (answered, all) = self.answered();
        answered == all
    }

    /// Returns the number of answered values, right or wrong, and of all values; an operation whose
    /// answers come all at once counts as one value.
    fn answered(&self) -> (usize, usize);

    /// Returns the next requests. Until their answers have come, each call returns fresh requests
    /// for the same values.
    ///
    /// # Errors
    /// Those of making queries.
    fn ask(&self, session: &Session) -> Result<Round<Self::Pending>, ClientError>;

    /// Returns the number of queries in a round's request.
    fn count(pending: &Self::Pending) -> usize;

    /// Accepts the responses to the requests that were returned with `pending`.
    fn answer(
        &mut self,
        session: &Session,
        pending: Self::Pending,
        responses: Result<Vec<Response>, ClientError>,
    );
}

/// Bytes of waiting answers above which they are decoded early, if they belong to at least
/// [`LEAST_TOGETHER`] look-ups.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Minimum number of look-ups whose answers are decoded before the last one has come. The client
/// fixes this number. If a server could choose a smaller number, the client would decode only a few
/// answers between two requests, and the time between these requests would reveal something about
/// those answers.
const LEAST_TOGETHER: usize = 16;

/// A look-up of any number of values, in one or several requests.
///
/// The number of requests, their lengths and times, and the keys that they name depend on what is
/// looked up, never on an answer. Answers are decoded once the last has come, or once 16 look-ups
/// and 64 MiB are waiting. So the time between two requests does not show how long a single answer
/// takes to decode, however few look-ups a server accepts in a request.
///
/// An answer that does not verify ends the session's keys, and the whole look-up is an error. A
/// server that changed answers learns from the next look-up, which has new keys, that an answer of
/// this look-up was refused. The caller makes all requests, and stops only if a server refuses to
/// answer, which tells the server nothing.
///
/// The look-up may continue in another session, with another version of the database.
pub struct LookUp<'a> {
    wanted: Wanted<'a>,
    /// For each look-up answered so far, right or wrong, the version that answered.
    versions: Vec<Version>,
    /// Undecoded rounds, in order, each with its responses or the reason why a response was
    /// refused.
    rounds: Vec<(Pending, Result<Vec<Response>, ClientError>)>,
    /// Bytes of the answers in `rounds`.
    waiting_bytes: usize,
    /// Number of look-ups in `rounds`.
    waiting: usize,
    /// Results of the decoded rounds, in order.
    decoded: Vec<Result<Answered, ClientError>>,
}

impl<'a> LookUp<'a> {
    pub(crate) fn new(wanted: Wanted<'a>) -> Self {
        Self {
            wanted,
            versions: Vec::new(),
            rounds: Vec::new(),
            waiting_bytes: 0,
            waiting: 0,
            decoded: Vec::new(),
        }
    }

    /// Returns true if nothing is left to ask for.
    pub fn is_complete(&self) -> bool {
        self.versions.len() == self.wanted.len()
    }

    /// Returns the versions of the database that answered each look-up so far, in the order of the
    /// request.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Returns the next requests; their answers go to [`LookUp::answer`]. Until then, each call
    /// returns fresh requests for the same values.
    ///
    /// # Errors
    /// See [`Session::query_keys`] and [`Session::query_indices`].
    pub fn ask(&self, session: &Session) -> Result<Round, ClientError> {
        session.round(self.wanted.part(self.versions.len(), session.max_batch()))
    }

    /// Keeps the responses of all servers, in the order of their parties, to the requests that were
    /// returned with `pending`; or the reason why [`Session::read`] refused a response.
    /// [`LookUp::finish`] decodes them.
    pub fn answer(&mut self, pending: Pending, responses: Result<Vec<Response>, ClientError>) {
        self.versions.extend(std::iter::repeat_n(*pending.version(), pending.count()));
        self.waiting += pending.count();
        self.waiting_bytes += responses.iter().flatten().map(Response::answer_bytes).sum::<usize>();
        self.rounds.push((pending, responses));
        if self.waiting_bytes >= MAX_WAITING_BYTES && self.waiting >= LEAST_TOGETHER {
            self.decode();
        }
    }

    fn decode(&mut self) {
        (self.waiting, self.waiting_bytes) = (0, 0);
        // All rounds are decoded, even if the first fails: any answer that does not verify ends the
        // keys.
        let decode = |(pending, responses): (Pending, Result<Vec<Response>, ClientError>)| {
            responses.and_then(|responses| pending.decode(&responses))
        };
        self.decoded.extend(self.rounds.drain(..).map(decode));
    }

    /// Decodes the answers: returns the values, in the order of the request, if every answer
    /// arrived and verified; otherwise an error, possibly that in `asked`.
    ///
    /// # Errors
    /// The error of the first wrong answer; otherwise that of `asked`.
    ///
    /// # Panics
    /// If answers are missing although `asked` is `Ok`.
    pub fn finish(mut self, asked: Result<(), ClientError>) -> Result<Vec<Option<Value>>, ClientError> {
        self.decode();
        let (values, failures): (Vec<_>, Vec<_>) = self.decoded.into_iter().partition(Result::is_ok);
        let mut failures: Vec<ClientError> = failures.into_iter().filter_map(Result::err).collect();
        // An unreadable answer has also ended the keys of earlier answers, so it is the cause.
        failures.sort_by_key(|failure| matches!(failure, ClientError::KeysEnded));
        if let Some(failure) = failures.into_iter().next() {
            return Err(failure);
        }
        asked?;
        assert_eq!(self.versions.len(), self.wanted.len(), "all answers are there");
        Ok(values.into_iter().flatten().flat_map(|answered| answered.values).collect())
    }
}

impl Asking for LookUp<'_> {
    type Pending = Pending;

    fn answered(&self) -> (usize, usize) {
        (self.versions.len(), self.wanted.len())
    }

    fn ask(&self, session: &Session) -> Result<Round, ClientError> {
        self.ask(session)
    }

    fn count(pending: &Pending) -> usize {
        pending.count()
    }

    fn answer(&mut self, _: &Session, pending: Pending, responses: Result<Vec<Response>, ClientError>) {
        self.answer(pending, responses);
    }
}

impl Session {
    /// Returns the number of look-ups in a part of a list: those of one request or, if these are
    /// too few, of the fewest full requests with at least [`LEAST_TOGETHER`] look-ups.
    pub(crate) fn part_len(&self) -> usize {
        let most = self.max_batch();
        most * LEAST_TOGETHER.div_ceil(most)
    }

    /// Begins a look-up of the values of any number of keys.
    ///
    /// # Errors
    /// [`ClientError::NoEntropy`] if the system gives no randomness for new keys.
    pub fn look_up_keys<'a>(&mut self, keys: &'a [&'a [u8]]) -> Result<LookUp<'a>, ClientError> {
        self.renew_keys()?;
        Ok(LookUp::new(Wanted::Keys(keys)))
    }

    /// Begins a look-up of the values at any number of indices.
    ///
    /// # Errors
    /// Those of [`Session::look_up_keys`].
    pub fn look_up_indices<'a>(&mut self, indices: &'a [u64]) -> Result<LookUp<'a>, ClientError> {
        self.renew_keys()?;
        Ok(LookUp::new(Wanted::Indices(indices)))
    }
}

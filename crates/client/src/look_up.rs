use spirea_wire::{Response, Version};

use crate::wanted::Wanted;
use crate::{Answered, ClientError, Pending, Round, Session, Value};

/// What an application asks for at once.
pub(crate) trait Asking {
    /// What a round of requests leaves until its answers come.
    type Pending;

    /// Whether there is no more to ask for.
    fn is_complete(&self) -> bool {
        let (answered, all) = self.answered();
        answered == all
    }

    /// How many values have been answered, well or not, and of how many; of what is answered at once, 0 or 1 of 1.
    fn answered(&self) -> (usize, usize);

    /// The next requests. Until their answers are there it gives new ones for the same.
    ///
    /// # Errors
    /// Those of making queries.
    fn ask(&self, session: &Session) -> Result<Round<Self::Pending>, ClientError>;

    /// Queries of a round's request.
    fn count(pending: &Self::Pending) -> usize;

    /// Takes what came of the requests that left `pending`.
    fn answer(
        &mut self,
        session: &Session,
        pending: Self::Pending,
        responses: Result<Vec<Response>, ClientError>,
    );
}

/// Bytes of answers above which they are decoded before the last one has come, if they are those of enough look-ups.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Fewest look-ups whose answers are decoded before the last one has come. A constant of the client, so that no server chooses
/// how few answers the time between two requests tells of.
const LEAST_TOGETHER: usize = 16;

/// Everything that an application asks for at once, in as many requests as it takes.
///
/// The number of requests, their lengths and times, and the keys that they name follow from what is asked for, and from no
/// answer. Answers are decoded when the last has come, or those of 16 look-ups and 64 MiB: the time between two requests does
/// not show how long one answer takes to decode, however few look-ups a server takes in a request.
///
/// An answer that does not verify ends the session's keys, and the whole look-up is an error. A server that changed answers
/// learns from the next look-up, which has new keys, that an answer of this look-up was refused. The caller makes all requests,
/// and stops only if a server refuses to answer, which tells the server nothing.
///
/// The look-up may go on with another session in between, one with another version of the database.
pub struct LookUp<'a> {
    wanted: Wanted<'a>,
    /// The version that answered each look-up, well or not, as far as they have been asked.
    versions: Vec<Version>,
    /// Rounds that are not decoded yet, in order, each with its responses or the reason for refusing one.
    rounds: Vec<(Pending, Result<Vec<Response>, ClientError>)>,
    /// Bytes of the answers in `rounds`.
    waiting_bytes: usize,
    /// Look-ups in `rounds`.
    waiting: usize,
    /// Results of the rounds that are decoded, in order.
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

    /// Whether there is no more to ask for.
    pub fn is_complete(&self) -> bool {
        self.versions.len() == self.wanted.len()
    }

    /// The version of the database that answered each look-up so far, in the order asked for.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// The next requests, of which the answers go to [`LookUp::answer`]. Until then it gives new ones for the same.
    ///
    /// # Errors
    /// See [`Session::query_keys`] and [`Session::query_indices`].
    pub fn ask(&self, session: &Session) -> Result<Round, ClientError> {
        session.round(self.wanted.part(self.versions.len(), session.max_batch()))
    }

    /// Keeps what came of the requests that left `pending`: the responses of all servers, in the order of their parties,
    /// or why [`Session::read`] refused one. [`LookUp::finish`] decodes them.
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
        // All of them, whatever comes of the first: one that does not verify ends the keys.
        let decode = |(pending, responses): (Pending, Result<Vec<Response>, ClientError>)| {
            responses.and_then(|responses| pending.decode(&responses))
        };
        self.decoded.extend(self.rounds.drain(..).map(decode));
    }

    /// Decodes the answers: the values, in the order asked for, if all answers were right, and if all were had: `asked`
    /// says why they were not.
    ///
    /// # Errors
    /// What was wrong with the first answer that was; else that of `asked`.
    ///
    /// # Panics
    /// If answers are missing, and `asked` does not say why.
    pub fn finish(mut self, asked: Result<(), ClientError>) -> Result<Vec<Option<Value>>, ClientError> {
        self.decode();
        let (values, failures): (Vec<_>, Vec<_>) = self.decoded.into_iter().partition(Result::is_ok);
        let mut failures: Vec<ClientError> = failures.into_iter().filter_map(Result::err).collect();
        // An answer that could not be read has ended the keys of those before it, too: it is the cause.
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
    /// Look-ups in a part of a list: those of one request, or of as many as it takes to have [`LEAST_TOGETHER`].
    pub(crate) fn part_len(&self) -> usize {
        let most = self.max_batch();
        most * LEAST_TOGETHER.div_ceil(most)
    }

    /// Begins a look-up of the values of keys, however many.
    ///
    /// # Errors
    /// [`ClientError::NoEntropy`] if the system gives no randomness for new keys.
    pub fn look_up_keys<'a>(&mut self, keys: &'a [&'a [u8]]) -> Result<LookUp<'a>, ClientError> {
        self.renew_keys()?;
        Ok(LookUp::new(Wanted::Keys(keys)))
    }

    /// Begins a look-up of the values at indices, however many.
    ///
    /// # Errors
    /// Those of [`Session::look_up_keys`].
    pub fn look_up_indices<'a>(&mut self, indices: &'a [u64]) -> Result<LookUp<'a>, ClientError> {
        self.renew_keys()?;
        Ok(LookUp::new(Wanted::Indices(indices)))
    }
}

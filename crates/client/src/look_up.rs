use spirea_wire::Response;

use crate::wanted::Wanted;
use crate::{ClientError, Pending, Round, Session, Value};

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

/// Everything that an application asks for at once, in as many requests as it takes.
///
/// How many requests these are, how long, and which keys they name follows from what is asked for, and from no answer.
/// One that does not verify ends the session's keys: what is left is asked for under a secret that nobody knows, its
/// answers are thrown away, and then the whole look-up is an error. A server that changed answers learns from the next
/// look-up, which has new keys, that one of this look-up was refused. Whoever makes requests asks for all of them, and
/// leaves off only where a server refuses to answer, which is nothing that it learns.
///
/// It may go on with another session in between, one with another version of the database.
pub struct LookUp<'a> {
    wanted: Wanted<'a>,
    /// How many of them have been asked for and answered, well or not.
    answered: usize,
    values: Vec<Option<Value>>,
    /// What was wrong first.
    failure: Option<ClientError>,
}

impl<'a> LookUp<'a> {
    pub(crate) fn new(wanted: Wanted<'a>) -> Self {
        Self { wanted, answered: 0, values: Vec::new(), failure: None }
    }

    /// Whether there is no more to ask for.
    pub fn is_complete(&self) -> bool {
        self.answered == self.wanted.len()
    }

    /// The next requests, of which the answers go to [`LookUp::answer`]. Until then it gives new ones for the same.
    ///
    /// # Errors
    /// See [`Session::query_keys`] and [`Session::query_indices`].
    pub fn ask(&self, session: &Session) -> Result<Round, ClientError> {
        session.round(self.wanted.part(self.answered, session.max_batch()))
    }

    /// Takes what came of the requests that left `pending`: the responses of all servers, in the order of their parties,
    /// or why [`Session::read`] refused one. Where they are not right, [`LookUp::finish`] says so, and not before.
    pub fn answer(
        &mut self,
        session: &Session,
        pending: Pending,
        responses: Result<Vec<Response>, ClientError>,
    ) {
        self.answered += pending.count();
        let values = responses.and_then(|responses| session.decode(pending, &responses));
        match (values, &self.failure) {
            (Ok(answered), None) => self.values.extend(answered.values),
            (Err(failure), None) => self.failure = Some(failure),
            (_, Some(_)) => (),
        }
    }

    /// The values, in the order asked for, if all answers were right, and if all were had: `asked` says why they were
    /// not.
    ///
    /// # Errors
    /// What was wrong with the first answer that was; else that of `asked`.
    ///
    /// # Panics
    /// If answers are missing, and `asked` does not say why.
    pub fn finish(self, asked: Result<(), ClientError>) -> Result<Vec<Option<Value>>, ClientError> {
        match (self.failure, asked) {
            (Some(failure), _) | (None, Err(failure)) => Err(failure),
            (None, Ok(())) => {
                assert_eq!(self.answered, self.wanted.len(), "all answers are there");
                Ok(self.values)
            }
        }
    }
}

impl Asking for LookUp<'_> {
    type Pending = Pending;

    fn answered(&self) -> (usize, usize) {
        (self.answered, self.wanted.len())
    }

    fn ask(&self, session: &Session) -> Result<Round, ClientError> {
        self.ask(session)
    }

    fn count(pending: &Pending) -> usize {
        pending.count()
    }

    fn answer(&mut self, session: &Session, pending: Pending, responses: Result<Vec<Response>, ClientError>) {
        self.answer(session, pending, responses);
    }
}

impl Session {
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

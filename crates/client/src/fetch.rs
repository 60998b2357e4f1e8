use std::sync::Arc;

use bytes::Bytes;
use spirea_math::random::SecretRng;
use spirea_protocols::ProtocolError;
use spirea_protocols::table::{FetchState, Fetched};
use spirea_wire::{Queries, Request, Response};

use crate::forms::{KeyInForm, in_form};
use crate::look_up::Asking;
use crate::session::{Asker, Round, settle};
use crate::wanted::{KEY_IS_NEWER, Wanted};
use crate::{ClientError, Session, Value};

/// A fetch of several values with one query: one value of each bin of the table.
///
/// A fetch is always one request with one query, even for an empty list, so servers see nothing of
/// the wanted values or their number. If several values of the list lie in one bin, all but the
/// first are dropped, and the result says so.
pub struct Fetch<'a> {
    wanted: Wanted<'a>,
    /// The results, or the error of the answers.
    outcome: Option<Result<Vec<Fetched<Value>>, ClientError>>,
}

/// State of a fetch until its answers come.
pub struct PendingFetch {
    base: Arc<Asker>,
    state: FetchState,
    /// For each key, true if its form is known for certain; empty for indices.
    known: Vec<bool>,
}

impl PendingFetch {
    /// Number of queries in the request, for [`Session::read`].
    pub const QUERIES: usize = 1;
}

impl<'a> Fetch<'a> {
    fn new(wanted: Wanted<'a>) -> Self {
        Self { wanted, outcome: None }
    }

    /// Returns true once answers have come, right or wrong.
    pub fn is_complete(&self) -> bool {
        self.outcome.is_some()
    }

    /// Returns the requests; their answers go to [`Fetch::answer`]. Until then, each call returns
    /// fresh requests for the same values.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is not looked up in this way (by key or by index), if
    /// it has no such index, or if the version has a delta; [`ClientError::NoEntropy`] if the
    /// system gives no randomness.
    pub fn ask(&self, session: &Session) -> Result<Round<PendingFetch>, ClientError> {
        session.fetch_round(self.wanted)
    }

    /// Accepts the responses to the requests that were returned with `pending`, as
    /// [`LookUp::answer`](crate::LookUp::answer) does.
    pub fn answer(
        &mut self,
        session: &Session,
        pending: PendingFetch,
        responses: Result<Vec<Response>, ClientError>,
    ) {
        self.outcome = Some(responses.and_then(|responses| session.decode_fetch(pending, &responses)));
    }

    /// Returns the results, in the order of the request, if everything was answered correctly;
    /// otherwise an error, possibly that in `asked`.
    ///
    /// # Errors
    /// The error of the answers; otherwise that of `asked`.
    ///
    /// # Panics
    /// If there were no answers although `asked` is `Ok`.
    pub fn finish(self, asked: Result<(), ClientError>) -> Result<Vec<Fetched<Value>>, ClientError> {
        match (self.outcome, asked) {
            (Some(outcome), Ok(())) => outcome,
            (Some(Err(failure)), _) | (_, Err(failure)) => Err(failure),
            (None, Ok(())) => panic!("a fetch ends with its answers"),
        }
    }
}

impl Asking for Fetch<'_> {
    type Pending = PendingFetch;

    fn answered(&self) -> (usize, usize) {
        (usize::from(self.is_complete()), 1)
    }

    fn ask(&self, session: &Session) -> Result<Round<PendingFetch>, ClientError> {
        self.ask(session)
    }

    fn count(_: &PendingFetch) -> usize {
        PendingFetch::QUERIES
    }

    fn answer(
        &mut self,
        session: &Session,
        pending: PendingFetch,
        responses: Result<Vec<Response>, ClientError>,
    ) {
        self.answer(session, pending, responses);
    }
}

impl Session {
    /// Begins a fetch of the values of any number of keys, one value of each bin.
    ///
    /// # Errors
    /// Those of [`Session::look_up_keys`].
    pub fn fetch_keys<'a>(&mut self, keys: &'a [&'a [u8]]) -> Result<Fetch<'a>, ClientError> {
        self.renew_keys()?;
        Ok(Fetch::new(Wanted::Keys(keys)))
    }

    /// Begins a fetch of the values at any number of indices, one value of each bin.
    ///
    /// # Errors
    /// Those of [`Session::look_up_keys`].
    pub fn fetch_indices<'a>(&mut self, indices: &'a [u64]) -> Result<Fetch<'a>, ClientError> {
        self.renew_keys()?;
        Ok(Fetch::new(Wanted::Indices(indices)))
    }

    /// Returns the requests of a fetch, one for each server.
    pub(crate) fn fetch_round(&self, wanted: Wanted<'_>) -> Result<Round<PendingFetch>, ClientError> {
        if self.delta().is_some() {
            let detail = "this version has a delta, of which a fetch would ask every value: look values up one by one, \
                          or ask the operator to compact the table";
            return Err(ProtocolError::BadRequest(detail.into()).into());
        }
        let (base, rng) = (self.base(), &mut SecretRng::from_os()?);
        let mut known = Vec::new();
        let (queries, state) = match wanted {
            Wanted::Keys(keys) => {
                let form = base.client().table().key_form.as_ref();
                let keys: Vec<KeyInForm> = keys.iter().map(|key| in_form(form, key)).collect();
                known = keys.iter().map(|key| key.is_known).collect();
                base.client().fetch_keys(&keys.iter().map(|key| &key.key[..]).collect::<Vec<_>>(), rng)?
            }
            Wanted::Indices(indices) => base.client().fetch_indices(indices, rng)?,
        };
        base.ring_keys().into_iter().for_each(|keys| keys.count_queries(PendingFetch::QUERIES as u64));
        let version = *self.description().version();
        let request = |query: Vec<u8>| {
            let base = Queries { keys: base.keys(), queries: vec![Bytes::from(query)] };
            Request { version, base, delta: None }.encode()
        };
        let pending = PendingFetch { base: Arc::clone(base), state, known };
        Ok(Round { requests: queries.into_iter().map(request).collect(), pending })
    }

    /// Decodes the responses of all servers, in the order of their parties, to a fetch. A response
    /// that fails verification ends the keys under which it was requested.
    ///
    /// # Errors
    /// Those of [`Session::decode`].
    pub fn decode_fetch(
        &self,
        pending: PendingFetch,
        responses: &[Response],
    ) -> Result<Vec<Fetched<Value>>, ClientError> {
        let PendingFetch { base, state, known } = pending;
        let answers: Vec<&[u8]> = responses
            .iter()
            .filter_map(|response| response.answers.first())
            .map(|answer| &answer[..])
            .collect();
        let table = base.client().table();
        let value = |fetched: Fetched<Vec<u8>>| match fetched {
            // Copies only the fields that the application gets; the bytes from which they were
            // decoded are erased here.
            Fetched::Value(value) => table
                .split_fields(&zeroize::Zeroizing::new(value))
                .map(|fields| Fetched::Value(Value::new(fields))),
            Fetched::Absent => Ok(Fetched::Absent),
            Fetched::Dropped => Ok(Fetched::Dropped),
        };
        let fetched = base.client().decode_fetch(state, &answers);
        let values = fetched.and_then(|fetched| fetched.into_iter().map(value).collect::<Result<_, _>>());
        settle(base.ring_keys().into_iter(), values.is_ok())?;
        let values: Vec<_> = values?;
        match values.iter().zip(known).any(|(value, is_known)| matches!(value, Fetched::Absent) && !is_known)
        {
            true => Err(ProtocolError::BadRequest(KEY_IS_NEWER.into()).into()),
            false => Ok(values),
        }
    }
}

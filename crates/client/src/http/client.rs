use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use spirea_protocols::Table;

use super::background::Background;
use super::transport::Carriers;
use super::{ClientOptions, lenient};
use crate::{Client, ClientError, Clock, Description, Fetches, Lookups, Parts, Timings, Value};

/// A [`Client`] of one database over HTTP, blocking, from the one server or the two that its protocol has.
///
/// Before its evaluation keys are used up, a thread makes and uploads the next ones. Dropping the client stops it.
pub struct HttpClient {
    client: Client,
    carriers: Carriers,
}

impl HttpClient {
    /// A client of the database `name` of the server at `url`, such as `https://pir.example.org`, with the
    /// default options. Fetches the configuration, and the hint unless the cache has it.
    ///
    /// # Errors
    /// See [`HttpClient::connect_with`].
    pub fn connect(url: &str, name: &str) -> Result<Self, ClientError> {
        Self::connect_with(&[url], name, ClientOptions::default())
    }

    /// A client of the database `name` that two servers answer for, at these addresses in any order. Neither
    /// learns what is asked for, unless they work together.
    ///
    /// # Errors
    /// See [`HttpClient::connect_with`].
    pub fn connect_pair(urls: [&str; 2], name: &str) -> Result<Self, ClientError> {
        Self::connect_with(&urls, name, ClientOptions::default())
    }

    /// A client of the database `name` of one server, or of the two that its protocol has, with options.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`] for an address or a name that cannot be one, or if the addresses are not
    /// those of the protocol's servers, each once; errors of the transport and the cache;
    /// [`ClientError::Refused`] if a server says no, for instance that it has no such database;
    /// [`ClientError::DifferentSnapshots`] if two servers do not serve the same;
    /// [`ClientError::HintCorrupted`] if the hint is damaged on the way; [`ClientError::WeakPrf`] if the
    /// database's function needs a consent that the options do not give. What happens with one of two servers,
    /// or at one of several addresses, is in a [`ClientError::Server`].
    pub fn connect_with(urls: &[&str], name: &str, options: ClientOptions) -> Result<Self, ClientError> {
        let addresses = options.addresses(urls)?;
        let carriers = Carriers::new(&options, addresses.len())?;
        let cache = lenient::open(options.keep, options.cache.as_deref())?;
        let connected = Client::connect(&addresses, name, cache, options.into_policy(), Clock::system())?;
        Ok(Self::of(carriers.hold(connected)?, carriers))
    }

    fn of(mut client: Client, carriers: Carriers) -> Self {
        client.prepare_by(Box::new(Background::new(&carriers)));
        Self { client, carriers }
    }

    /// Has the calls that follow end with [`ClientError::Stopped`] while `stop` is true, some hundredths of a second after it
    /// became so; in place of the one of the options. A call that ends so leaves the client as one that failed, and what it
    /// was sending or receiving, with its connection, to end by itself.
    pub fn stop_by(&mut self, stop: Arc<AtomicBool>) {
        self.carriers.stop_by(stop);
    }

    /// A client that goes on with a session, and has said nothing yet.
    #[cfg(test)]
    pub(crate) fn over(
        urls: &[&str],
        name: &str,
        options: ClientOptions,
        session: crate::Session,
    ) -> Result<Self, ClientError> {
        let addresses = options.addresses(urls)?;
        let carriers = Carriers::new(&options, addresses.len())?;
        let cache = lenient::open(options.keep, options.cache.as_deref())?;
        let (policy, clock) = (options.into_policy(), Clock::system());
        let servers = crate::conversation::Servers::new(&addresses, name, &policy, clock.clone())?;
        Ok(Self::of(Client::over(servers, cache, policy, clock, session), carriers))
    }

    /// Whether the next keys have been uploaded.
    #[cfg(test)]
    pub(crate) fn has_next_keys(&mut self) -> bool {
        self.client.prepare();
        !self.client.session().wants_next_keys()
    }

    /// The database, in the version that was last seen.
    pub fn description(&self) -> &Description {
        self.client.description()
    }

    /// The table, in the version that was last seen.
    pub fn table(&self) -> &Table {
        self.description().table()
    }

    /// The values of keys, in as many requests as they need.
    ///
    /// # Errors
    /// See [`HttpClient::look_up_keys`].
    pub fn get_keys(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, ClientError> {
        Ok(self.look_up_keys(keys)?.values)
    }

    /// The values at indices, in as many requests as they need; `None` for a row that was deleted.
    ///
    /// # Errors
    /// See [`HttpClient::look_up_indices`].
    pub fn get_indices(&mut self, indices: &[u64]) -> Result<Vec<Option<Value>>, ClientError> {
        Ok(self.look_up_indices(indices)?.values)
    }

    /// The values of keys, and what they cost.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is looked up by index or an answer is wrong; errors of the
    /// transport; [`ClientError::Refused`] if the server says no; [`ClientError::StillStale`] if it refuses
    /// queries for the version it has just named; [`ClientError::KeysForgotten`] if it does not keep evaluation
    /// keys; [`ClientError::DifferentSnapshots`] if one of two servers has another version by now;
    /// [`ClientError::WeakPrf`] if a new version has such a function. What happens
    /// with one of two servers is in a [`ClientError::Party`] that says which, and at one of several addresses of an only server
    /// in a [`ClientError::Server`]. None means that a key is absent.
    pub fn look_up_keys(&mut self, keys: &[&[u8]]) -> Result<Lookups, ClientError> {
        self.carriers.hold(self.client.look_up_keys(keys))
    }

    /// The values at indices, and what they cost.
    ///
    /// # Errors
    /// Those of [`HttpClient::look_up_keys`]; [`ClientError::Protocol`] if the table is looked up by key or
    /// has no such index.
    pub fn look_up_indices(&mut self, indices: &[u64]) -> Result<Lookups, ClientError> {
        self.carriers.hold(self.client.look_up_indices(indices))
    }

    /// Looks up a list of keys in parts, and hands each part's values to `each` when all of the part's answers have verified.
    ///
    /// A part has as many look-ups as one request takes, and at least 16. Requests follow each other as in
    /// [`HttpClient::look_up_keys`]: their number, sizes and names of keys follow from no answer. After an answer that does not
    /// verify, `each` receives the part's error, and all further requests are made. New evaluation keys come within the list
    /// where the present ones are used up, and else with the next call. `each` should hand values on and return: the next request
    /// waits for it.
    ///
    /// # Errors
    /// Those of [`HttpClient::look_up_keys`] that end the list: parts behind it were not looked up. Errors of answers go
    /// to `each`.
    pub fn look_up_keys_in_parts<'a>(
        &'a mut self,
        keys: &'a [&'a [u8]],
        each: &'a mut Parts<'a>,
    ) -> Result<Timings, ClientError> {
        self.carriers.hold(self.client.look_up_keys_in_parts(keys, each))
    }

    /// The same for a list of indices.
    ///
    /// # Errors
    /// Those of [`HttpClient::look_up_keys_in_parts`].
    pub fn look_up_indices_in_parts<'a>(
        &'a mut self,
        indices: &'a [u64],
        each: &'a mut Parts<'a>,
    ) -> Result<Timings, ClientError> {
        self.carriers.hold(self.client.look_up_indices_in_parts(indices, each))
    }

    /// What one query brings of the values of keys, for the work of one look-up: a value of each bin of the table, however
    /// many are asked for. What is dropped says so ([`Fetched::Dropped`](crate::Fetched::Dropped)). Servers see the same
    /// of every fetch: one request with one query, as long as any. That a client fetches again is seen: where this would
    /// tell something, fetch a fixed number of times.
    ///
    /// # Errors
    /// Those of [`HttpClient::look_up_keys`]; [`ClientError::Protocol`] if the version has a delta, which tables in bins
    /// never have.
    pub fn fetch_keys(&mut self, keys: &[&[u8]]) -> Result<Fetches, ClientError> {
        self.carriers.hold(self.client.fetch_keys(keys))
    }

    /// The same of the values at indices.
    ///
    /// # Errors
    /// Those of [`HttpClient::fetch_keys`]; [`ClientError::Protocol`] if the table is looked up by key or has no such
    /// index.
    pub fn fetch_indices(&mut self, indices: &[u64]) -> Result<Fetches, ClientError> {
        self.carriers.hold(self.client.fetch_indices(indices))
    }
}

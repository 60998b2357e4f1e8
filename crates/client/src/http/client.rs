use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use spirea_protocols::Table;

use super::background::Background;
use super::transport::Carriers;
use super::{ClientOptions, lenient};
use crate::{Client, ClientError, Clock, Description, Fetches, Lookups, Parts, Timings, Value};

/// A [`Client`] of one database over HTTP, blocking, from the one server or the two that its
/// protocol has.
///
/// Before its evaluation keys are used up, a thread makes and uploads the next ones. Dropping the
/// client stops it.
pub struct HttpClient {
    client: Client,
    carriers: Carriers,
}

impl HttpClient {
    /// Connects to the database `name` of the server at `url`, such as `https://pir.example.org`,
    /// with the default options. Fetches the configuration, and the hint unless it is cached.
    ///
    /// # Errors
    /// See [`HttpClient::connect_with`].
    pub fn connect(url: &str, name: &str) -> Result<Self, ClientError> {
        Self::connect_with(&[url], name, ClientOptions::default())
    }

    /// Connects to the database `name` of two servers, whose addresses may come in any order.
    /// Neither server learns which values are looked up, unless they collude.
    ///
    /// # Errors
    /// See [`HttpClient::connect_with`].
    pub fn connect_pair(urls: [&str; 2], name: &str) -> Result<Self, ClientError> {
        Self::connect_with(&urls, name, ClientOptions::default())
    }

    /// Connects to the database `name` of one server, or of the two that its protocol has, with
    /// options.
    ///
    /// # Errors
    /// - [`ClientError::BadAddress`] for an invalid address or name, or if the addresses are not
    ///   those of the protocol's servers, each once.
    /// - [`ClientError::Refused`] if a server refuses, for instance because it has no such
    ///   database.
    /// - [`ClientError::DifferentSnapshots`] if two servers serve different snapshots.
    /// - [`ClientError::HintCorrupted`] if the hint is damaged in transit.
    /// - [`ClientError::WeakPrf`] if the database's function needs a consent that the options do
    ///   not give.
    /// - Errors of the transport and the cache.
    ///
    /// An error at one of two servers, or at one of several addresses, is wrapped in a
    /// [`ClientError::Server`].
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

    /// Sets the flag that stops this client's calls, in place of the flag in the options. While
    /// `stop` is true, calls end with [`ClientError::Stopped`], some hundredths of a second after
    /// the flag was set. A stopped call leaves the client as a failed call does. Its pending
    /// transfers end by themselves, together with their connections.
    pub fn stop_by(&mut self, stop: Arc<AtomicBool>) {
        self.carriers.stop_by(stop);
    }

    /// Creates a client that continues a session and has not sent anything yet.
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

    /// Returns true if the next keys have been uploaded.
    #[cfg(test)]
    pub(crate) fn has_next_keys(&mut self) -> bool {
        self.client.prepare();
        !self.client.session().wants_next_keys()
    }

    /// Returns the database, in the last version seen.
    pub fn description(&self) -> &Description {
        self.client.description()
    }

    /// Returns the table, in the last version seen.
    pub fn table(&self) -> &Table {
        self.description().table()
    }

    /// Returns the values of keys. Sends several requests if one cannot carry all look-ups.
    ///
    /// # Errors
    /// See [`HttpClient::look_up_keys`].
    pub fn get_keys(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, ClientError> {
        Ok(self.look_up_keys(keys)?.values)
    }

    /// Returns the values at indices; `None` for a deleted row. Sends several requests if one
    /// cannot carry all look-ups.
    ///
    /// # Errors
    /// See [`HttpClient::look_up_indices`].
    pub fn get_indices(&mut self, indices: &[u64]) -> Result<Vec<Option<Value>>, ClientError> {
        Ok(self.look_up_indices(indices)?.values)
    }

    /// Looks up the values of keys. Also returns the cost.
    ///
    /// # Errors
    /// - [`ClientError::Protocol`] if the table is looked up by index or an answer is wrong.
    /// - [`ClientError::Refused`] if the server refuses.
    /// - [`ClientError::StillStale`] if it refuses queries for the version it has just named.
    /// - [`ClientError::KeysForgotten`] if it does not keep evaluation keys.
    /// - [`ClientError::DifferentSnapshots`] if one of two servers has another version by now.
    /// - [`ClientError::WeakPrf`] if a new version has a pseudorandom function that needs a consent
    ///   which the options do not give.
    /// - Errors of the transport.
    ///
    /// An error at one of two servers is wrapped in a [`ClientError::Party`] that names the party.
    /// If there is one server with several addresses, an error at one of them is wrapped in a
    /// [`ClientError::Server`]. No error means that a key is absent.
    pub fn look_up_keys(&mut self, keys: &[&[u8]]) -> Result<Lookups, ClientError> {
        self.carriers.hold(self.client.look_up_keys(keys))
    }

    /// Looks up the values at indices. Also returns the cost.
    ///
    /// # Errors
    /// Those of [`HttpClient::look_up_keys`]; [`ClientError::Protocol`] if the table is looked up
    /// by key or has no such index.
    pub fn look_up_indices(&mut self, indices: &[u64]) -> Result<Lookups, ClientError> {
        self.carriers.hold(self.client.look_up_indices(indices))
    }

    /// Looks up a list of keys in parts, and passes each part's values to `each` once all of the
    /// part's answers have verified.
    ///
    /// A part has the look-ups of one request, or of several requests if one request has fewer than
    /// 16. Requests follow each other as in [`HttpClient::look_up_keys`]: their number, sizes and
    /// key hashes do not depend on any answer. After an answer that does not verify, `each`
    /// receives the part's error, and all further requests are still made. New evaluation keys are
    /// made within the list if the present keys are used up, otherwise by the next call. `each`
    /// should pass values on and return: the next request waits for it.
    ///
    /// # Errors
    /// Those of [`HttpClient::look_up_keys`] that end the list: later parts were not looked up.
    /// Errors of answers are passed to `each`.
    pub fn look_up_keys_in_parts<'a>(
        &'a mut self,
        keys: &'a [&'a [u8]],
        each: &'a mut Parts<'a>,
    ) -> Result<Timings, ClientError> {
        self.carriers.hold(self.client.look_up_keys_in_parts(keys, each))
    }

    /// Looks up a list of indices in parts, as [`HttpClient::look_up_keys_in_parts`] does for keys.
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

    /// Fetches values of any number of keys for the work of a single look-up: one value of each bin
    /// of the table. A dropped value is marked as [`Fetched::Dropped`](crate::Fetched::Dropped).
    /// All fetches look alike to servers: one request with one query, always of the same length.
    /// Servers do see that a client fetches again; if that reveals something, fetch a fixed number
    /// of times.
    ///
    /// # Errors
    /// Those of [`HttpClient::look_up_keys`]; [`ClientError::Protocol`] if the version has a delta,
    /// which tables in bins never have.
    pub fn fetch_keys(&mut self, keys: &[&[u8]]) -> Result<Fetches, ClientError> {
        self.carriers.hold(self.client.fetch_keys(keys))
    }

    /// Fetches values at indices, as [`HttpClient::fetch_keys`] does for keys.
    ///
    /// # Errors
    /// Those of [`HttpClient::fetch_keys`]; [`ClientError::Protocol`] if the table is looked up by
    /// key or has no such index.
    pub fn fetch_indices(&mut self, indices: &[u64]) -> Result<Fetches, ClientError> {
        self.carriers.hold(self.client.fetch_indices(indices))
    }
}

use std::fmt;
use std::sync::Arc;

use spirea_client::{HttpClient, Lookups};
use spirea_protocols::TableKind;

use crate::{ClientOptions, LookUpError, Record};

/// A client of one database, from the one server or the two that its protocol has. Calls block.
///
/// The client keeps hints in the user's cache folder, uploads evaluation keys where the protocol
/// has them, retries, and follows the database to newer versions. Servers learn when a look-up
/// happens and how many rows it has, but not which.
///
/// # Examples
///
/// ```
/// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
/// let mut client = spirea::Client::connect(&url, "domains")?;
/// let record = client.get("example.net")?.expect("the table has this key");
/// assert_eq!(record.text("verdict").unwrap(), "bad");
/// # Ok::<_, spirea::LookUpError>(())
/// ```
///
/// In an asynchronous program, run calls on a thread that may block, such as those of
/// `tokio::task::spawn_blocking`. A [`Mutex`](std::sync::Mutex) shares a client between threads:
///
/// ```
/// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
/// use std::sync::{Arc, Mutex};
/// use std::thread;
///
/// let client = Arc::new(Mutex::new(spirea::Client::connect(&url, "domains")?));
/// let other = Arc::clone(&client);
/// let found = thread::spawn(move || other.lock().unwrap().get("example.org")).join().unwrap()?;
/// assert!(found.is_some());
/// # Ok::<_, spirea::LookUpError>(())
/// ```
pub struct Client {
    inner: HttpClient,
}

impl Client {
    /// Connects to the database `database` of the server at `server`, such as
    /// `https://pir.example.org`, with the default options. Fetches the configuration, and the hint
    /// unless it is cached.
    ///
    /// # Errors
    /// Those of [`Client::connect_with`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// let client = spirea::Client::connect(&url, "domains")?;
    /// assert_eq!(client.rows(), 2);
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn connect(server: &str, database: &str) -> Result<Self, LookUpError> {
        Self::connect_with(&[server], database, ClientOptions::default())
    }

    /// Connects to the database `database` of one server, or of the two servers of its protocol in
    /// any order, with options. Neither of two servers learns what is looked up, unless they
    /// collude.
    ///
    /// # Errors
    /// - [`LookUpError::BadAddress`] for an invalid address or name, or if the addresses are not
    ///   those of the protocol's servers, each once.
    /// - [`LookUpError::Refused`] if a server refuses, for instance since it has no such database.
    /// - [`LookUpError::DifferentSnapshots`] if two servers serve different snapshots.
    /// - [`LookUpError::WeakPrf`] if the database's function needs a consent that the options do
    ///   not give.
    /// - Errors of the network and the cache.
    ///
    /// # Examples
    ///
    /// Two servers, which different operators should run:
    ///
    /// ```
    /// use spirea::build::Builder;
    /// use spirea::server::{Party, Server, ServerConfig};
    /// use spirea::{Client, ClientOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// let table = Builder::from_rows(["colour"], [["red"], ["green"]]).protocol("dpf-xor");
    /// let snapshot = table.build(&out)?;
    /// let start = |party| {
    ///     Server::start_with(ServerConfig {
    ///         listen: "127.0.0.1:0".parse().unwrap(),
    ///         snapshots: vec![snapshot.folder().into()],
    ///         party: Some(party),
    ///         ..ServerConfig::default()
    ///     })
    /// };
    /// let servers = [start(Party::Zero)?, start(Party::One)?];
    /// let urls = [servers[0].url(), servers[1].url()];
    /// let mut client = Client::connect_with(&urls, "colours", ClientOptions::default())?;
    /// assert_eq!(client.get_index(1)?.unwrap().text("colour").unwrap(), "green");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect_with(
        servers: &[&str],
        database: &str,
        options: ClientOptions,
    ) -> Result<Self, LookUpError> {
        Ok(Self { inner: HttpClient::connect_with(servers, database, options)? })
    }

    /// Looks up a key. Returns its record, or `None` if the table does not have the key.
    ///
    /// # Errors
    /// Those of [`Client::get_many`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// let mut client = spirea::Client::connect(&url, "domains")?;
    /// assert!(client.get("example.org")?.is_some());
    /// assert!(client.get("example.com")?.is_none());
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Record>, LookUpError> {
        Ok(self.get_many(&[key])?.pop().flatten())
    }

    /// Looks up keys, with one query for each key and as few requests as possible. Returns the
    /// records in the order of the keys; `None` for a key that the table does not have.
    ///
    /// # Errors
    /// - [`LookUpError::Protocol`] if the table is looked up by index, or an answer is wrong and
    ///   was withheld.
    /// - [`LookUpError::Refused`] if a server refuses.
    /// - Errors of the network, and those of a server that contradicts itself.
    ///
    /// No error means that a key is absent.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// let mut client = spirea::Client::connect(&url, "domains")?;
    /// let found = client.get_many(&["example.org", "example.com"])?;
    /// assert_eq!(found[0].as_ref().unwrap().text("verdict").unwrap(), "fine");
    /// assert!(found[1].is_none());
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn get_many(&mut self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Record>>, LookUpError> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let found = self.inner.look_up_keys(&keys)?;
        Ok(self.records(found))
    }

    /// Looks up an index, counted from 0. Returns the record, or `None` for a deleted row.
    ///
    /// # Errors
    /// Those of [`Client::get_indices`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// # let snapshot = spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]).build(out)?;
    /// # let server = spirea::server::Server::start([snapshot.folder()])?;
    /// let mut client = spirea::Client::connect(server.url(), "colours")?;
    /// assert_eq!(client.get_index(0)?.unwrap().text("colour").unwrap(), "red");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_index(&mut self, index: u64) -> Result<Option<Record>, LookUpError> {
        Ok(self.get_indices(&[index])?.pop().flatten())
    }

    /// Looks up indices, with one query for each index and as few requests as possible. Returns the
    /// records in the order of the indices; `None` for a deleted row.
    ///
    /// # Errors
    /// Those of [`Client::get_many`]; [`LookUpError::Protocol`] if the table is looked up by key or
    /// has no such index.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// # let snapshot = spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]).build(out)?;
    /// # let server = spirea::server::Server::start([snapshot.folder()])?;
    /// let mut client = spirea::Client::connect(server.url(), "colours")?;
    /// let found = client.get_indices(&[1, 0])?;
    /// assert_eq!(found[0].as_ref().unwrap().text("colour").unwrap(), "green");
    /// assert!(client.get_indices(&[2]).is_err());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_indices(&mut self, indices: &[u64]) -> Result<Vec<Option<Record>>, LookUpError> {
        let found = self.inner.look_up_indices(indices)?;
        Ok(self.records(found))
    }

    /// Returns the version last seen, in 64 hexadecimal digits.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// let mut client = spirea::Client::connect(&url, "domains")?;
    /// let record = client.get("example.net")?.unwrap();
    /// assert_eq!(record.version(), client.version());
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn version(&self) -> String {
        self.inner.description().version().to_string()
    }

    /// Returns true if the table is looked up by key, false if by index.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// assert!(spirea::Client::connect(&url, "domains")?.is_keyed());
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn is_keyed(&self) -> bool {
        self.inner.table().kind == TableKind::Keyword
    }

    /// Returns the number of rows of the table.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// assert_eq!(spirea::Client::connect(&url, "domains")?.rows(), 2);
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn rows(&self) -> u64 {
        self.inner.table().entries
    }

    /// Returns the names of a record's fields.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// assert_eq!(spirea::Client::connect(&url, "domains")?.fields(), ["verdict"]);
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn fields(&self) -> &[String] {
        &self.inner.table().fields
    }

    fn records(&self, found: Lookups) -> Vec<Option<Record>> {
        let names: Arc<[String]> = self.fields().into();
        let records = found.values.into_iter().zip(found.versions);
        let record =
            |(value, version): (Option<_>, _)| value.map(|value| Record::new(&names, value, version));
        records.map(record).collect()
    }
}

/// Shows the table only, and nothing of look-ups.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("database", &self.inner.description().name())
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

//! The server or the bucket that this server follows: its address, and how versions come from it.

mod http;
mod origin;

use std::path::PathBuf;
use std::time::Duration;

use spirea_client::{ClientError, check_address, root_certificates};
use spirea_protocols::signature::PublicKey;
use spirea_store::StoreError;
use spirea_store::repository::{BUCKETS, BucketPublisher};

pub(crate) use self::http::{ANSWERING, LONGEST_WAIT, Look, PREFER, PREFERENCE_APPLIED};
pub(crate) use self::origin::Origin;

/// A server, or a bucket of repositories, whose versions are copied into this server's
/// repositories.
#[derive(Clone, Debug)]
pub struct Follow {
    /// Address of the server's port for administration; or of the folder in a bucket that has a
    /// repository for each database, by its name: `s3://BUCKET/FOLDER` or `gs://BUCKET/FOLDER`.
    pub url: String,
    /// File whose first line is a token with the scope `follow`; without a file, none is sent.
    pub token_file: Option<PathBuf>,
    /// PEM file of root certificates for the server; the default is the public roots of the web.
    pub ca: Option<PathBuf>,
    /// The key that must have signed every version; without a key, unsigned versions are taken,
    /// too.
    pub key: Option<PublicKey>,
    /// Time between looks at its current version, if it does not tell of changes: a bucket, or a
    /// server that answers at once.
    pub interval: Duration,
    /// Maximum bytes of each repository's files while a version is copied. Without it, the disk's
    /// free space is the limit: only the publisher knows how large its tables become.
    pub disk: Option<u64>,
}

impl Default for Follow {
    /// No address, no token, no key, the public roots of the web, a look every 5 seconds, and all
    /// free space of the disk.
    fn default() -> Self {
        let interval = Duration::from_secs(5);
        Self { url: String::new(), token_file: None, ca: None, key: None, interval, disk: None }
    }
}

/// Reason why a version was not copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] ClientError),
    /// The file of the token cannot be read.
    #[error("{}: the token cannot be read: {cause}", .path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Problem of the file.
        cause: String,
    },
    /// The followed server cannot be reached, or broke off.
    #[error("{url}: {source}")]
    Transport {
        /// Address that was asked.
        url: String,
        /// Cause with a remedy.
        source: ClientError,
    },
    /// The followed server refused.
    #[error("{url}: the server refused ({status}): {message}")]
    Refused {
        /// Address that was asked.
        url: String,
        /// Status code.
        status: u16,
        /// Cause with a remedy.
        message: String,
    },
    /// The response is not a valid response of the endpoint.
    #[error("{url}: {detail}; is this a server's port for administration?")]
    Unexpected {
        /// Address that was asked.
        url: String,
        /// Fault of the response.
        detail: String,
    },
    /// The version cannot be used, or not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The version cannot be loaded here.
    #[error("the version cannot be loaded: {0}")]
    Load(String),
    /// This server has ended.
    #[error("the server has ended")]
    Ended,
}

impl Follow {
    /// Checks the address and the files.
    ///
    /// # Errors
    /// The key of the wrong setting within its section, with the cause.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.url.is_empty() {
            return Err(("url", "there is no address to follow; give one (--follow)".into()));
        }
        if self.is_bucket() {
            return self.check_bucket();
        }
        check_address(&self.url, self.token_file.is_some()).map_err(|error| ("url", error.to_string()))?;
        self.token().map_err(|error| ("token_file", error.to_string()))?;
        if let Some(ca) = &self.ca {
            root_certificates(ca).map_err(|error| ("ca", error.to_string()))?;
        }
        self.check_interval()
    }

    /// Returns true if versions come from a bucket.
    fn is_bucket(&self) -> bool {
        BUCKETS.into_iter().any(|beginning| self.url.starts_with(beginning))
    }

    /// Returns the repository of a database in the bucket, if a bucket is followed. The repository
    /// keeps its credentials, so make it once and use it for every look.
    ///
    /// # Errors
    /// [`StoreError::BadOption`].
    pub(crate) fn bucket(&self, name: &str) -> Result<Option<BucketPublisher>, StoreError> {
        let address = || format!("{}/{name}", self.url.trim_end_matches('/'));
        self.is_bucket().then(|| BucketPublisher::new(&address())).transpose()
    }

    fn check_bucket(&self) -> Result<(), (&'static str, String)> {
        let unused = "a bucket is read with the credentials in the environment; leave this setting out";
        let settings = [("token_file", &self.token_file), ("ca", &self.ca)];
        if let Some((setting, _)) = settings.into_iter().find(|(_, file)| file.is_some()) {
            return Err((setting, unused.into()));
        }
        BucketPublisher::new(&self.url).map(drop).map_err(|error| ("url", error.to_string()))?;
        self.check_interval()
    }

    fn check_interval(&self) -> Result<(), (&'static str, String)> {
        match self.interval.is_zero() {
            true => Err(("interval", "there must be some time between looks, such as 5s".into())),
            false => Ok(()),
        }
    }

    /// Reads the token from its file, if there is one.
    fn token(&self) -> Result<Option<String>, FollowError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let wrong = |cause: String| FollowError::Token { path: path.clone(), cause };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        match text.lines().next().map(str::trim) {
            Some(token) if !token.is_empty() => Ok(Some(token.into())),
            _ => Err(wrong("the first line is empty; put the token there".into())),
        }
    }
}

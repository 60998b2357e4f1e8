//! The port for administration of another server, as a publisher of versions.

use std::ops::Range;
use std::time::Duration;

use parking_lot::Mutex;
use spirea_client::{EnvironmentProxy, TransportError, agent, proxy_for, root_certificates};
use spirea_protocols::Version;
use spirea_store::FileEntry;
use spirea_store::manifest::{MANIFEST_FILE, MAX_MANIFEST_BYTES};
use spirea_store::repository::{MAX_RECORD_BYTES, Published, Publisher};
use spirea_wire::{MAX_REFUSAL_BYTES, Refusal};
use ureq::http::header::{AUTHORIZATION, CONTENT_RANGE, ETAG, IF_NONE_MATCH, RANGE};
use ureq::http::{HeaderName, HeaderValue, Response, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::{Follow, FollowError};

/// Header of a record's response: the version that answers at the server.
pub(crate) const ANSWERING: &str = "spirea-answering";
/// Header with the time for which a client waits for a change, and the header of a response that
/// has waited (RFC 7240).
pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");
pub(crate) const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// Maximum time for which a server lets a follower wait for a change, below the timeouts that are
/// usual in proxies.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// Timeout for connecting.
const CONNECTING: Duration = Duration::from_secs(10);
/// Timeout of a request with its response, in addition to the time for the response's bytes at
/// [`LEAST_RATE`].
const WAITING: Duration = Duration::from_secs(30);
/// Minimum rate of a response, in bytes per second.
const LEAST_RATE: u64 = 16 << 10;

/// State of a follower, reported with each look.
pub(crate) struct Look {
    /// Name of the follower.
    pub follower: [u8; 16],
    /// Newest version whose files the follower has, if any.
    pub has: Option<Version>,
}

/// The endpoints of a database for followers.
pub(crate) struct HttpPublisher<E> {
    agent: Agent,
    /// Proxy from the environment, if requests go through one.
    through: Option<EnvironmentProxy>,
    /// Base URL of the endpoints.
    url: String,
    authorization: Option<String>,
    look: Look,
    /// Entity tag of the latest record with the version that answers.
    tag: Mutex<Option<HeaderValue>>,
    /// Returns true once transfers shall end.
    ended: E,
}

impl<E: Fn() -> bool> HttpPublisher<E> {
    /// Prepares requests for the database `name`. Transfers fail once `ended` returns true.
    ///
    /// # Errors
    /// [`FollowError::Settings`] and [`FollowError::Token`].
    pub fn new(follow: &Follow, name: &str, look: Look, ended: E) -> Result<Self, FollowError> {
        let through = proxy_for(&follow.url)?;
        let roots = follow.ca.as_deref().map(root_certificates).transpose()?.unwrap_or(RootCerts::WebPki);
        let config = Agent::config_builder()
            .user_agent(concat!("spirea/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECTING))
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .proxy(through.as_ref().map(|through| through.proxy().clone()))
            .build();
        let url = format!("{}/v1/admin/databases/{name}", follow.url.trim_end_matches('/'));
        let authorization = follow.token()?.map(|token| format!("Bearer {token}"));
        let (agent, tag) = (agent(config), Mutex::default());
        Ok(Self { agent, through, url, authorization, look, tag, ended })
    }

    /// Returns the entity tag of the record that was requested, and of the version that answered.
    pub fn tag(&self) -> Option<HeaderValue> {
        self.tag.lock().clone()
    }

    /// Waits until the tag is another one, or for [`LONGEST_WAIT`]. Returns false if the server
    /// does not let followers wait.
    ///
    /// # Errors
    /// Those of [`Publisher::record`].
    pub fn wait(&self, tag: &HeaderValue) -> Result<bool, FollowError> {
        let seconds = format!("wait={}", LONGEST_WAIT.as_secs());
        let preference = HeaderValue::try_from(seconds).expect("ASCII");
        let headers = [(IF_NONE_MATCH, tag.clone()), (PREFER, preference)];
        let time = WAITING + LONGEST_WAIT + transfer(MAX_RECORD_BYTES as u64);
        let response = self.get(&self.record_path(), time, headers)?;
        Ok(response.headers().contains_key(PREFERENCE_APPLIED))
    }

    /// Requests `path` with these headers. Returns the response to read, if its status is a success
    /// or says that nothing has changed.
    fn get(
        &self,
        path: &str,
        time: Duration,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    ) -> Result<Response<Body>, FollowError> {
        if (self.ended)() {
            return Err(FollowError::Ended);
        }
        let url = format!("{}/{path}", self.url);
        let mut request = self.agent.get(&url).config().timeout_global(Some(time)).build();
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let response = request.call().map_err(|error| self.broken(path, error))?;
        let status = response.status();
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(response);
        }
        let body = response.into_body().into_with_config().limit(MAX_REFUSAL_BYTES).read_to_vec();
        match body.map(|body| Refusal::decode(body.into())) {
            Ok(Ok(Refusal { message, remedy, .. })) => Err(FollowError::Refused {
                url,
                status: status.as_u16(),
                message: format!("{message}; {remedy}"),
            }),
            _ => Err(FollowError::Unexpected { url, detail: format!("unexpected status {status}") }),
        }
    }

    fn record_path(&self) -> String {
        let Look { follower, has } = &self.look;
        let has = has.map(|has| format!("&has={has}")).unwrap_or_default();
        format!("record?follower={}{has}", hex::encode(follower))
    }

    fn file_path(&self, snapshot: &Version, file: &str) -> String {
        format!("snapshots/{snapshot}/{file}?follower={}", hex::encode(self.look.follower))
    }

    /// Reads a body of at most `most` bytes.
    fn read(&self, path: &str, response: Response<Body>, most: u64) -> Result<Vec<u8>, FollowError> {
        // The library also refuses a body whose length equals the limit.
        let body = response.into_body().into_with_config().limit(most + 1).read_to_vec();
        body.map_err(|error| self.broken(path, error))
    }

    /// Converts a transport error of a request for `path`; the result names the proxy if there is
    /// one.
    fn broken(&self, path: &str, error: ureq::Error) -> FollowError {
        let error = TransportError::from(error);
        let source = match &self.through {
            Some(through) => through.named(error),
            None => error,
        };
        FollowError::Transport { url: format!("{}/{path}", self.url), source: source.into() }
    }
}

impl<E: Fn() -> bool> Publisher for HttpPublisher<E> {
    type Error = FollowError;

    fn record(&self) -> Result<Option<Published>, FollowError> {
        let (path, most) = (self.record_path(), MAX_RECORD_BYTES as u64);
        let response = self.get(&path, WAITING + transfer(most), None)?;
        *self.tag.lock() = response.headers().get(ETAG).cloned();
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        let answering = response.headers().get(ANSWERING).and_then(|value| value.to_str().ok());
        let answering = answering.and_then(Version::from_hex);
        Ok(Some(Published { record: self.read(&path, response, most)?, answering }))
    }

    fn manifest(&self, snapshot: &Version) -> Result<Vec<u8>, FollowError> {
        let path = self.file_path(snapshot, MANIFEST_FILE);
        let response = self.get(&path, WAITING + transfer(MAX_MANIFEST_BYTES), None)?;
        self.read(&path, response, MAX_MANIFEST_BYTES)
    }

    fn piece(&self, snapshot: &Version, file: &FileEntry, range: Range<u64>) -> Result<Vec<u8>, FollowError> {
        let (path, most) = (self.file_path(snapshot, &file.file), range.end - range.start);
        let bytes = HeaderValue::try_from(format!("bytes={}-{}", range.start, range.end - 1)).expect("ASCII");
        let response = self.get(&path, WAITING + transfer(most), Some((RANGE, bytes)))?;
        let expected = format!("bytes {}-{}/{}", range.start, range.end - 1, file.bytes);
        let sent = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
        if sent != Some(&*expected) {
            let detail = format!("another range of the file came than {expected}");
            return Err(FollowError::Unexpected { url: format!("{}/{path}", self.url), detail });
        }
        self.read(&path, response, most)
    }
}

/// Returns the time for `bytes` at the minimum rate.
fn transfer(bytes: u64) -> Duration {
    Duration::from_secs(bytes / LEAST_RATE)
}

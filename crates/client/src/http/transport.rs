//! Requests and responses: what is tried again, and after how long.

use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use spirea_math::random::SecretRng;
use spirea_protocols::Party;
use spirea_protocols::hint_rows::HintRows;
use spirea_wire::{
    CONTENT_TYPE, Code, MAX_CONFIG_BYTES, MAX_KEYS_RESPONSE_BYTES, MAX_REFUSAL_BYTES, Refusal, Version,
};
use ureq::http::header::{AUTHORIZATION, ETAG, IF_RANGE, RANGE, RETRY_AFTER};
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, RequestBuilder};

use super::ClientOptions;
use crate::{ClientError, Description, Part};

/// Pauses before the second, third, ... attempt begin here and double.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A failed attempt.
pub(super) enum Failure {
    /// Trying again is safe and may help, and the server may have said after how long.
    Again(ClientError, Option<Duration>),
    /// Trying again is of no use.
    Final(ClientError),
}

/// The header that names a request, so that a server knows a retry for what it is.
const REQUEST_ID: &str = "spirea-request-id";

/// One address of a server.
struct Replica {
    url: String,
    /// The endpoints of the database.
    database: String,
    /// Whether it may get queries: that of a server which is a party must be known to be the same party.
    checked: AtomicBool,
}

/// The endpoints of one database on one server, at one of its addresses.
pub(super) struct Transport {
    agent: Agent,
    name: String,
    replicas: Vec<Replica>,
    /// The address that is asked.
    current: AtomicUsize,
    /// Which of two servers it is.
    party: Option<Party>,
    authorization: Option<String>,
    attempts: u32,
    max_pause: Duration,
}

impl Transport {
    /// A server at these addresses, of which the first is asked first.
    pub fn new(urls: &[&str], name: &str, options: &ClientOptions) -> Result<Self, ClientError> {
        let valid = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if !(1..=128).contains(&name.len()) || !name.bytes().all(valid) {
            let text = "a database's name has 1 to 128 of the characters a-z, 0-9 and -";
            return Err(ClientError::BadAddress(text.into()));
        }
        let replica = |url: &&str| {
            check_address(url, options.token.is_some())?;
            let database = format!("{}/v1/databases/{name}", url.trim_end_matches('/'));
            Ok(Replica { url: (*url).into(), database, checked: AtomicBool::new(true) })
        };
        let replicas = urls.iter().map(replica).collect::<Result<_, ClientError>>()?;
        let roots = options.ca.as_deref().map(root_certificates).transpose()?.unwrap_or(RootCerts::WebPki);
        let agent = Agent::config_builder()
            .user_agent(concat!("spirea/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(options.connect_timeout))
            .timeout_per_read(Some(options.timeout))
            .timeout_per_write(Some(options.timeout))
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .build()
            .new_agent();
        Ok(Self {
            agent,
            name: name.into(),
            replicas,
            current: AtomicUsize::new(0),
            party: None,
            authorization: options.token.as_ref().map(|token| format!("Bearer {token}")),
            attempts: options.attempts.max(1),
            max_pause: options.max_pause,
        })
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.replica().url
    }

    /// The address at hand has described itself as this party; the others have to before they get queries.
    pub fn expect_party(&mut self, party: Option<Party>) {
        self.party = party;
        for replica in &self.replicas {
            replica.checked.store(party.is_none(), Ordering::Relaxed);
        }
        self.replica().checked.store(true, Ordering::Relaxed);
    }

    /// The message with the configuration of a version, or of the newest.
    pub fn config(&self, version: Option<&Version>) -> Result<Bytes, ClientError> {
        self.retrying(|replica| self.config_of(replica, version))
    }

    fn config_of(&self, replica: &Replica, version: Option<&Version>) -> Result<Bytes, Failure> {
        let named =
            version.map(|version| format!("?version={}", blake3::Hash::from_bytes(*version).to_hex()));
        let url = format!("{}/config{}", replica.database, named.unwrap_or_default());
        let response = self.with_token(self.agent.get(url)).call();
        body(accepted(response.map_err(any_time)?)?, MAX_CONFIG_BYTES).map_err(any_time)
    }

    /// The response to a request, at most `limit` bytes. Answering changes nothing on a server, and it knows a
    /// retry by the request's name, so that it is not charged twice.
    pub fn query(&self, request: &[u8], limit: u64) -> Result<Bytes, ClientError> {
        let name = request_id()?;
        self.retrying(|replica| {
            self.check_party(replica)?;
            let sent = self.with_token(self.agent.post(format!("{}/query", replica.database)));
            let response = sent.content_type(CONTENT_TYPE).header(REQUEST_ID, &name).send(request);
            body(accepted(response.map_err(any_time)?)?, limit).map_err(any_time)
        })
    }

    /// Of two servers, one address must never get the queries for both.
    fn check_party(&self, replica: &Replica) -> Result<(), Failure> {
        if replica.checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let described =
            Description::parse(&self.name, self.config_of(replica, None)?).map_err(Failure::Final)?;
        if described.party() != self.party {
            let text = format!(
                "{} is another party than the addresses before it; give it to the other server",
                replica.url
            );
            return Err(Failure::Final(ClientError::BadAddress(text)));
        }
        replica.checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn replica(&self) -> &Replica {
        &self.replicas[self.current.load(Ordering::Relaxed) % self.replicas.len()]
    }

    fn with_token<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization),
            None => request,
        }
    }

    /// The response to an upload of keys, which does no harm however often it arrives.
    pub fn keys(&self, request: &[u8]) -> Result<Bytes, ClientError> {
        self.retrying(|replica| {
            let sent = self.with_token(self.agent.post(format!("{}/keys", replica.database)));
            let response = sent.content_type(CONTENT_TYPE).send(request).map_err(any_time)?;
            body(accepted(response)?, MAX_KEYS_RESPONSE_BYTES).map_err(any_time)
        })
    }

    /// The hashes of the hint's rows: one attempt.
    pub fn hint_rows(&self, part: &Part, rows: HintRows) -> Result<Bytes, Failure> {
        let hash = blake3::Hash::from_bytes(*part.hint_blake3()).to_hex();
        let url = format!("{}/hint/rows?blake3={hash}", self.replica().database);
        let response = self.with_token(self.agent.get(url)).call();
        let limit = rows.list_bytes(part.hint_bytes());
        body(accepted(response.map_err(any_time)?)?, limit).map_err(any_time)
    }

    /// The hint from byte `start` to its end, or to before byte `end`: one attempt.
    pub fn hint(&self, part: &Part, start: u64, end: Option<u64>) -> Result<HintPart, Failure> {
        let hash = blake3::Hash::from_bytes(*part.hint_blake3()).to_hex();
        let tag = format!("\"{hash}\"");
        let url = format!("{}/hint?blake3={hash}", self.replica().database);
        let mut request = self.with_token(self.agent.get(url));
        if start > 0 || end.is_some() {
            let last = end.map(|end| (end - 1).to_string()).unwrap_or_default();
            request = request.header(RANGE, format!("bytes={start}-{last}")).header(IF_RANGE, &tag);
        }
        let response = request.call().map_err(any_time)?;
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(HintPart::OutOfRange);
        }
        let response = match accepted(response) {
            Err(Failure::Final(ClientError::Refused { refusal, .. }))
                if refusal.code == Code::UnknownHint =>
            {
                return Ok(HintPart::Changed);
            }
            response => response?,
        };
        let sent = response.headers().get(ETAG).map(|tag| tag.as_bytes());
        // A proxy may strip or weaken the tag; the hash is checked in the end whatever it says.
        if sent.is_some_and(|sent| sent.strip_prefix(b"W/").unwrap_or(sent) != tag.as_bytes()) {
            return Ok(HintPart::Changed);
        }
        let start = if response.status() == StatusCode::PARTIAL_CONTENT { start } else { 0 };
        Ok(HintPart::Bytes { start, body: response.into_body() })
    }

    fn retrying<T>(&self, attempt: impl Fn(&Replica) -> Result<T, Failure>) -> Result<T, ClientError> {
        let mut failures = 0;
        loop {
            match attempt(self.replica()) {
                Ok(done) => return Ok(done),
                Err(failure) => {
                    failures += 1;
                    self.pause(failure, failures)?;
                }
            }
        }
    }

    /// Waits after a failure, the `failures`-th in a row, and turns to the next address if there is one; or gives
    /// up. No address is waited for before all have been tried.
    pub fn pause(&self, failure: Failure, failures: u32) -> Result<(), ClientError> {
        let (error, asked) = match failure {
            Failure::Again(error, asked) => (error, asked),
            // A database that failed here may do elsewhere.
            Failure::Final(error) if self.replicas.len() > 1 && is_down(&error) => (error, None),
            Failure::Final(error) => return Err(error),
        };
        let addresses = if is_down(&error) { self.replicas.len() as u32 } else { 1 };
        if failures >= self.attempts.saturating_mul(addresses) {
            return Err(error);
        }
        if addresses > 1 {
            self.current.fetch_add(1, Ordering::Relaxed);
            if !failures.is_multiple_of(addresses) {
                return Ok(());
            }
        }
        if asked.is_some_and(|asked| asked > self.max_pause) {
            return Err(error);
        }
        let rounds = failures.div_ceil(addresses);
        let pause = FIRST_PAUSE.saturating_mul(1 << (rounds - 1).min(16)).min(self.max_pause);
        std::thread::sleep(pause.mul_f64(jitter()).max(asked.unwrap_or_default()));
        Ok(())
    }
}

/// Checks the address of a server that is asked, perhaps with a token: that goes over https:// only, or to this machine.
///
/// # Errors
/// [`ClientError::BadAddress`], [`ClientError::BadOption`].
pub fn check_address(url: &str, with_token: bool) -> Result<(), ClientError> {
    let plain = url.starts_with("http://");
    if !plain && !url.starts_with("https://") {
        let text = "the server's address must begin with http:// or https://";
        return Err(ClientError::BadAddress(text.into()));
    }
    // Read as whoever sends the request reads it: what stands before an @ is no host.
    let is_here = || {
        let uri: Uri = url.parse().ok()?;
        let host = uri.host()?.trim_matches(['[', ']']);
        Some(host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback()))
    };
    if with_token && plain && is_here() != Some(true) {
        return Err(ClientError::BadOption(format!(
            "{url}: whoever sees the network would see the token; give an address that begins with https://"
        )));
    }
    Ok(())
}

/// The certificates of a file of them, as PEM.
///
/// # Errors
/// [`ClientError::BadOption`] if it cannot be read or has none.
pub fn root_certificates(path: &Path) -> Result<RootCerts, ClientError> {
    let unusable = |cause: String| {
        let text = format!("{}: no certificates: {cause}; name a file of them as PEM", path.display());
        ClientError::BadOption(text)
    };
    let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(unusable(error.to_string()))),
    });
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>()?;
    if certificates.is_empty() {
        return Err(unusable("there is none in it".into()));
    }
    Ok(RootCerts::from(certificates))
}

/// A request's name: random, so that it says nothing of the query.
fn request_id() -> Result<String, ClientError> {
    let mut bits = [0; 16];
    SecretRng::from_os()?.fill(&mut bits);
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether it is the address that failed, so that another one may do better.
fn is_down(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable(_) | ClientError::TimedOut(_) | ClientError::Broken(_) => true,
        ClientError::Refused { status, .. } => *status == 503,
        ClientError::UnexpectedStatus { status } => (502..=504).contains(status),
        _ => false,
    }
}

/// What a request for a hint brings.
pub(super) enum HintPart {
    /// The bytes from `start`.
    Bytes { start: u64, body: Body },
    /// The server has no such bytes.
    OutOfRange,
    /// The server has another hint.
    Changed,
}

/// Between a half and one and a half, so that clients that failed together do not return together.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    0.5 + (RandomState::new().hash_one(()) >> 11) as f64 / (1u64 << 53) as f64
}

/// The response, if the server did what was asked.
fn accepted(mut response: Response<Body>) -> Result<Response<Body>, Failure> {
    let status = response.status();
    if status == StatusCode::OK || status == StatusCode::PARTIAL_CONTENT {
        return Ok(response);
    }
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let asked = seconds.map(Duration::from_secs);
    let status = status.as_u16();
    let message = response.body_mut().with_config().limit(MAX_REFUSAL_BYTES).read_to_vec();
    let Some(refusal) = message.ok().and_then(|message| Refusal::decode(message.into()).ok()) else {
        let error = ClientError::UnexpectedStatus { status };
        // What a balancer of loads says while a server is being replaced.
        return Err(if is_down(&error) { Failure::Again(error, asked) } else { Failure::Final(error) });
    };
    let passes = matches!(
        refusal.code,
        Code::Overloaded | Code::QuotaExceeded | Code::Loading | Code::Stopping | Code::SlowBody
    );
    let again = passes && !refusal.accepted;
    let error = ClientError::Refused { status, refusal };
    Err(if again { Failure::Again(error, asked) } else { Failure::Final(error) })
}

fn body(response: Response<Body>, limit: u64) -> Result<Bytes, ureq::Error> {
    response.into_body().into_with_config().limit(limit).read_to_vec().map(Bytes::from)
}

/// A failed request, which changes nothing on the server.
fn any_time(error: ureq::Error) -> Failure {
    match error {
        ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed => {
            Failure::Again(failed(error), None)
        }
        _ => Failure::Final(failed(error)),
    }
}

/// Whether there was no connection, and so the server has seen nothing.
fn unconnected(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        ureq::Error::ConnectionFailed | ureq::Error::Timeout(ureq::Timeout::Connect) => true,
        _ => false,
    }
}

pub(super) fn failed(error: ureq::Error) -> ClientError {
    let words = error.to_string();
    match error {
        ureq::Error::Timeout(_) => ClientError::TimedOut(words),
        ureq::Error::Io(ref io) if io.kind() == std::io::ErrorKind::TimedOut => ClientError::TimedOut(words),
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => ClientError::Unreachable(words),
        _ if unconnected(&error) => ClientError::Unreachable(words),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => ClientError::BadAddress(words),
        _ => ClientError::Broken(words),
    }
}

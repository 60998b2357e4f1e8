//! Requests and responses: what is tried again, and after how long.

use std::time::Duration;

use bytes::Bytes;
use spirea_protocols::hint_rows;
use spirea_wire::{
    CONTENT_TYPE, Code, MAX_CONFIG_BYTES, MAX_KEYS_RESPONSE_BYTES, MAX_REFUSAL_BYTES, Refusal, Version,
};
use ureq::http::header::{ETAG, IF_RANGE, RANGE, RETRY_AFTER};
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

use super::ClientOptions;
use crate::{ClientError, Part};

/// Pauses before the second, third, ... attempt begin here and double.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A failed attempt.
pub(super) enum Failure {
    /// Trying again is safe, and the server may have said after how long.
    Again(ClientError, Option<Duration>),
    /// Trying again is not safe, or of no use.
    Final(ClientError),
}

/// The endpoints of one database on one server.
pub(super) struct Transport {
    agent: Agent,
    url: String,
    database: String,
    attempts: u32,
    max_pause: Duration,
}

impl Transport {
    pub fn new(url: &str, name: &str, options: &ClientOptions) -> Result<Self, ClientError> {
        let bad = |text: &str| Err(ClientError::BadAddress(text.into()));
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return bad("the server's address must begin with http:// or https://");
        }
        let valid = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if !(1..=128).contains(&name.len()) || !name.bytes().all(valid) {
            return bad("a database's name has 1 to 128 of the characters a-z, 0-9 and -");
        }
        let agent = Agent::config_builder()
            .user_agent(concat!("spirea/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(options.connect_timeout))
            .timeout_per_read(Some(options.timeout))
            .timeout_per_write(Some(options.timeout))
            .build()
            .new_agent();
        let database = format!("{}/v1/databases/{name}", url.trim_end_matches('/'));
        Ok(Self {
            agent,
            url: url.into(),
            database,
            attempts: options.attempts.max(1),
            max_pause: options.max_pause,
        })
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The message with the configuration of a version, or of the newest.
    pub fn config(&self, version: Option<&Version>) -> Result<Bytes, ClientError> {
        let named =
            version.map(|version| format!("?version={}", blake3::Hash::from_bytes(*version).to_hex()));
        let url = format!("{}/config{}", self.database, named.unwrap_or_default());
        self.retrying(|| {
            let response = self.agent.get(&url).call();
            body(accepted(response.map_err(any_time)?)?, MAX_CONFIG_BYTES).map_err(any_time)
        })
    }

    /// The response to a request, at most `limit` bytes. A request is sent again only if the server says that
    /// it did not accept it, or no connection was made.
    pub fn query(&self, request: &[u8], limit: u64) -> Result<Bytes, ClientError> {
        self.retrying(|| {
            let sent = self.agent.post(format!("{}/query", self.database)).content_type(CONTENT_TYPE);
            let response = sent.send(request).map_err(|error| match unconnected(&error) {
                true => Failure::Again(failed(error), None),
                false => Failure::Final(failed(error)),
            })?;
            body(accepted(response)?, limit).map_err(|error| Failure::Final(failed(error)))
        })
    }

    /// The response to an upload of keys, which does no harm however often it arrives.
    pub fn keys(&self, request: &[u8]) -> Result<Bytes, ClientError> {
        self.retrying(|| {
            let sent = self.agent.post(format!("{}/keys", self.database)).content_type(CONTENT_TYPE);
            let response = sent.send(request).map_err(any_time)?;
            body(accepted(response)?, MAX_KEYS_RESPONSE_BYTES).map_err(any_time)
        })
    }

    /// The hashes of the hint's rows: one attempt.
    pub fn hint_rows(&self, part: &Part) -> Result<Bytes, Failure> {
        let hash = blake3::Hash::from_bytes(*part.hint_blake3()).to_hex();
        let response = self.agent.get(format!("{}/hint/rows?blake3={hash}", self.database)).call();
        let limit = hint_rows::list_bytes(part.hint_bytes());
        body(accepted(response.map_err(any_time)?)?, limit).map_err(any_time)
    }

    /// The hint from byte `start` to its end, or to before byte `end`: one attempt.
    pub fn hint(&self, part: &Part, start: u64, end: Option<u64>) -> Result<HintPart, Failure> {
        let hash = blake3::Hash::from_bytes(*part.hint_blake3()).to_hex();
        let tag = format!("\"{hash}\"");
        let mut request = self.agent.get(format!("{}/hint?blake3={hash}", self.database));
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

    fn retrying<T>(&self, attempt: impl Fn() -> Result<T, Failure>) -> Result<T, ClientError> {
        let mut failures = 0;
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(failure) => {
                    failures += 1;
                    self.pause(failure, failures)?;
                }
            }
        }
    }

    /// Waits after a failure, the `failures`-th in a row; or gives up.
    pub fn pause(&self, failure: Failure, failures: u32) -> Result<(), ClientError> {
        match failure {
            Failure::Final(error) => Err(error),
            Failure::Again(error, _) if failures >= self.attempts => Err(error),
            Failure::Again(error, asked) => {
                if asked.is_some_and(|asked| asked > self.max_pause) {
                    return Err(error);
                }
                let pause = FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(16)).min(self.max_pause);
                std::thread::sleep(pause.mul_f64(jitter()).max(asked.unwrap_or_default()));
                Ok(())
            }
        }
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
        return Err(Failure::Final(ClientError::UnexpectedStatus { status }));
    };
    let passes = matches!(refusal.code, Code::Overloaded | Code::Loading | Code::Stopping | Code::SlowBody);
    let again = passes && !refusal.accepted;
    let error = ClientError::Refused { status, refusal };
    Err(if again { Failure::Again(error, asked) } else { Failure::Final(error) })
}

fn body(response: Response<Body>, limit: u64) -> Result<Bytes, ureq::Error> {
    response.into_body().into_with_config().limit(limit).read_to_vec().map(Bytes::from)
}

/// A failed request that changes nothing on the server.
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

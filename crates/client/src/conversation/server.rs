//! A single server: its requests, their retries and pauses.

use std::time::Duration;

use bytes::Bytes;
use spirea_math::random::{NoEntropy, SecretRng};
use spirea_math::secret::declassify_bytes;
use spirea_protocols::Party;
use spirea_protocols::hint_rows::HintRows;
use spirea_wire::{
    CONTENT_TYPE, Code, MAX_CONFIG_BYTES, MAX_KEYS_RESPONSE_BYTES, MAX_REFUSAL_BYTES, Refusal, Version,
};

use super::{Head, Line, Lines, Method, Request, TransportError};
use crate::{ClientError, Description, PartDescription, Policy};

/// First pause between attempts; each further pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Header with a request's id, by which a server recognises retries.
const REQUEST_ID: &str = "spirea-request-id";

/// Header with a hash of the client's keys, by which a balancer may choose the replica.
const AFFINITY: &str = "spirea-affinity";

/// A failed attempt.
pub(super) enum Failure {
    /// A retry is safe and may help; the server may have requested a pause.
    Again(ClientError, Option<Duration>),
    /// A retry is useless.
    Final(ClientError),
}

/// Retries are safe: a repeated request never changes a server twice.
impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        if error.passes() { Self::Again(error.into(), None) } else { Self::Final(error.into()) }
    }
}

/// Consecutive failures of a request.
pub(super) struct Failures {
    count: u32,
    /// Time of the first attempt, by the conversation's clock.
    since: Duration,
}

/// Result of a request for a hint.
pub(super) enum HintPart {
    /// The bytes from `start`, still to be read.
    Bytes { start: u64 },
    /// The server's hint does not have the requested bytes.
    OutOfRange,
    /// The server has another hint.
    Changed,
}

/// Address of a server.
#[derive(Clone)]
struct Address {
    url: String,
    /// True if requests with a body may be sent to this address: with two parties, the address must
    /// first be known to belong to the same party.
    checked: bool,
}

/// A request, independent of the address.
struct Call {
    method: Method,
    /// Path below the database.
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    /// Maximum bytes of the response.
    limit: u64,
}

impl Call {
    fn get(path: String, limit: u64) -> Self {
        Self { method: Method::Get, path, headers: Vec::new(), body: Bytes::new(), limit }
    }

    fn post(path: &str, body: Bytes, affinity: Option<&str>, limit: u64) -> Self {
        let mut headers = vec![("content-type", CONTENT_TYPE.into())];
        headers.extend(affinity.map(|affinity| (AFFINITY, affinity.into())));
        Self { method: Method::Post, path: path.into(), headers, body, limit }
    }

    fn config(version: Option<&Version>) -> Self {
        let named = version.map(|version| format!("?version={version}"));
        Self::get(format!("config{}", named.unwrap_or_default()), MAX_CONFIG_BYTES)
    }
}

/// The endpoints of one database on one server, at one of its addresses.
pub(super) struct Server {
    line: Line,
    name: String,
    addresses: Vec<Address>,
    /// Index of the address in use.
    current: usize,
    /// Party of the server, if the protocol has two servers.
    party: Option<Party>,
    attempts: u32,
    max_pause: Duration,
    patience: Duration,
}

impl Server {
    /// Creates a server with these addresses, in the order in which they are tried.
    pub fn new(line: Line, urls: &[String], name: &str, policy: &Policy) -> Self {
        let addresses = urls.iter().map(|url| Address { url: url.clone(), checked: true }).collect();
        let Policy { attempts, max_pause, patience, .. } = *policy;
        let attempts = attempts.max(1);
        Self { line, name: name.into(), addresses, current: 0, party: None, attempts, max_pause, patience }
    }

    /// Creates a handle of the same server for another conversation at the same time.
    pub fn among(&self, lines: &Lines) -> Self {
        let (line, name, addresses) = (self.line.among(lines), self.name.clone(), self.addresses.clone());
        Self { line, name, addresses, ..*self }
    }

    /// Returns the address in use.
    pub fn url(&self) -> &str {
        &self.addresses[self.current].url
    }

    /// Adds the last address used to an error, if the server has several addresses. Errors of the
    /// cache get no address.
    pub fn located(&self, error: ClientError) -> ClientError {
        match (&self.addresses[..], &error) {
            ([_], _) | (_, ClientError::Cache { .. }) => error,
            _ => ClientError::Server { url: self.url().into(), cause: Box::new(error) },
        }
    }

    /// Notes that the address in use has described itself as this party. Each other address must do
    /// so before a request with a body is sent to it.
    pub fn expect_party(&mut self, party: Option<Party>) {
        self.party = party;
        self.addresses.iter_mut().for_each(|address| address.checked = party.is_none());
        self.addresses[self.current].checked = true;
    }

    /// Fetches the configuration of a version; `None` for the newest.
    pub async fn describe(&mut self, version: Option<&Version>) -> Result<Description, ClientError> {
        let message = self.ask(&Call::config(version)).await?;
        Description::parse(&self.name, message)
    }

    /// Sends a query and returns the response, of at most `limit` bytes. Answering changes nothing
    /// on the server, and the request's id marks retries, so that the query is charged only once.
    pub async fn query(
        &mut self,
        request: Bytes,
        affinity: Option<&str>,
        limit: u64,
    ) -> Result<Bytes, ClientError> {
        let mut call = Call::post("query", request, affinity, limit);
        call.headers.push((REQUEST_ID, request_id()?));
        self.ask(&call).await
    }

    /// Uploads keys and returns the response; repeating an upload does no harm.
    pub async fn keys(&mut self, request: Bytes, affinity: Option<&str>) -> Result<Bytes, ClientError> {
        self.ask(&Call::post("keys", request, affinity, MAX_KEYS_RESPONSE_BYTES)).await
    }

    /// Fetches the hashes of the hint's rows in a single attempt.
    pub async fn hint_rows(&mut self, part: &PartDescription, rows: HintRows) -> Result<Bytes, Failure> {
        let path = format!("hint/rows?blake3={}", part.hint_blake3());
        self.once(&Call::get(path, rows.list_bytes(part.hint_bytes()))).await
    }

    /// Requests the hint in a single attempt, from byte `start` to the hint's end or, if given, up
    /// to but not including byte `end`. [`Server::read`] returns the bytes.
    pub async fn hint(
        &mut self,
        part: &PartDescription,
        start: u64,
        end: Option<u64>,
    ) -> Result<HintPart, Failure> {
        let hash = part.hint_blake3();
        let tag = format!("\"{hash}\"");
        let mut call = Call::get(format!("hint?blake3={hash}"), part.hint_bytes());
        if start > 0 || end.is_some() {
            let last = end.map(|end| (end - 1).to_string()).unwrap_or_default();
            call.headers.push(("range", format!("bytes={start}-{last}")));
            call.headers.push(("if-range", tag.clone()));
        }
        let head = self.send(&call).await?;
        if head.status == 416 {
            return Ok(HintPart::OutOfRange);
        }
        match self.accept(&head).await {
            Err(Failure::Final(ClientError::Refused { refusal, .. }))
                if refusal.code == Code::UnknownHint =>
            {
                return Ok(HintPart::Changed);
            }
            accepted => accepted?,
        }
        // A proxy may strip or weaken the tag; the hash is verified in the end in any case.
        if head.etag.is_some_and(|sent| sent.strip_prefix("W/").unwrap_or(&sent) != tag) {
            return Ok(HintPart::Changed);
        }
        Ok(HintPart::Bytes { start: if head.status == 206 { start } else { 0 } })
    }

    /// Returns the next piece of a response's body; an empty piece at its end.
    pub async fn read(&mut self) -> Result<Bytes, Failure> {
        Ok(self.line.read().await?)
    }

    /// Sends a request and returns its response, with retries as the policy allows.
    async fn ask(&mut self, call: &Call) -> Result<Bytes, ClientError> {
        let mut failures = self.no_failures();
        loop {
            match self.attempt(call).await {
                Ok(response) => return Ok(response),
                Err(failure) => self.pause(failure, &mut failures).await?,
            }
        }
    }

    async fn attempt(&mut self, call: &Call) -> Result<Bytes, Failure> {
        if call.method == Method::Post {
            self.check_party().await?;
        }
        self.once(call).await
    }

    /// Checks that the current address belongs to this party, before its first request with a body:
    /// with two servers, no address may ever get the queries for both.
    async fn check_party(&mut self) -> Result<(), Failure> {
        if self.addresses[self.current].checked {
            return Ok(());
        }
        let message = self.once(&Call::config(None)).await?;
        let described = Description::parse(&self.name, message).map_err(Failure::Final)?;
        if described.party() != self.party {
            let text = format!(
                "{} is another party than the addresses before it; give it to the other server",
                self.url()
            );
            return Err(Failure::Final(ClientError::BadAddress(text)));
        }
        self.addresses[self.current].checked = true;
        Ok(())
    }

    async fn once(&mut self, call: &Call) -> Result<Bytes, Failure> {
        let head = self.send(call).await?;
        self.accept(&head).await?;
        self.body(call.limit).await
    }

    async fn send(&mut self, call: &Call) -> Result<Head, TransportError> {
        let Call { method, path, headers, body, .. } = call;
        let url = format!("{}/v1/databases/{}/{path}", self.url().trim_end_matches('/'), self.name);
        self.line.send(Request { method: *method, url, headers: headers.clone(), body: body.clone() }).await
    }

    /// Checks the status; reads the refusal if the request was not successful.
    async fn accept(&mut self, head: &Head) -> Result<(), Failure> {
        let status = head.status;
        if matches!(status, 200 | 206) {
            return Ok(());
        }
        let seconds = head.retry_after.as_ref().and_then(|seconds| seconds.parse().ok());
        let asked = seconds.map(Duration::from_secs);
        let message = self.body(MAX_REFUSAL_BYTES).await;
        let Some(refusal) = message.ok().and_then(|message| Refusal::decode(message).ok()) else {
            let error = ClientError::UnexpectedStatus { status };
            // A load balancer responds with such a status while a server is being replaced.
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

    /// Reads the body of a response, of at most `limit` bytes.
    async fn body(&mut self, limit: u64) -> Result<Bytes, Failure> {
        let mut body = Vec::new();
        loop {
            let piece = self.line.read().await?;
            if piece.is_empty() {
                return Ok(body.into());
            }
            if (body.len() + piece.len()) as u64 > limit {
                let text = format!("the response has more than the {limit} bytes that it may have");
                return Err(Failure::Final(ClientError::Broken(text)));
            }
            body.extend_from_slice(&piece);
        }
    }

    /// Returns the failures of a new request: none.
    pub fn no_failures(&self) -> Failures {
        Failures { count: 0, since: self.line.now() }
    }

    /// Handles a further failure: waits and switches to the next address, if any, or gives up.
    /// Pauses only after all addresses have been tried.
    pub async fn pause(&mut self, failure: Failure, failures: &mut Failures) -> Result<(), ClientError> {
        failures.count += 1;
        let count = failures.count;
        let (error, asked) = match failure {
            Failure::Again(error, asked) => (error, asked),
            // A database that failed at this address may work at another.
            Failure::Final(error) if self.addresses.len() > 1 && is_down(&error) => (error, None),
            Failure::Final(error) => return Err(error),
        };
        let addresses = if is_down(&error) { self.addresses.len() } else { 1 };
        let rounds = count.div_ceil(addresses as u32);
        if count >= self.attempts.saturating_mul(addresses as u32) {
            return Err(error);
        }
        let asked = asked.unwrap_or_default();
        let waited = self.line.now().saturating_sub(failures.since);
        let all_tried = count >= addresses as u32;
        if all_tried && waited.saturating_add(asked) >= self.patience {
            return Err(error);
        }
        let is_round_over = count.is_multiple_of(addresses as u32);
        // The failed address stays the current one, so that the error names it.
        if is_round_over && asked > self.max_pause {
            return Err(error);
        }
        if addresses > 1 {
            self.current = (self.current + 1) % addresses;
        }
        if !is_round_over {
            return Ok(());
        }
        Ok(self.back_off(rounds, asked).await?)
    }

    /// Waits after the `rounds`-th round of attempts, at least for the time `asked`. Pauses double
    /// from round to round, up to the policy's maximum. Each is multiplied by a random factor
    /// between 0.5 and 1.5, so that clients that failed together do not return together.
    pub async fn back_off(&mut self, rounds: u32, asked: Duration) -> Result<(), NoEntropy> {
        let pause = FIRST_PAUSE.saturating_mul(1 << (rounds - 1).min(16)).min(self.max_pause);
        let share = (SecretRng::from_os()?.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        self.line.pause(pause.mul_f64(0.5 + share).max(asked)).await;
        Ok(())
    }
}

/// Returns a request's id: random, so that it reveals nothing of the query.
fn request_id() -> Result<String, NoEntropy> {
    let mut bits = [0; 16];
    SecretRng::from_os()?.fill(&mut bits);
    declassify_bytes(&mut bits, "the name of a request travels with it");
    Ok(hex::encode(bits))
}

/// Returns true if the address failed, so that another address may succeed.
fn is_down(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable(_) | ClientError::TimedOut(_) | ClientError::Broken(_) => true,
        ClientError::Refused { status, .. } => *status == 503,
        ClientError::UnexpectedStatus { status } => (502..=504).contains(status),
        _ => false,
    }
}

//! Refusals as HTTP responses: one table of status codes, and a remedy for every cause. A response
//! carries its refusal in its extensions, for conversion to another form and for metrics.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use spirea_engine::EngineError;
use spirea_protocols::ProtocolError;
use spirea_store::StoreError;
use spirea_wire::{Code, Refusal, WireError};

use crate::access::{Quota, Scope};
use crate::library::{PublishError, ReceiveError, ReloadError};

/// Time after which to retry while a database is being loaded.
const LOADING_RETRY: Duration = Duration::from_secs(1);
/// Time after which to retry when memory for requests is short.
const MEMORY_RETRY: Duration = Duration::from_secs(1);
/// Time after which to retry when too many requests are being served.
const PLACE_RETRY: Duration = Duration::from_secs(1);

/// Returns a code's name without the prefix that `proto` gives to all its codes.
pub(crate) fn name(code: Code) -> &'static str {
    code.as_str_name().trim_start_matches("ERROR_CODE_")
}

/// A request that was refused or that failed.
#[derive(Debug)]
pub(crate) struct Refused {
    refusal: Refusal,
    retry_after: Option<Duration>,
}

impl Refused {
    /// Creates the refusal of a request that has not been accepted.
    pub fn new(code: Code, message: impl Into<String>, remedy: &str) -> Self {
        let (message, remedy) = (message.into(), remedy.into());
        let refusal = Refusal { code, message, remedy, accepted: false, current_version: None };
        Self { refusal, retry_after: None }
    }

    fn after(self, delay: Duration) -> Self {
        Self { retry_after: Some(delay), ..self }
    }

    /// Returns the status, the cause and the time after which to retry, for another form.
    pub fn into_parts(self) -> (StatusCode, String, Option<Duration>) {
        (Self::status(self.refusal.code), self.refusal.message, self.retry_after)
    }

    /// Refuses a path that the port does not have; the remedy names the port that may have it.
    pub fn no_such_endpoint(path: &str) -> Self {
        let remedy = match path.starts_with("/v1/admin") {
            true => {
                "publishing and administration have a port of their own, whose address the server prints when it starts (--admin-listen): GET /v1/admin/databases lists its databases"
            }
            false => {
                "GET /v1/databases lists the databases at the port for clients (--listen): each has config, hint, keys and query below its name"
            }
        };
        Self::new(Code::NoSuchEndpoint, "there is no such endpoint", remedy)
    }

    pub fn method_not_allowed() -> Self {
        Self::new(
            Code::MethodNotAllowed,
            "the endpoint has no such method",
            "use one that the header Allow lists",
        )
    }

    pub fn internal(message: &str) -> Self {
        let mut refused = Self::new(
            Code::Internal,
            message,
            "try again; if it happens again, the operator finds the cause in the server's log",
        );
        refused.refusal.accepted = true;
        refused
    }

    pub fn wrong_content_type(wanted: &str) -> Self {
        Self::new(
            Code::WrongContentType,
            "the body is not of the content type that this endpoint takes",
            &format!("send Content-Type: {wanted}"),
        )
    }

    pub fn foreign_host() -> Self {
        Self::new(
            Code::Forbidden,
            "the request is for a host that this port for operators is not known as",
            "ask by an address, or name the host in admin_names (of a worker: --metrics-name)",
        )
    }

    pub fn foreign_origin() -> Self {
        Self::new(
            Code::Forbidden,
            "the request comes from a page of another origin",
            "use `spirea publish`, the server's own page, or a tool that sends no Origin",
        )
    }

    pub fn too_large(limit: u64) -> Self {
        Self::new(
            Code::TooLarge,
            format!("the body is longer than any for this database and endpoint: {limit} bytes are the most"),
            "send at most max_batch queries of query_bytes, or keys of keys_bytes, as the configuration says",
        )
    }

    pub fn slow_body() -> Self {
        Self::new(Code::SlowBody, "the body came too slowly", "try again, with fewer queries in a request")
    }

    pub fn broken_body() -> Self {
        Self::new(Code::Malformed, "the body ended early", "try again")
    }

    pub fn other_keys() -> Self {
        Self::new(
            Code::Malformed,
            "the keys do not have the hash that stands beside them",
            "send the keys again; if it happens again, something between client and server changes bytes",
        )
    }

    pub fn short_of_memory() -> Self {
        Self::new(Code::Overloaded, "too many requests are being received", "try again after Retry-After")
            .after(MEMORY_RETRY)
    }

    pub fn short_of_connection_memory() -> Self {
        Self::new(
            Code::Overloaded,
            "the server's connections hold as much memory as they may",
            "take the responses to earlier requests, then try again after Retry-After",
        )
        .after(MEMORY_RETRY)
    }

    /// Refuses to send a computed response, for which memory is short.
    pub fn response_above_memory() -> Self {
        let mut refused = Self::short_of_connection_memory();
        refused.refusal.accepted = true;
        refused
    }

    pub fn no_token() -> Self {
        Self::new(
            Code::Unauthenticated,
            "the request has no token",
            "send Authorization: Bearer and a token, which the operator makes with `spirea token new`",
        )
    }

    pub fn unknown_token() -> Self {
        Self::new(
            Code::Unauthenticated,
            "the server does not know the request's token",
            "check that the token is complete and is for this server; ask the operator for a new one",
        )
    }

    pub fn forbidden(scope: Scope) -> Self {
        Self::new(
            Code::Forbidden,
            format!("the request's token does not have the scope {scope}"),
            "use a token that has it, or ask the operator to add it",
        )
    }

    pub fn wrong_host() -> Self {
        Self::new(
            Code::Malformed,
            "the request names no host, or several",
            "send one header Host, as HTTP/1.1 wants it",
        )
    }

    pub fn wrong_request_id() -> Self {
        Self::new(
            Code::Malformed,
            "the header Spirea-Request-Id is no request's name",
            "send 32 hexadecimal digits drawn at random for each request, and the same for its retries, or no such header",
        )
    }

    pub fn too_many_requests() -> Self {
        Self::new(
            Code::Overloaded,
            "the server has as many requests as it serves at once",
            "try again after Retry-After",
        )
        .after(PLACE_RETRY)
    }

    pub fn too_many_of_client() -> Self {
        Self::new(
            Code::Overloaded,
            "this client has as much as one client may have at once",
            "wait for the responses to earlier requests, then try again; where all clients come from the address of one \
             proxy, the operator raises limits.client_requests and limits.client_body_memory",
        )
        .after(PLACE_RETRY)
    }

    pub fn too_many_of_token() -> Self {
        Self::new(
            Code::Overloaded,
            "the token has as many requests as it may have at once",
            "wait for the responses to earlier requests, then try again",
        )
        .after(PLACE_RETRY)
    }

    pub fn above_quota(quota: Quota) -> Self {
        Self::new(
            Code::QuotaExceeded,
            format!("the request has more queries than the token's quota of {quota} ever allows"),
            "send fewer queries in a request",
        )
    }

    pub fn quota_used_up(quota: Quota, time: Duration) -> Self {
        Self::new(
            Code::QuotaExceeded,
            format!("the token's quota of {quota} is used up"),
            "try again after Retry-After, or ask the operator for a larger quota",
        )
        .after(time)
    }

    pub fn no_keys_needed(protocol: &str) -> Self {
        Self::new(
            Code::NoKeysNeeded,
            format!("the protocol of this database, {protocol}, needs no keys from its clients"),
            "send queries without uploading keys",
        )
    }

    pub fn unknown_hint() -> Self {
        Self::new(
            Code::UnknownHint,
            "no version that is served has this hint",
            "fetch the configuration again: it names the hints of the version",
        )
    }

    pub fn bad_hash(name: &str) -> Self {
        Self::new(
            Code::Malformed,
            format!("{name} is not a hash of 64 hexadecimal digits"),
            "take hashes and versions from the database's configuration",
        )
    }

    pub fn bad_parameter(name: &str, remedy: &str) -> Self {
        Self::new(Code::Malformed, format!("{name} has a value that it cannot have"), remedy)
    }

    pub fn wrong_range(bytes: u64) -> Self {
        Self::new(
            Code::WrongRange,
            format!("the range lies outside the file of {bytes} bytes"),
            "download the file from its beginning",
        )
    }

    /// Returns true if the message was longer than any that the database takes.
    pub fn is_too_large(&self) -> bool {
        self.refusal.code == Code::TooLarge
    }

    /// Returns the status code for a cause.
    pub fn status(code: Code) -> StatusCode {
        match code {
            Code::Malformed | Code::WrongFormat => StatusCode::BAD_REQUEST,
            Code::WrongContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Code::UnknownDatabase | Code::NoKeysNeeded | Code::NoSuchEndpoint => StatusCode::NOT_FOUND,
            Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Code::StaleVersion | Code::NotPublishable | Code::Busy => StatusCode::CONFLICT,
            Code::UnknownHint => StatusCode::GONE,
            Code::Overloaded | Code::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::Loading | Code::Failed | Code::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            // The status is not 404 or 412, because a proxy or a cache may send these for other
            // reasons.
            Code::UnknownKeys => StatusCode::FAILED_DEPENDENCY,
            Code::WrongRange => StatusCode::RANGE_NOT_SATISFIABLE,
            Code::Internal | Code::Unspecified => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = (Self::status(self.refusal.code), self.refusal.encode()).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(spirea_wire::CONTENT_TYPE));
        if let Some(delay) = self.retry_after {
            // The delay is rounded up, because a retry a moment too early would be refused again.
            let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.refusal.code == Code::Unauthenticated {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self.refusal);
        response
    }
}

impl From<WireError> for Refused {
    fn from(error: WireError) -> Self {
        match error {
            WireError::TooLarge { limit, .. } => Self::too_large(limit),
            WireError::Format { .. } => Self::new(
                Code::WrongFormat,
                error.to_string(),
                "update the older of client and server; this server speaks format 1",
            ),
            _ => Self::new(
                Code::Malformed,
                error.to_string(),
                "send a message with lengths as the database's configuration says",
            ),
        }
    }
}

impl From<PublishError> for Refused {
    fn from(error: PublishError) -> Self {
        let message = error.to_string();
        match error {
            PublishError::UnknownDatabase => EngineError::UnknownDatabase.into(),
            PublishError::Fixed => Self::new(
                Code::NotPublishable,
                message,
                "serve a repository's folder that the server may write to: spirea publish makes one; or build a new snapshot in its place (--overwrite) and POST /v1/admin/reload",
            ),
            PublishError::NothingYet => {
                Self::new(Code::NotPublishable, message, "publish a snapshot of the table first")
            }
            PublishError::Follows(_) => {
                Self::new(Code::NotPublishable, message, "publish there; this server copies the version")
            }
            PublishError::UnknownFile => Self::new(
                Code::NoSuchEndpoint,
                message,
                "the version is kept no longer: ask for the current one, and for the files that it names",
            ),
            PublishError::Receive(ReceiveError::Malformed(_) | ReceiveError::Broken(_)) => {
                Self::new(Code::Malformed, message, "nothing has changed; send it again")
            }
            PublishError::Receive(ReceiveError::OtherDatabase { .. }) => Self::new(
                Code::Malformed,
                message,
                "nothing has changed; send it to its own database, or build it under this name (--name)",
            ),
            PublishError::Store(StoreError::Busy { .. }) => {
                Self::new(Code::Busy, message, "nothing has changed; try again when it is done")
            }
            PublishError::Store(StoreError::OtherCursor { .. }) => Self::new(
                Code::NotPublishable,
                message,
                "nothing has changed; ask for the versions, the newest of which has the cursor",
            ),
            PublishError::Store(StoreError::Io { .. }) | PublishError::Receive(_) | PublishError::Load(_) => {
                Self::new(Code::Internal, message, "nothing has changed; the server's log has more")
            }
            PublishError::Store(_) => {
                Self::new(Code::Malformed, message, "nothing has changed; correct it and send it again")
            }
        }
    }
}

impl From<ReloadError> for Refused {
    fn from(error: ReloadError) -> Self {
        let remedy = "the former versions go on answering; correct the snapshots and reload again";
        Self::new(Code::NotPublishable, error.to_string(), remedy)
    }
}

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        let mut refused = match error {
            EngineError::UnknownDatabase => {
                Self::new(Code::UnknownDatabase, message, "GET /v1/databases lists the databases")
            }
            EngineError::Loading => {
                Self::new(Code::Loading, message, "try again after Retry-After").after(LOADING_RETRY)
            }
            EngineError::NotYet => {
                let remedy =
                    "ask another replica, which may have the version, or try again after Retry-After";
                Self::new(Code::Loading, message, remedy).after(LOADING_RETRY)
            }
            EngineError::Failed => {
                Self::new(Code::Failed, message, "the operator finds the cause at /readyz and in the log")
                    .after(LOADING_RETRY)
            }
            EngineError::Stale { current } => {
                let remedy = "fetch the configuration and the hint again and make new queries";
                let mut refused = Self::new(Code::StaleVersion, message, remedy);
                refused.refusal.current_version = Some(current);
                refused
            }
            EngineError::Malformed(_) | EngineError::Protocol(ProtocolError::Malformed { .. }) => {
                Self::new(Code::Malformed, message, "make queries as the database's configuration says")
            }
            // The operator's set of machines is not revealed to clients.
            EngineError::Protocol(ProtocolError::Unanswered(_)) => {
                Self::internal("a part of the database did not answer in time")
            }
            EngineError::UnknownKeys => Self::new(
                Code::UnknownKeys,
                message,
                "upload the evaluation keys to this database's keys endpoint and send the same request again",
            ),
            EngineError::NoRoomForKeys => Self::new(
                Code::Internal,
                message,
                "the operator must allow more memory for keys, or name a folder for them",
            ),
            EngineError::Overloaded { retry_after } | EngineError::KeysInUse { retry_after } => {
                Self::new(Code::Overloaded, message, "try again after Retry-After").after(retry_after)
            }
            EngineError::Stopping => {
                Self::new(Code::Stopping, message, "try again after Retry-After").after(LOADING_RETRY)
            }
            // A backend's error may name files, so it goes to the log and not to clients.
            _ => return Self::internal("the computation failed"),
        };
        refused.refusal.accepted = false;
        refused
    }
}

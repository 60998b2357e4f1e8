//! HTTP endpoints of one database on one server, for many concurrent requests. Nothing is retried
//! here.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use spirea_client::{check_address, tls_config};
use spirea_console::access::tls;
use spirea_wire::{Code, MAX_REFUSAL_BYTES, Refusal};

/// Header with the id of a look-up. A retry has the same id, so that a server charges the look-up
/// once.
pub const REQUEST_ID: &str = "spirea-request-id";

/// Reason why a request has no answer.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The server explains its refusal.
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// Explanation of the server.
        refusal: Refusal,
    },
    /// A status without an explanation.
    Status(StatusCode),
    /// The request took longer than allowed.
    TimedOut,
    /// No connection was made.
    Unconnected,
    /// The connection broke.
    Broken,
    /// The response is not the expected message.
    Unusable,
}

impl Failure {
    /// Returns the code of the refusal, if the server refused the request before accepting it.
    pub fn refused_for(&self) -> Option<Code> {
        match self {
            Self::Refused { refusal, .. } if !refusal.accepted => Some(refusal.code),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { status, refusal } => write!(f, "refused: {} {:?}", status.as_u16(), refusal.code),
            Self::Status(status) => write!(f, "status {}", status.as_u16()),
            Self::TimedOut => f.write_str("timed out"),
            Self::Unconnected => f.write_str("no connection"),
            Self::Broken => f.write_str("connection broken"),
            Self::Unusable => f.write_str("unusable response"),
        }
    }
}

/// The endpoints of one database on one server.
pub struct Endpoint {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    database: String,
    authorization: Option<HeaderValue>,
    timeout: Duration,
}

/// Settings for reaching servers.
pub struct Reach<'a> {
    /// Token for the servers.
    pub token: Option<&'a str>,
    /// Certificates to trust instead of the public ones.
    pub ca: Option<&'a Path>,
    /// Timeout of a request.
    pub timeout: Duration,
}

impl Endpoint {
    /// Creates the endpoints of the database `name` on the server at `url`.
    pub fn new(url: &str, name: &str, reach: &Reach<'_>) -> anyhow::Result<Self> {
        check_address(url, reach.token.is_some())?;
        let database = format!("{}/v1/databases/{name}", url.trim_end_matches('/'));
        hyper::Uri::try_from(&database).with_context(|| format!("{database}: this is no address"))?;
        let authorization = reach.token.map(|token| {
            let mut value =
                HeaderValue::try_from(format!("Bearer {token}")).context("the token is no text")?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        });
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config(&tls(reach.ca)?))
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { http, database, authorization: authorization.transpose()?, timeout: reach.timeout })
    }

    /// Base URL of the database.
    pub fn url(&self) -> &str {
        &self.database
    }

    /// Fetches a resource of the database, at most `limit` bytes long.
    pub async fn get(&self, part: &str, limit: u64) -> Result<Bytes, Failure> {
        self.ask(self.request(Method::GET, part), Bytes::new(), limit).await
    }

    /// Sends a message, and returns the response, at most `limit` bytes long.
    pub async fn post(&self, part: &str, id: &str, message: Bytes, limit: u64) -> Result<Bytes, Failure> {
        let request = self.request(Method::POST, part);
        let request = request.header(CONTENT_TYPE, spirea_wire::CONTENT_TYPE).header(REQUEST_ID, id);
        self.ask(request, message, limit).await
    }

    fn request(&self, method: Method, part: &str) -> hyper::http::request::Builder {
        let request = Request::builder().method(method).uri(format!("{}/{part}", self.database));
        match &self.authorization {
            Some(token) => request.header(AUTHORIZATION, token.clone()),
            None => request,
        }
    }

    async fn ask(
        &self,
        request: hyper::http::request::Builder,
        body: Bytes,
        limit: u64,
    ) -> Result<Bytes, Failure> {
        let request = request.body(Full::new(body)).map_err(|_| Failure::Unconnected)?;
        let exchanged = tokio::time::timeout(self.timeout, self.exchange(request, limit));
        exchanged.await.unwrap_or(Err(Failure::TimedOut))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>, limit: u64) -> Result<Bytes, Failure> {
        let response = self.http.request(request).await.map_err(|error| match error.is_connect() {
            true => Failure::Unconnected,
            false => Failure::Broken,
        })?;
        let status = response.status();
        let limit = if status == StatusCode::OK { limit } else { MAX_REFUSAL_BYTES };
        let limited = Limited::new(response.into_body(), usize::try_from(limit).unwrap_or(usize::MAX));
        let body = limited.collect().await.map_err(|error| match error.is::<LengthLimitError>() {
            true => Failure::Unusable,
            false => Failure::Broken,
        });
        match (status, body) {
            (StatusCode::OK, body) => Ok(body?.to_bytes()),
            (_, Err(Failure::Broken)) => Err(Failure::Broken),
            (status, body) => {
                let refusal = body.ok().and_then(|body| Refusal::decode(body.to_bytes()).ok());
                Err(refusal.map_or(Failure::Status(status), |refusal| Failure::Refused { status, refusal }))
            }
        }
    }
}

//! HTTP for object stores: hyper, with the TLS configuration of Spirea's clients.

use std::error::Error;
use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::stream::try_unfold;
use http_body_util::{BodyExt as _, StreamBody};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect};
use hyper_util::rt::TokioExecutor;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

/// Timeout for connecting.
const CONNECTING: Duration = Duration::from_secs(10);
/// Timeout for a response, and for each further piece of its body.
const ANSWERING: Duration = Duration::from_secs(60);
/// Number of idle connections kept for each host.
const KEPT_CONNECTIONS: usize = 1;

/// Fault of a request. It reveals no part of the request except the host.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0} answers with status {1}{remedy}", remedy = remedy(*.1))]
    Status(String, u16),
    #[error("no connection to {0}: {1}")]
    Unconnected(String, String),
    #[error("{0} does not answer; try again later")]
    TimedOut(String),
    #[error("the connection broke; try again")]
    Broken,
    #[error("it changed while it was read; build again when it does not change")]
    Changed,
    #[error(
        "{0} is asked over http://, which anybody on the way could change; give an endpoint with https://, or set \
         AWS_ALLOW_HTTP=true"
    )]
    Plain(String),
}

fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => "; check the credentials in the environment, or the signature of the address",
        404 => "; check the address",
        _ => "",
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Status(_, 412) => Fault::Changed.into(),
            // The range begins beyond the end.
            Fault::Status(_, 416) => Self::new(io::ErrorKind::Unsupported, fault),
            fault => Self::other(fault),
        }
    }
}

/// Fault of a request's last attempt, if there was one.
#[derive(Clone, Debug, Default)]
pub(super) struct LastFault(Arc<Mutex<Option<Fault>>>);

impl LastFault {
    pub(super) fn get(&self) -> Option<Fault> {
        self.0.lock().clone()
    }

    pub(super) fn set(&self, fault: Option<Fault>) {
        *self.0.lock() = fault;
    }
}

/// Transport of a store, which remembers the last fault of its requests.
#[derive(Debug, Default)]
pub(super) struct Transport(LastFault);

impl Transport {
    pub(super) fn last_fault(&self) -> LastFault {
        self.0.clone()
    }
}

impl HttpConnector for Transport {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let plain = options.get_config_value(&ClientConfigKey::AllowHttp);
        let takes_plain = plain.is_some_and(|value| value == "true");
        Ok(HttpClient::new(Service { last_fault: self.last_fault(), takes_plain }))
    }
}

type Connections = Client<HttpsConnector<connect::HttpConnector>, HttpRequestBody>;

/// Connections shared by all stores, so that a table of many objects opens few connections.
static CONNECTIONS: LazyLock<Connections> = LazyLock::new(|| {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut connector = connect::HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECTING));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Client::builder(TokioExecutor::new()).pool_max_idle_per_host(KEPT_CONNECTIONS).build(connector)
});

#[derive(Debug)]
struct Service {
    last_fault: LastFault,
    takes_plain: bool,
}

#[async_trait::async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let failed = |kind, fault: Fault| {
            self.last_fault.set(Some(fault.clone()));
            HttpError::new(kind, fault)
        };
        if request.uri().scheme_str() == Some("http") && !self.takes_plain {
            return Err(failed(HttpErrorKind::Unknown, Fault::Plain(host)));
        }
        let response = match timeout(ANSWERING, CONNECTIONS.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                let cause = innermost(&error);
                return Err(failed(HttpErrorKind::Connect, Fault::Unconnected(host, cause)));
            }
            Ok(Err(_)) => return Err(failed(HttpErrorKind::Request, Fault::Broken)),
            Err(_) => return Err(failed(HttpErrorKind::Timeout, Fault::TimedOut(host))),
        };
        let status = response.status();
        let fault = (!status.is_success()).then(|| Fault::Status(host.clone(), status.as_u16()));
        self.last_fault.set(fault.clone());
        let (parts, body) = response.into_parts();
        let body = (body, self.last_fault.clone(), host);
        let frames = try_unfold(body, |(mut body, last_fault, host)| async move {
            let (kind, fault) = match timeout(ANSWERING, body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => return Ok(Some((frame, (body, last_fault, host)))),
                Ok(Some(Err(_))) => (HttpErrorKind::Interrupted, Fault::Broken),
                Err(_) => (HttpErrorKind::Timeout, Fault::TimedOut(host)),
            };
            last_fault.set(Some(fault.clone()));
            Err(HttpError::new(kind, fault))
        });
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(StreamBody::new(Box::pin(frames)))))
    }
}

/// Returns the text of the innermost cause of an error, which quotes no address.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

//! The endpoints.

mod admin;
mod control;
mod endpoints;
mod hint;
mod keys;
mod openapi;
mod page;
mod publish;
mod query;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::header::{ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE, ETAG, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use spirea_engine::{Database, Engine, EngineError, Served};
use spirea_protocols::{ProtocolError, Sizes};
use spirea_wire::{Lengths, Limits};
use tokio::sync::Mutex;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, Any as AnyOrigin, CorsLayer};

use self::endpoints::{Endpoint, admin_endpoints, data_endpoints};
use crate::access::{Caller, Gate, OperatorNames, Scope};
use crate::body::{BodyMemory, Received, Upload};
use crate::held::Held;
use crate::library::Library;
use crate::metrics::Metrics;
use crate::observe::observe;
use crate::refused::Refused;
use crate::tls::Certificates;
use crate::traces::Traces;

/// What the endpoints share.
pub(crate) struct App {
    pub engine: Arc<Engine>,
    pub metrics: Metrics,
    pub memory: BodyMemory,
    pub read_timeout: Duration,
    /// Held while uploaded keys are prepared.
    pub preparing: Arc<Mutex<()>>,
    pub gate: Arc<Gate>,
    /// What the port for operators is known as.
    pub operator_names: OperatorNames,
    pub certificates: Option<Arc<Certificates>>,
    pub started: Instant,
    /// Where traces go to, if anywhere.
    pub traces: Option<Traces>,
    /// Whether the server is about to stop.
    pub leaving: AtomicBool,
    /// What publishes versions; none if the caller loaded the engine's databases.
    pub library: Option<Arc<Library>>,
}

impl App {
    /// When the certificate expires, if there is one.
    fn certificate_expiry(&self) -> Option<SystemTime> {
        self.certificates.as_ref().map(|certificates| certificates.expires())
    }

    /// The message that was sent for a database, at most `limit` bytes.
    async fn receive(
        &self,
        database: &str,
        upload: Upload,
        limit: u64,
        caller: &Caller,
    ) -> Result<Received, Refused> {
        let received = upload.receive(limit, self.read_timeout, &self.memory, caller).await?;
        self.metrics.of(database).received.inc_by(received.bytes.len() as u64);
        Ok(received)
    }
}

/// Lengths of a version's messages.
fn limits(served: &Served) -> Limits {
    Limits {
        base: lengths(served.base()),
        delta: served.delta().map(|delta| lengths(delta)),
        max_batch: served.max_batch(),
    }
}

fn lengths(database: &Database) -> Lengths {
    let Sizes { query_bytes, answer_bytes, keys_bytes, .. } = database.sizes();
    Lengths { query_bytes, answer_bytes, keys_bytes }
}

/// Runs what takes long on a thread that serves nobody else meanwhile.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    // The panic's own words have gone to standard error.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(EngineError::Panicked))
}

/// The operator must learn why a computation failed; no error carries anything of a query's content.
fn log_failure(error: &EngineError) {
    match error {
        EngineError::Protocol(ProtocolError::Malformed { .. }) => (),
        EngineError::NoRoomForKeys => tracing::error!(%error, "keys cannot be registered"),
        error if error.accepted() => tracing::error!(%error, "a computation failed"),
        _ => (),
    }
}

/// The database that a path names.
struct Name(String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        // A name that is no text is the name of no database.
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(name)| Self(name)).map_err(|_| EngineError::UnknownDatabase.into())
    }
}

/// How long a browser may remember what it may ask for.
const CORS_MEMORY: Duration = Duration::from_secs(24 * 60 * 60);

/// The port for clients.
pub(crate) fn data(app: &Arc<App>) -> Router {
    // Any page may ask: there are no cookies, and a page that has a token got it from its user. The headers are
    // mirrored, since a browser does not count Authorization among any.
    let cors = CorsLayer::new()
        .allow_origin(AnyOrigin)
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([ACCEPT_RANGES, CONTENT_RANGE, ETAG, RETRY_AFTER])
        .max_age(CORS_MEMORY);
    let observed = middleware::from_fn_with_state(Arc::clone(app), observe);
    router(app, data_endpoints()).layer(cors).layer(observed)
}

/// The port for operators and publishers. No page of another origin may ask here.
pub(crate) fn admin(app: &Arc<App>) -> Router {
    let operators = middleware::from_fn_with_state(Arc::clone(app), operators_only);
    let observed = middleware::from_fn_with_state(Arc::clone(app), observe);
    router(app, admin_endpoints()).layer(operators).layer(observed)
}

async fn operators_only(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match app.operator_names.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

fn router(app: &Arc<App>, endpoints: Vec<Endpoint>) -> Router {
    let add = |router: Router<Arc<App>>, Endpoint { path, scope, handler, .. }: Endpoint| {
        let admitted = |scope| middleware::from_fn_with_state((Arc::clone(&app.gate), scope), admit);
        router.route(
            path,
            match scope {
                Some(scope) => handler.route_layer(admitted(scope)),
                None => handler,
            },
        )
    };
    endpoints
        .into_iter()
        .fold(Router::new(), add)
        .fallback(|| async { Refused::no_such_endpoint() })
        .method_not_allowed_fallback(|| async { Refused::no_such_endpoint() })
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(Arc::clone(app))
}

/// Lets a request in, or refuses it; its place is taken until its response has been sent.
async fn admit(
    State((gate, scope)): State<(Arc<Gate>, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    match gate.admit(&request, scope) {
        Ok((caller, place)) => {
            request.extensions_mut().insert(caller);
            Held::attach(next.run(request).await, place)
        }
        Err(refused) => refused.into_response(),
    }
}

// The panic's own words may hold anything; the default hook has written them to standard error.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    Refused::internal("the request was aborted by a defect").into_response()
}

/// A response with a message.
fn protobuf(message: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(spirea_wire::CONTENT_TYPE))], message).into_response()
}

/// The entity tag of something that has a hash.
fn entity_tag(hash: &[u8; 32]) -> HeaderValue {
    let tag = format!("\"{}\"", blake3::Hash::from_bytes(*hash).to_hex());
    HeaderValue::try_from(tag).expect("hexadecimal digits in quotes are a header's value")
}

/// Whether a header that lists entity tags, such as `If-None-Match`, has this one.
fn lists_tag(headers: &HeaderMap, name: HeaderName, tag: &HeaderValue) -> bool {
    let tag = tag.as_bytes();
    let values =
        headers.get_all(name).into_iter().flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    values
        .map(<[u8]>::trim_ascii)
        .any(|listed| listed == b"*" || listed.strip_prefix(b"W/").unwrap_or(listed) == tag)
}

/// The hash that the query string gives under a name, if it gives one.
fn named_hash(uri: &Uri, name: &'static str) -> Result<Option<[u8; 32]>, Refused> {
    let mut pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let Some((_, digits)) = pairs.find(|(key, _)| *key == name) else { return Ok(None) };
    match blake3::Hash::from_hex(digits) {
        Ok(hash) => Ok(Some(hash.into())),
        Err(_) => Err(Refused::bad_hash(name)),
    }
}

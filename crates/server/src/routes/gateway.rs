//! The OHTTP gateway for Apple's clients (RFC 9458): requests that a relay forwards without their
//! client's address. The gateway passes them to `/config`, `/key` and `/queries` of this server,
//! and nowhere else.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::response::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use spirea_apple::messages::MAX_INBOUND_BYTES;
use spirea_apple::ohttp::{BinaryRequest, BinaryResponse, MessageError, OpenError, Sealer};
use tower_http::catch_panic::CatchPanicLayer;

use super::apple::{Enclosed, admit_anyone};
use super::endpoint::Endpoint;
use crate::access::Caller;
use crate::app::App;
use crate::apple::{AppleRefused, GatewayKeys};
use crate::body::{Upload, has_type};
use crate::memory::ResponseMemory;
use crate::observe::NO_ENDPOINT;
use crate::problem::PROBLEM;
use crate::refused::Refused;

/// Media types of RFC 9458.
pub(super) const KEYS: &str = "application/ohttp-keys";
pub(super) const REQUEST: &str = "message/ohttp-req";
pub(super) const RESPONSE: &str = "message/ohttp-res";

/// Type of problems that another key configuration solves (RFC 9458, section 5.3).
const KEY_PROBLEM: &str = "https://iana.org/assignments/http-problem-types#ohttp-key";
/// Maximum length of an encapsulated request, in bytes: the longest message, with room for fields
/// and padding.
const MAX_REQUEST_BYTES: u64 = (MAX_INBOUND_BYTES + (256 << 10)) as u64;
/// Header fields that the endpoints read. Others are dropped.
const READ: [&str; 3] = ["authorization", "user-agent", "user-identifier"];

/// The endpoints to which the gateway passes requests.
#[derive(Clone)]
pub(super) struct Inside {
    router: Router,
    paths: [&'static str; 3],
}

impl Inside {
    pub fn new(app: &Arc<App>, endpoints: [Endpoint; 3]) -> Self {
        let paths = std::array::from_fn(|i| endpoints[i].path);
        let router = endpoints
            .into_iter()
            .fold(Router::new(), |router, endpoint| router.route(endpoint.path, endpoint.handler))
            .fallback(async || {
                let message = "the gateway leads to /config, /key and /queries alone";
                AppleRefused::new(StatusCode::NOT_FOUND, message)
            })
            .method_not_allowed_fallback(async || {
                let refused = AppleRefused::new(StatusCode::METHOD_NOT_ALLOWED, "the endpoint takes POST");
                ([(ALLOW, HeaderValue::from_static("POST"))], refused)
            })
            .layer(CatchPanicLayer::custom(|_| AppleRefused::from(aborted()).into_response()));
        Self { router: router.with_state(Arc::clone(app)), paths }
    }

    /// Returns the endpoint of a path, for metrics and the log. Other paths are client input.
    fn endpoint(&self, path: &str) -> &'static str {
        self.paths.into_iter().find(|known| *known == path).unwrap_or(NO_ENDPOINT)
    }

    async fn respond(self, request: Request) -> Response {
        let response: Result<_, Infallible> = TowerToHyperService::new(self.router).call(request).await;
        response.unwrap_or_else(|never| match never {})
    }
}

// The panic hook has written the panic's message to standard error.
fn aborted() -> Refused {
    Refused::internal("the request was aborted by a defect")
}

/// Reason why a request has no encapsulated response.
enum Unopened {
    Refused(AppleRefused),
    Encapsulation(OpenError),
}

impl<R: Into<AppleRefused>> From<R> for Unopened {
    fn from(refused: R) -> Self {
        Self::Refused(refused.into())
    }
}

impl IntoResponse for Unopened {
    fn into_response(self) -> Response {
        let error = match self {
            Self::Refused(refused) => return refused.into_response(),
            Self::Encapsulation(error) => error,
        };
        let mut problem = json!({ "title": "Encapsulated request not opened", "detail": error.to_string() });
        if error != OpenError::Truncated {
            problem["type"] = KEY_PROBLEM.into();
        }
        let content_type = [(CONTENT_TYPE, HeaderValue::from_static(PROBLEM))];
        (StatusCode::BAD_REQUEST, content_type, problem.to_string()).into_response()
    }
}

/// Returns the name of an error in metrics.
fn name(error: OpenError) -> &'static str {
    match error {
        OpenError::Truncated => "truncated",
        OpenError::Key(_) => "unknown_key",
        OpenError::Algorithms => "other_algorithms",
        _ => "undecryptable",
    }
}

/// Returns the gateway's keys, if there is a gateway.
fn gateway(app: &App) -> Result<&GatewayKeys, AppleRefused> {
    let missing = || AppleRefused::new(StatusCode::NOT_FOUND, "this server is no OHTTP gateway");
    app.apple.gateway.as_deref().ok_or_else(missing)
}

pub(super) async fn keys(State(app): State<Arc<App>>, request: Request) -> Response {
    admit_anyone(&app, request, async |_, _| {
        let configs = gateway(&app)?.gateway().key_configs();
        Ok(([(CONTENT_TYPE, HeaderValue::from_static(KEYS))], configs).into_response())
    })
    .await
}

pub(super) async fn open(
    State(app): State<Arc<App>>,
    Extension(memory): Extension<ResponseMemory>,
    Extension(inside): Extension<Inside>,
    request: Request,
) -> Response {
    admit_anyone(&app, request, async |request, caller| {
        Ok(opened(&app, memory, inside, request, caller).await.into_response())
    })
    .await
}

/// Removes a request's encapsulation, and returns the encapsulated response.
async fn opened(
    app: &App,
    memory: ResponseMemory,
    inside: Inside,
    request: Request,
    caller: Caller,
) -> Result<Response, Unopened> {
    let gateway = gateway(app)?.gateway();
    if !has_type(request.headers(), REQUEST) {
        return Err(Refused::wrong_content_type(REQUEST).into());
    }
    let mut body = app.receive("", Upload::of_any_type(request), MAX_REQUEST_BYTES, &caller).await?;
    let open = move || {
        // The message is decrypted in place, in memory that `body` has reserved.
        let (message, sealer) = gateway.open(Vec::from(std::mem::take(&mut body.bytes)))?;
        Ok((BinaryRequest::from_bytes(message), body, sealer))
    };
    let (message, mut body, sealer) = computed(open).await?.map_err(|error| {
        app.metrics.through_gateway(name(error));
        Unopened::Encapsulation(error)
    })?;
    let response = match enclosed(message) {
        Ok((mut request, content)) => {
            app.metrics.through_gateway("answered");
            body.bytes = content;
            request.extensions_mut().insert(memory.clone());
            request.extensions_mut().insert(Enclosed { caller, body });
            let endpoint = inside.endpoint(request.uri().path());
            let response = inside.respond(request).await;
            let status = response.status().as_u16();
            // Counts 0 bytes, because the bytes of the encapsulating response are counted.
            app.metrics.responded("", endpoint, status, 0);
            tracing::info!(endpoint, status, "request through the gateway");
            response
        }
        Err(refused) => {
            app.metrics.through_gateway("unreadable");
            refused.into_response()
        }
    };
    encapsulated(response, sealer, &memory).await
}

/// Runs a computation on the blocking pool.
async fn computed<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
    tokio::task::spawn_blocking(work).await.map_err(|_| aborted())
}

/// Splits the request in a message into the request without its content, and the content. Nothing
/// of the encapsulating request is passed on.
fn enclosed(message: Result<BinaryRequest, MessageError>) -> Result<(Request, Bytes), AppleRefused> {
    let wrong = |part: &str| AppleRefused::bad_request(format!("the {part} inside is not one of HTTP"));
    let BinaryRequest { method, path, fields, content, .. } =
        message.map_err(|error| AppleRefused::bad_request(error.to_string()))?;
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::from_bytes(&method).map_err(|_| wrong("method"))?;
    *request.uri_mut() = PathAndQuery::from_maybe_shared(path).map_err(|_| wrong("path"))?.into();
    for (name, value) in fields {
        if let Some(read) = READ.into_iter().find(|read| name == *read) {
            let value = HeaderValue::from_maybe_shared(value).map_err(|_| wrong(read))?;
            request.headers_mut().append(HeaderName::from_static(read), value);
        }
    }
    Ok((request, content))
}

/// Encrypts a response. If there is no memory for its encrypted form, encrypts a refusal instead.
async fn encapsulated(
    response: Response,
    sealer: Sealer,
    memory: &ResponseMemory,
) -> Result<Response, Unopened> {
    let mut whole = Whole::of(response).await?;
    let bytes = (whole.message().encoded_bytes() + Sealer::OVERHEAD) as u64;
    let reserved = memory.reserve(bytes);
    if reserved.is_none() {
        let refused = AppleRefused::from(Refused::short_of_connection_memory());
        whole = Whole::of(refused.into_response()).await?;
    }
    let (sealed, reserved) = computed(move || (sealer.seal(&whole.message()), reserved)).await?;
    let sealed = sealed.map_err(|error| Refused::internal(&error.to_string()))?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(RESPONSE)),
        (CACHE_CONTROL, HeaderValue::from_static("private, no-store")),
    ];
    let mut response = (headers, sealed).into_response();
    if let Some(reserved) = reserved {
        response.extensions_mut().insert(reserved);
    }
    Ok(response)
}

/// A response whose content is complete.
struct Whole {
    head: Parts,
    content: Bytes,
}

impl Whole {
    async fn of(response: Response) -> Result<Self, Refused> {
        let (head, body) = response.into_parts();
        let content = body.collect().await.map_err(|_| aborted())?.to_bytes();
        Ok(Self { head, content })
    }

    fn message(&self) -> BinaryResponse<'_> {
        let fields = self.head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        BinaryResponse { status: self.head.status.as_u16(), fields: fields.collect(), content: &self.content }
    }
}

//! The endpoints.

mod admin;
mod compute;
mod control;
mod endpoint;
mod endpoints;
mod hint;
mod keys;
mod lengths;
mod openapi;
mod page;
mod publish;
mod query;
mod request;
mod response;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::header::{ACCEPT_RANGES, CONTENT_RANGE, ETAG, RETRY_AFTER};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, Any as AnyOrigin, CorsLayer};

use self::endpoint::Endpoint;
use self::endpoints::{admin_endpoints, data_endpoints};
use crate::access::{Gate, Scope};
use crate::app::App;
use crate::held::Held;
use crate::observe::observe;
use crate::refused::Refused;

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

/// Lets a request in, or refuses it; its permit is held until its response has been sent.
async fn admit(
    State((gate, scope)): State<(Arc<Gate>, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    match gate.admit(&request, scope) {
        Ok((caller, permit)) => {
            request.extensions_mut().insert(caller);
            Held::attach(next.run(request).await, permit)
        }
        Err(refused) => refused.into_response(),
    }
}

// The panic's own words may hold anything; the default hook has written them to standard error.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    Refused::internal("the request was aborted by a defect").into_response()
}

//! The endpoints.

mod admin;
mod apple;
mod compute;
mod control;
mod cors;
mod demo;
mod endpoint;
mod endpoints;
mod follow;
mod gateway;
mod hint;
mod issuer;
mod keys;
mod lengths;
mod openapi;
mod page;
mod publish;
mod query;
mod ranged;
mod request;
mod response;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use axum::{Extension, Router};
use tower_http::catch_panic::CatchPanicLayer;

use self::cors::admit_pages;
use self::endpoint::Endpoint;
use self::endpoints::{admin_endpoints, apple_endpoints, data_endpoints};
use self::gateway::Inside;
use crate::access::{Gate, Scope, one_host};
use crate::app::App;
use crate::held::Held;
use crate::observe::observe;
use crate::problem::negotiate;
use crate::refused::Refused;

/// Returns the router of the port for clients.
pub(crate) fn data(app: &Arc<App>) -> Router {
    let observed = middleware::from_fn_with_state(Arc::clone(app), observe);
    let negotiated = middleware::from_fn(negotiate);
    let page = app.demo.clone().map_or_else(Router::new, demo::page);
    router(app, data_endpoints())
        .layer(Extension(Inside::new(app, apple_endpoints())))
        .merge(page)
        .layer(middleware::from_fn(one_host))
        .layer(negotiated)
        .layer(middleware::from_fn(admit_pages))
        .layer(observed)
}

/// Returns the router of the port for operators and publishers. It refuses pages of other origins.
pub(crate) fn admin(app: &Arc<App>) -> Router {
    let observed = middleware::from_fn_with_state(Arc::clone(app), observe);
    let added = app.extension.as_ref().map_or_else(Router::new, |extension| {
        let admitted = middleware::from_fn_with_state((Arc::clone(&app.gate), Scope::Admin), admit);
        extension.admin().route_layer(admitted).layer(CatchPanicLayer::custom(panicked))
    });
    let names = app.operator_names.clone();
    names
        .guard(router(app, admin_endpoints()).merge(added))
        .layer(middleware::from_fn(negotiate))
        .layer(observed)
}

fn router(app: &Arc<App>, endpoints: Vec<Endpoint>) -> Router {
    let mut paths: BTreeMap<_, (Vec<Method>, MethodRouter<_>)> = BTreeMap::new();
    for Endpoint { method, path, scope, handler, .. } in endpoints {
        let admitted = |scope| middleware::from_fn_with_state((Arc::clone(&app.gate), scope), admit);
        let handler = match scope {
            Some(scope) => handler.route_layer(admitted(scope)),
            None => handler,
        };
        let (methods, handlers) = paths.entry(path).or_default();
        methods.push(method);
        *handlers = std::mem::take(handlers).merge(handler);
    }
    let add = |router: Router<_>, (path, (methods, handlers)): (_, (Vec<Method>, MethodRouter<_>))| {
        let allow = allow(&methods);
        router.route(path, handlers.fallback(|method| other_method(method, allow)))
    };
    paths
        .into_iter()
        .fold(Router::new(), add)
        .fallback(|uri: Uri| async move { Refused::no_such_endpoint(uri.path()) })
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(Arc::clone(app))
}

/// Returns the value of `Allow` for a path's methods: `GET` implies `HEAD`, and `OPTIONS` lists the
/// methods.
fn allow(methods: &[Method]) -> HeaderValue {
    let mut names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    names.extend(methods.contains(&Method::GET).then_some("HEAD"));
    names.push("OPTIONS");
    HeaderValue::try_from(names.join(", ")).expect("names of methods are a header's value")
}

/// Responds to a method without a handler: lists the methods that the path has.
async fn other_method(method: Method, allow: HeaderValue) -> Response {
    let mut response = match method {
        Method::OPTIONS => ().into_response(),
        _ => Refused::method_not_allowed().into_response(),
    };
    response.headers_mut().insert(ALLOW, allow);
    response
}

/// Admits or refuses a request; its permit is held until its response has been sent.
async fn admit(
    State((gate, scope)): State<(Arc<Gate>, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    match gate.admit(&request, scope) {
        Ok((caller, permit)) => {
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(permit.clone());
            Held::attach(next.run(request).await, permit)
        }
        Err(refused) => refused.into_response(),
    }
}

// The panic's message may contain anything; the default hook has written it to standard error.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    Refused::internal("the request was aborted by a defect").into_response()
}

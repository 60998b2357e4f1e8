use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodRouter, get};
use spirea_wire::Code;

use crate::access::Scope;
use crate::app::App;

/// Pattern of a hash in a request.
pub(super) const HASH: &str = "^[0-9a-fA-F]{64}$";

/// An endpoint: its scope, its handler and its possible responses. The routers and the OpenAPI
/// document are both made from endpoints.
pub(super) struct Endpoint {
    pub method: Method,
    pub path: &'static str,
    /// Scope that a token needs; `None` if no token is needed.
    pub scope: Option<Scope>,
    pub summary: &'static str,
    pub parameters: &'static [Parameter],
    /// Required content type of the request's body; `None` if there is no body.
    pub body: Option<&'static str>,
    pub successes: Vec<Success>,
    /// Codes of refusals, besides those that any endpoint may return.
    pub causes: Vec<Code>,
    pub handler: MethodRouter<Arc<App>>,
}

impl Endpoint {
    /// Creates a GET endpoint that is open to everyone. `successes` also lists its refusals, if it
    /// has any.
    pub fn open<H: Handler<T, Arc<App>>, T: 'static>(
        path: &'static str,
        summary: &'static str,
        successes: Vec<Success>,
        handler: H,
    ) -> Self {
        let (method, handler) = (Method::GET, get(handler));
        Self {
            method,
            path,
            scope: None,
            summary,
            parameters: &[],
            body: None,
            successes,
            causes: Vec::new(),
            handler,
        }
    }
}

/// A successful response. One status may have several, with different content types.
#[derive(Clone, Copy)]
pub(super) struct Success {
    pub status: u16,
    /// Content type of the body; empty if there is none.
    pub content_type: &'static str,
    /// Name of the body's schema in `schemas.json`; empty if the body is not JSON.
    pub schema: &'static str,
    /// Headers that the response always has.
    pub headers: &'static [Header],
    pub text: &'static str,
}

impl Success {
    pub const fn with(self, headers: &'static [Header]) -> Self {
        Self { headers, ..self }
    }
}

/// A parameter of a request, outside the path.
pub(super) struct Parameter {
    pub name: &'static str,
    /// `query` or `header`.
    pub place: &'static str,
    /// Pattern of the value; empty if any value is allowed.
    pub pattern: &'static str,
    pub text: &'static str,
}

/// A response header: its name, the pattern of its value, and its meaning.
pub(super) type Header = (&'static str, &'static str, &'static str);

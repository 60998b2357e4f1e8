use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodRouter, get};
use spirea_wire::Code;

use crate::access::Scope;
use crate::app::App;

/// An endpoint: who may ask, what answers, and what it may say. The routers and their description are made of these.
pub(super) struct Endpoint {
    pub method: Method,
    pub path: &'static str,
    /// The scope that a token needs; none for what needs no token.
    pub scope: Option<Scope>,
    pub summary: &'static str,
    pub parameters: &'static [Parameter],
    /// The content type of the request's body; none if it has no body.
    pub body: Option<&'static str>,
    pub successes: Vec<Success>,
    /// Why it may refuse, beside what any endpoint may.
    pub causes: Vec<Code>,
    pub handler: MethodRouter<Arc<App>>,
}

impl Endpoint {
    /// An endpoint that anybody may GET, and that refuses nothing.
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

/// What an endpoint gives when it does not refuse.
pub(super) struct Success {
    pub status: u16,
    /// The type of its body; empty if there is none.
    pub content_type: &'static str,
    pub text: &'static str,
}

/// What may be said beside the path: its name, where it stands, and what it means.
pub(super) type Parameter = (&'static str, &'static str, &'static str);

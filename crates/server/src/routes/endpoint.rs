use std::sync::Arc;

use axum::handler::Handler;
use axum::http::{HeaderValue, Method};
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
    /// The content type of the request's body, which it must have; none if it has no body.
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

    /// The methods that its path takes: `HEAD` goes where `GET` goes, and `OPTIONS` tells of them.
    pub fn allow(&self) -> HeaderValue {
        let head = if self.method == Method::GET { "HEAD, " } else { "" };
        let methods = format!("{}, {head}OPTIONS", self.method);
        HeaderValue::try_from(methods).expect("names of methods are a header's value")
    }
}

/// What an endpoint gives when it does not refuse. One status may have several, of different types.
#[derive(Clone, Copy)]
pub(super) struct Success {
    pub status: u16,
    /// The type of its body; empty if there is none.
    pub content_type: &'static str,
    /// The name of the body's schema in `schemas.json`; empty if it is no JSON.
    pub schema: &'static str,
    /// The headers that it always has.
    pub headers: &'static [Header],
    pub text: &'static str,
}

impl Success {
    pub const fn with(self, headers: &'static [Header]) -> Self {
        Self { headers, ..self }
    }
}

/// What may be said beside the path.
pub(super) struct Parameter {
    pub name: &'static str,
    /// `query` or `header`.
    pub place: &'static str,
    /// What it must match; empty if it may be anything.
    pub pattern: &'static str,
    pub text: &'static str,
}

/// A header of a response: its name, what it matches, and what it means.
pub(super) type Header = (&'static str, &'static str, &'static str);

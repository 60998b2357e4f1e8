//! Pages that are part of the program: the page for operators, whose three files use the same
//! endpoints as everybody else, and the page that tells a browser where it is.

use std::sync::Arc;

use axum::extract::State;

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};

use crate::app::App;

const HTML: &str = "text/html; charset=utf-8";

/// Policy of a page with an inline style that loads nothing.
const STATIC_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
/// Policy of a page that may load its own files and send requests to its own server, and nothing
/// else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; \
     base-uri 'none'; frame-ancestors 'none'";

/// `GET /` of the port for clients: tells a person what this server is, and where to continue.
pub(super) async fn welcome(State(app): State<Arc<App>>) -> Response {
    const DEMO: &str = "<li><a href=\"/demo/\">Look something up</a>: the demo page</li>";
    let demo = app.demo.as_ref().map_or("", |_| DEMO);
    let page = include_str!("../page/welcome.html").replace("<!-- demo -->", demo);
    file(HTML, STATIC_POLICY, page)
}

pub(super) async fn index() -> Response {
    file(HTML, POLICY, include_str!("../page/index.html"))
}

pub(super) async fn script() -> Response {
    file("text/javascript; charset=utf-8", POLICY, include_str!("../page/page.js"))
}

pub(super) async fn style() -> Response {
    file("text/css; charset=utf-8", POLICY, include_str!("../page/page.css"))
}

fn file(content_type: &'static str, policy: &'static str, content: impl IntoResponse) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, content).into_response()
}

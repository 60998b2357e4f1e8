//! The operator's page: three files compiled into the program. The page gets its data from the same
//! endpoints as any other client.

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};

/// The page may load its own files and send requests to its own server, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; \
     base-uri 'none'; frame-ancestors 'none'";

pub(super) async fn index() -> Response {
    file("text/html; charset=utf-8", include_str!("../page/index.html"))
}

pub(super) async fn script() -> Response {
    file("text/javascript; charset=utf-8", include_str!("../page/page.js"))
}

pub(super) async fn style() -> Response {
    file("text/css; charset=utf-8", include_str!("../page/page.css"))
}

fn file(content_type: &'static str, content: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, content).into_response()
}

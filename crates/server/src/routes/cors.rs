//! CORS: pages of any origin may use the port for clients. This is safe: the server uses no
//! cookies, and a page has a token only if its user gave it one.

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;

const METHODS: HeaderValue = HeaderValue::from_static("GET,HEAD,POST");
/// Response headers that a page may read, besides those that every page may read.
const READABLE: HeaderValue = HeaderValue::from_static("accept-ranges,content-range,etag,retry-after");
/// Time for which a browser may cache these permissions: a day, in seconds.
const MEMORY: HeaderValue = HeaderValue::from_static("86400");

/// Adds the CORS headers. They allow requests from pages, and list the response headers that pages
/// may read. Every `OPTIONS` request is treated as a preflight, and also gets the methods of its
/// path; the layer of `tower_http` would respond without them.
pub(super) async fn admit_pages(request: Request, next: Next) -> Response {
    let preflight = request.method() == Method::OPTIONS;
    let asked = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    if preflight {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, MEMORY);
        // Mirrors the requested headers, since the wildcard does not include `Authorization`.
        headers.extend(asked.map(|asked| (ACCESS_CONTROL_ALLOW_HEADERS, asked)));
    } else {
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, READABLE);
    }
    response
}

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::{HeaderMap, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::refused::Refused;

/// Refuses requests that name no host or several: a proxy and the server might each read a
/// different one. HTTP/2 names the host in `:authority`; HTTP/1.0 probes need no host (RFC 9112,
/// section 3.2).
pub(crate) async fn one_host(request: Request, next: Next) -> Response {
    if is_named(request.version(), request.headers()) {
        next.run(request).await
    } else {
        Refused::wrong_host().into_response()
    }
}

fn is_named(version: Version, headers: &HeaderMap) -> bool {
    let hosts = headers.get_all(HOST).iter().count();
    hosts == 1 || hosts == 0 && version != Version::HTTP_11
}

//! The issuer of private tokens for Apple's clients: its directory, a user's key, and tokens.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use spirea_apple::privacy_pass::TokenRequest;

use super::apple::{admit_anyone, computed};
use crate::app::App;
use crate::apple::{AppleRefused, Issuer};
use crate::body::Upload;

/// Media types of RFC 9578.
pub(super) const DIRECTORY: &str = "application/private-token-issuer-directory";
pub(super) const REQUEST: &str = "application/private-token-request";
pub(super) const RESPONSE: &str = "application/private-token-response";

/// Returns the issuer, if the file of private tokens has private keys.
fn issuer(app: &App) -> Result<Arc<Issuer>, AppleRefused> {
    let issuer = app.apple.tokens.as_ref().and_then(|tokens| tokens.issuer());
    issuer.ok_or_else(|| AppleRefused::new(StatusCode::NOT_FOUND, "this server issues no private tokens"))
}

fn typed(content_type: &'static str, body: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(content_type))], body).into_response()
}

pub(super) async fn directory(State(app): State<Arc<App>>, request: Request) -> Response {
    admit_anyone(&app, request, async |_, _| {
        Ok(typed(DIRECTORY, issuer(&app)?.directory().to_string().into_bytes()))
    })
    .await
}

pub(super) async fn key(State(app): State<Arc<App>>, request: Request) -> Response {
    admit_anyone(&app, request, async |request, _| {
        Ok(typed("application/octet-stream", issuer(&app)?.user(request.headers())?.key()))
    })
    .await
}

pub(super) async fn issue(State(app): State<Arc<App>>, request: Request) -> Response {
    admit_anyone(&app, request, async |request, caller| {
        // The user is identified before the body is read.
        let issuer = issuer(&app)?;
        let user = issuer.user(request.headers())?;
        let limit = TokenRequest::BYTES as u64;
        let body = app.receive("", Upload::of_any_type(request), limit, &caller).await?;
        computed(&app, move || Ok(typed(RESPONSE, issuer.issue(&user, &body.bytes, Instant::now())?))).await
    })
    .await
}

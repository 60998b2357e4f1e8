//! Refusals as JSON for requests that prefer it: problem details, RFC 9457.

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::middleware::Next;
use axum::response::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};
use spirea_wire::{Code, Refusal};

use crate::accept::{JSON, prefers};
use crate::held::{Held, Hold};
use crate::refused::{Refused, name};

/// Media type of problem details.
pub(crate) const PROBLEM: &str = "application/problem+json";
/// The media type that browsers ask for.
const HTML: &str = "text/html";
/// Name of the list of problems in a port's description; `type` of a problem links to its entry.
pub(crate) const PROBLEMS: &str = "x-problems";

/// Converts a refusal to the form that its request prefers, whatever part of the server made it.
pub(crate) async fn negotiate(request: Request, next: Next) -> Response {
    // A browser shows JSON, but would save a protobuf message as a file.
    let wanted = [PROBLEM, JSON, HTML]
        .iter()
        .any(|wanted| prefers(request.headers(), wanted, spirea_wire::CONTENT_TYPE));
    let mut response = next.run(request).await;
    let Some(refusal) = response.extensions().get::<Refusal>() else { return response };
    let problem = problem(refusal);
    response.headers_mut().append(VARY, HeaderValue::from(ACCEPT));
    if !wanted {
        return response;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
    let (parts, message) = response.into_parts();
    Held::attach(Response::from_parts(parts, Body::from(problem.to_string())), Replaced(Mutex::new(message)))
}

/// The replaced message, kept because it holds the request's permit. The mutex makes this type
/// `Sync`.
struct Replaced(#[expect(dead_code, reason = "dropping it gives the place back")] Mutex<Body>);

impl Hold for Replaced {}

fn problem(refusal: &Refusal) -> Value {
    let Refusal { code, message, remedy, accepted, current_version } = refusal;
    let mut problem = json!({
        "type": format!("/openapi.json#/components/{PROBLEMS}/{}", name(*code)),
        "title": title(*code),
        "status": Refused::status(*code).as_u16(),
        "detail": message,
        "code": name(*code),
        "remedy": remedy,
        "accepted": accepted,
    });
    if let Some(version) = current_version {
        problem["current_version"] = json!(version);
    }
    problem
}

/// Returns the title shared by all problems of one code.
pub(crate) fn title(code: Code) -> String {
    let (first, rest) = name(code).split_at(1);
    format!("{first}{}", rest.replace('_', " ").to_ascii_lowercase())
}

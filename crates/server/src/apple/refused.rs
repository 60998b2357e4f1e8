use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use spirea_apple::AppleError;

use super::quota::UsedUp;
use super::use_cases::Absent;
use crate::accept::JSON;
use crate::refused::Refused;

/// A refused request of an Apple client, in the form of Apple's example service: a status, and JSON
/// with the message.
#[derive(Debug)]
pub(crate) struct AppleRefused {
    status: StatusCode,
    message: String,
    retry_after: Option<Duration>,
    /// Value of `WWW-Authenticate`.
    challenge: Option<HeaderValue>,
}

impl AppleRefused {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None, challenge: None }
    }

    /// Refuses a request without a usable token; `challenge` asks for one.
    pub fn unauthorized(message: impl Into<String>, challenge: HeaderValue) -> Self {
        Self { challenge: Some(challenge), ..Self::new(StatusCode::UNAUTHORIZED, message) }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Refuses a request for a use case; `unknown` is the status if no snapshot has it.
    pub fn absent(name: &str, absent: Absent, unknown: StatusCode) -> Self {
        match absent {
            Absent::Unknown => Self::new(unknown, format!("there is no use case {name:?}")),
            Absent::Loading => {
                let message = format!("the use case {name:?} is being loaded, or could not be");
                let retry_after = Some(Duration::from_secs(1));
                Self { retry_after, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
            }
        }
    }
}

impl From<UsedUp> for AppleRefused {
    fn from(UsedUp { owner, quota, next }: UsedUp) -> Self {
        let message = match next {
            Some(_) => format!("the {owner} has used up its quota of {quota} queries"),
            None => format!("the request has more queries than the quota of {quota} ever allows"),
        };
        Self { retry_after: next, ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }
}

impl From<AppleError> for AppleRefused {
    fn from(error: AppleError) -> Self {
        let status = match error {
            AppleError::UnknownConfiguration => StatusCode::GONE,
            AppleError::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
            AppleError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            AppleError::Table(_) | AppleError::Backend(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

impl From<Refused> for AppleRefused {
    fn from(refused: Refused) -> Self {
        let (status, message, retry_after) = refused.into_parts();
        Self { status, message, retry_after, challenge: None }
    }
}

impl IntoResponse for AppleRefused {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "message": self.message } }).to_string();
        let mut response = (self.status, body).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if let Some(delay) = self.retry_after {
            // The delay is rounded up, because a retry a moment too early would be refused again.
            let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}

use std::fmt::Display;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::Value;

use crate::accept::JSON;

/// Returns a response with a protobuf message.
pub(super) fn protobuf(message: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(spirea_wire::CONTENT_TYPE))], message).into_response()
}

/// Returns the entity tag of content with this hash.
pub(super) fn entity_tag(hash: impl Display) -> HeaderValue {
    let tag = format!("\"{hash}\"");
    HeaderValue::try_from(tag).expect("hexadecimal digits in quotes are a header's value")
}

/// Returns a response with a JSON value.
pub(super) fn json_body(value: &Value) -> Response {
    json_text(value.to_string().into())
}

/// Returns a response with text that is already JSON.
pub(super) fn json_text(text: Bytes) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(JSON))], text).into_response()
}

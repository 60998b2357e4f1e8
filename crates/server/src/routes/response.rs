use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::Value;

use crate::accept::JSON;

/// A response with a message.
pub(super) fn protobuf(message: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(spirea_wire::CONTENT_TYPE))], message).into_response()
}

/// The entity tag of something that has a hash.
pub(super) fn entity_tag(hash: &[u8; 32]) -> HeaderValue {
    let tag = format!("\"{}\"", blake3::Hash::from_bytes(*hash).to_hex());
    HeaderValue::try_from(tag).expect("hexadecimal digits in quotes are a header's value")
}

/// A response with a value of JSON.
pub(super) fn json_body(value: &Value) -> Response {
    json_text(value.to_string().into())
}

/// A response with a text that is JSON.
pub(super) fn json_text(text: Bytes) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(JSON))], text).into_response()
}

//! The demo page, below `/demo/`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::request::lists_tag;
use super::response::entity_tag;
use crate::demo::{Demo, INDEX};
use crate::refused::Refused;

/// Policy of the page. Besides loading its own files, the page may run the compiled client and
/// connect to other servers, because a protocol may have two servers.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; \
     worker-src 'self'; connect-src 'self' http: https:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

pub(super) fn page(demo: Arc<Demo>) -> Router {
    let moved = || async { Redirect::temporary("/demo/") };
    Router::new()
        .route("/demo", get(moved))
        .route("/demo/", get(index))
        .route("/demo/{*path}", get(named))
        .with_state(demo)
}

async fn index(State(demo): State<Arc<Demo>>, headers: HeaderMap) -> Response {
    file(&demo, INDEX, &headers)
}

async fn named(State(demo): State<Arc<Demo>>, Path(path): Path<String>, headers: HeaderMap) -> Response {
    file(&demo, &path, &headers)
}

/// Returns the weak tag of a file, which is valid for every encoding.
fn weak(tag: &HeaderValue) -> HeaderValue {
    HeaderValue::try_from([b"W/", tag.as_bytes()].concat()).expect("two more letters of ASCII")
}

fn file(demo: &Demo, path: &str, asked: &HeaderMap) -> Response {
    let Some(file) = demo.file(path) else { return Refused::no_such_endpoint(path).into_response() };
    let tag = entity_tag(file.blake3);
    let known = lists_tag(asked, IF_NONE_MATCH, &tag);
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(file.content_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (VARY, HeaderValue::from_static("accept-encoding")),
        (ETAG, weak(&tag)),
    ];
    if known {
        (StatusCode::NOT_MODIFIED, headers).into_response()
    } else if takes_gzip(asked) {
        (headers, [(CONTENT_ENCODING, "gzip")], file.packed.clone()).into_response()
    } else {
        (headers, file.content.clone()).into_response()
    }
}

/// Returns true if `Accept-Encoding` lists gzip with a weight above 0.
fn takes_gzip(asked: &HeaderMap) -> bool {
    let values = asked.get_all(ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().trim_start_matches("q=").parse::<f32>();
        name.trim().eq_ignore_ascii_case("gzip") && !weight.is_ok_and(|weight| weight == 0.0)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;

    use axum::body::Body;
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt as _;

    use super::*;

    async fn bytes(body: Body) -> Vec<u8> {
        body.collect().await.unwrap().to_bytes().to_vec()
    }

    #[tokio::test]
    async fn a_file_is_compressed_for_who_takes_it_and_sent_once_to_who_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let content = "<!doctype html>".repeat(100);
        fs::write(folder.path().join(INDEX), &content).unwrap();
        let demo = Demo::read(folder.path()).unwrap();
        let asked = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);

        let plain = file(&demo, INDEX, &HeaderMap::new());
        assert!(plain.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().contains("img-src 'self'"));
        let tag = plain.headers()[ETAG].clone();
        assert_eq!((plain.status(), plain.headers().get(CONTENT_ENCODING)), (StatusCode::OK, None));
        assert_eq!(bytes(plain.into_body()).await, content.as_bytes());

        for accepted in ["gzip", "br;q=1.0, GZIP;q=0.5", "deflate, gzip"] {
            let packed = file(&demo, INDEX, &asked(ACCEPT_ENCODING, accepted));
            assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip", "{accepted}");
            assert_eq!(packed.headers()[VARY], "accept-encoding");
            let body = bytes(packed.into_body()).await;
            let mut unpacked = String::new();
            GzDecoder::new(&body[..]).read_to_string(&mut unpacked).unwrap();
            assert!(body.len() < content.len() / 2 && unpacked == content);
        }
        for refused in ["br", "gzip;q=0", "gzip; q=0.0", "xgzip"] {
            let plain = file(&demo, INDEX, &asked(ACCEPT_ENCODING, refused));
            assert_eq!(plain.headers().get(CONTENT_ENCODING), None, "{refused}");
        }

        let known = HeaderMap::from_iter([(IF_NONE_MATCH, tag.clone())]);
        let known = file(&demo, INDEX, &known);
        assert_eq!((known.status(), &known.headers()[ETAG]), (StatusCode::NOT_MODIFIED, &tag));
        assert!(bytes(known.into_body()).await.is_empty());
        assert_eq!(file(&demo, INDEX, &asked(IF_NONE_MATCH, "\"another\"")).status(), StatusCode::OK);
        for path in ["private.pem", "../index.html", "worker", ""] {
            assert_eq!(file(&demo, path, &HeaderMap::new()).status(), StatusCode::NOT_FOUND, "{path}");
        }
    }
}

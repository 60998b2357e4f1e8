use std::time::Duration;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use spirea_engine::EngineError;

use crate::follow::PREFER;
use crate::refused::Refused;

/// Name of the database in a path.
pub(super) struct Name(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        // A name that is not valid text names no database.
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(name)| Self(name)).map_err(|_| EngineError::UnknownDatabase.into())
    }
}

/// Returns true if a header that lists entity tags, such as `If-None-Match`, contains this tag.
pub(super) fn lists_tag(headers: &HeaderMap, name: HeaderName, tag: &HeaderValue) -> bool {
    let tag = tag.as_bytes();
    let values =
        headers.get_all(name).into_iter().flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    values
        .map(<[u8]>::trim_ascii)
        .any(|listed| listed == b"*" || listed.strip_prefix(b"W/").unwrap_or(listed) == tag)
}

/// Returns the time, at most `most`, for which a client prefers to wait for a change (RFC 7240,
/// section 4.3); `None` if it states no such preference.
pub(super) fn preferred_wait(headers: &HeaderMap, most: Duration) -> Option<Duration> {
    let values = headers.get_all(PREFER).into_iter().filter_map(|value| value.to_str().ok());
    let mut seconds = values.flat_map(|value| value.split([',', ';'])).filter_map(|preference| {
        let (name, seconds) = preference.trim().split_once('=')?;
        name.eq_ignore_ascii_case("wait").then(|| seconds.parse().ok())?
    });
    seconds.next().map(|seconds| Duration::from_secs(seconds).min(most))
}

/// Returns the raw value of a parameter in a request's query string.
pub(super) fn parameter<'u>(uri: &'u Uri, name: &str) -> Option<&'u str> {
    let mut pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Returns the hash that the query string gives under a name; `None` if the name is absent.
pub(super) fn named_hash<H: From<blake3::Hash>>(uri: &Uri, name: &'static str) -> Result<Option<H>, Refused> {
    let Some(digits) = parameter(uri, name) else { return Ok(None) };
    match blake3::Hash::from_hex(digits) {
        Ok(hash) => Ok(Some(hash.into())),
        Err(_) => Err(Refused::bad_hash(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_wait_as_long_as_they_prefer_up_to_a_bound() {
        let most = Duration::from_secs(20);
        for (preferences, seconds) in [
            ("wait=5", Some(5)),
            ("respond-async, WAIT=7", Some(7)),
            ("wait=18446744073709551615", Some(20)),
            ("handling=lenient; wait=0", Some(0)),
            ("wait", None),
            ("wait=-1, wait=soon", None),
            ("waiting=5", None),
        ] {
            let headers = HeaderMap::from_iter([(PREFER, HeaderValue::from_static(preferences))]);
            assert_eq!(preferred_wait(&headers, most), seconds.map(Duration::from_secs), "{preferences}");
        }
        assert_eq!(preferred_wait(&HeaderMap::new(), most), None);
    }
}

//! Content negotiation: the media type that a request prefers, from its `Accept` header (RFC 9110,
//! section 12.5.1).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

pub(crate) const JSON: &str = "application/json";

/// Returns true if a request prefers the media type `media` to `other`. At equal quality the type
/// that `Accept` names more closely wins: `application/json, */*` asks for JSON.
pub(crate) fn prefers(headers: &HeaderMap, media: &str, other: &str) -> bool {
    rank(headers, media) > rank(headers, other)
}

/// Returns the quality of a media type, in thousandths, and how closely `Accept` names it; `None`
/// if it is not acceptable.
fn rank(headers: &HeaderMap, media: &str) -> Option<(u16, usize)> {
    let (kind, _) = media.split_once('/')?;
    let names = ["*/*", &format!("{kind}/*"), media];
    let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let ranges = values.flat_map(|value| value.split(',')).filter_map(range);
    let named = ranges.filter_map(|(range, quality)| {
        let closeness = names.iter().position(|name| name.eq_ignore_ascii_case(range))?;
        Some((quality, closeness))
    });
    // The range that names the type most closely decides the quality.
    named.max_by_key(|&(_, closeness)| closeness).filter(|&(quality, _)| quality > 0)
}

/// Parses a media range with its quality in thousandths; `None` if the quality is not a number from
/// 0 to 1.
fn range(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next()?;
    let weights = parts.filter_map(|part| part.split_once('='));
    let mut weights = weights.filter(|(name, _)| name.eq_ignore_ascii_case("q"));
    let Some((_, weight)) = weights.next() else { return Some((name, 1000)) };
    let weight: f32 = weight.parse().ok().filter(|weight| (0.0..=1.0).contains(weight))?;
    Some((name, (weight * 1000.0).round() as u16))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const PROTOBUF: &str = spirea_wire::CONTENT_TYPE;

    fn headers(accept: &[&'static str]) -> HeaderMap {
        accept.iter().map(|value| (ACCEPT, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn the_higher_quality_is_preferred_and_of_equal_ones_what_is_named() {
        for accept in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/json, text/plain, */*",
            "application/json;q=0.2",
            "application/json;q=0.9, application/x-protobuf;q=0.8",
            "application/x-protobuf;q=0, application/*",
            "*/*;q=0.5,application/json ; Q=0.501",
        ] {
            assert!(prefers(&headers(&[accept]), JSON, PROTOBUF), "{accept}");
            assert!(!prefers(&headers(&[accept]), PROTOBUF, JSON), "{accept}");
        }
        assert!(prefers(&headers(&["text/html", "application/json"]), JSON, PROTOBUF));
    }

    #[test]
    fn what_asks_for_neither_or_for_both_alike_prefers_neither() {
        for accept in [
            "*/*",
            "application/*",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "application/json, application/x-protobuf",
            "application/json;q=0",
            "application/json;q=x, application/json;q=NaN, application/json;q=2",
            "",
            ",;,=",
        ] {
            let headers = headers(&[accept]);
            assert!(!prefers(&headers, JSON, PROTOBUF) && !prefers(&headers, PROTOBUF, JSON), "{accept}");
        }
        let none = HeaderMap::new();
        assert!(!prefers(&none, JSON, PROTOBUF) && !prefers(&none, PROTOBUF, JSON));
        let unwanted = headers(&["application/json;q=0, */*"]);
        assert!(!prefers(&unwanted, JSON, PROTOBUF) && prefers(&unwanted, PROTOBUF, JSON));
    }
}

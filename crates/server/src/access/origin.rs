//! Requests to the port for operators come from operators' tools and from its own page, not from other pages that an
//! operator has open.
//!
//! A page of another origin can send requests that need no consent of the server's (a POST of text), and one whose name
//! is made to lead to the server's address ("DNS rebinding") is of the same origin in its browser's eyes. The header
//! Origin gives the first away; the second is known by a Host whose name the operator did not give.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;

use crate::refused::Refused;

/// The names under which the port for operators may be asked.
#[derive(Clone, Debug)]
pub(crate) enum OperatorNames {
    /// Any: connections are encrypted, so the certificate vouches for the name.
    Certified,
    /// Addresses, `localhost`, and these.
    Listed(Vec<String>),
}

impl OperatorNames {
    /// Refuses a request that a page of another origin may have made.
    pub fn check(&self, request: &Request) -> Result<(), Refused> {
        let authority = authority(request).ok_or_else(Refused::foreign_host)?;
        if !self.know(authority.host()) {
            return Err(Refused::foreign_host());
        }
        let mut origins = request.headers().get_all(ORIGIN).into_iter();
        let own = |origin: &[u8]| {
            let origin = std::str::from_utf8(origin).ok().and_then(|origin| origin.split_once("://"));
            origin.is_some_and(|(_, host)| host.eq_ignore_ascii_case(authority.as_str()))
        };
        if origins.all(|origin| own(origin.as_bytes())) { Ok(()) } else { Err(Refused::foreign_origin()) }
    }

    fn know(&self, host: &str) -> bool {
        let Self::Listed(names) = self else { return true };
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        address.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// Whom a request names as its host: in HTTP/2 by its target.
fn authority(request: &Request) -> Option<Authority> {
    let target = request.uri().authority().cloned();
    target.or_else(|| Authority::try_from(request.headers().get(HOST)?.as_bytes()).ok())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn check(names: &OperatorNames, host: &str, origin: Option<&str>) -> bool {
        let request = Request::post("/v1/admin/databases/t/changes").header(HOST, host);
        let request = origin.into_iter().fold(request, |request, origin| request.header(ORIGIN, origin));
        names.check(&request.body(Body::empty()).unwrap()).is_ok()
    }

    #[test]
    fn tools_and_the_own_page_may_ask_and_other_pages_may_not() {
        let names = OperatorNames::Listed(vec!["pir.internal".into()]);
        for host in ["127.0.0.1:7092", "[::1]:7092", "10.0.0.7", "localhost:7092", "PIR.internal:7092"] {
            assert!(check(&names, host, None), "{host}");
            assert!(check(&names, host, Some(&format!("http://{host}"))), "{host}");
            for origin in ["https://page.example", "null", "http://127.0.0.1:7093", "", "http://"] {
                assert!(!check(&names, host, Some(origin)), "{host} from {origin:?}");
            }
        }
        // A name that is made to lead here is the page's own host.
        assert!(!check(&names, "page.example", Some("http://page.example")));
        assert!(!check(&names, "page.example", None));
        assert!(!check(&names, "127.0.0.1.page.example", None));
        assert!(check(&OperatorNames::Certified, "page.example", None));
        assert!(!check(&OperatorNames::Certified, "pir.example", Some("https://page.example")));
        let nobody = Request::get("/").body(Body::empty()).unwrap();
        assert!(names.check(&nobody).is_err());
    }
}

//! Requests to a port for operators come from operators' tools and from its own page, not from other pages that an operator
//! has open.
//!
//! A page of another origin can send requests that need no consent of the server's (a POST of text), and one whose name
//! is made to lead to the server's address ("DNS rebinding") is of the same origin in its browser's eyes. The header
//! Origin gives the first away; the second is known by a Host whose name the operator did not give.

use std::net::IpAddr;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Version;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use super::host::one_host;
use crate::refused::Refused;

/// Names under which a port for operators may be asked.
#[derive(Clone, Debug)]
pub enum OperatorNames {
    /// Any: connections are encrypted, so the certificate vouches for the name.
    Certified,
    /// Addresses, `localhost`, and these.
    Listed(Vec<String>),
}

impl OperatorNames {
    /// Puts the rule of ports for operators before a router: a request names one host, which the port is known as, and comes
    /// from no page of another origin. Others get status 400 or 403.
    pub fn guard(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self, known_only)).layer(middleware::from_fn(one_host))
    }

    /// Refuses a request that a page of another origin may have made.
    fn check(&self, request: &Request) -> Result<(), Refused> {
        let authority = authority(request);
        // Browsers name a host. Probes in HTTP/1.0 need none.
        let known = match &authority {
            Some(authority) => self.know(authority.host()),
            None => request.version() == Version::HTTP_10,
        };
        if !known {
            return Err(Refused::foreign_host());
        }
        let mut origins = request.headers().get_all(ORIGIN).into_iter();
        let own = |origin: &[u8]| {
            let origin = std::str::from_utf8(origin).ok().and_then(|origin| origin.split_once("://"));
            let named = origin.zip(authority.as_ref());
            named.is_some_and(|((_, host), authority)| host.eq_ignore_ascii_case(authority.as_str()))
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

async fn known_only(State(names): State<OperatorNames>, request: Request, next: Next) -> Response {
    match names.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
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
    use axum::http::HeaderValue;

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
        let nobody = |version| Request::get("/").version(version).body(Body::empty()).unwrap();
        assert!(names.check(&nobody(Version::HTTP_11)).is_err());
        assert!(names.check(&nobody(Version::HTTP_10)).is_ok());
        let mut page = nobody(Version::HTTP_10);
        page.headers_mut().insert(ORIGIN, HeaderValue::from_static("http://page.example"));
        assert!(names.check(&page).is_err());
    }
}

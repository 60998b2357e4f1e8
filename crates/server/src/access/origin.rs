//! Protects a port for operators from requests that pages of other origins, open in an operator's
//! browser, may send.
//!
//! A page of another origin can send requests that need no consent of the server, such as a POST of
//! text. If a page's name resolves to the server's address ("DNS rebinding"), the browser even
//! treats the page's origin as the server's. The `Origin` header reveals the first attack; a `Host`
//! name that the operator did not configure reveals the second.

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

/// Host names that a port for operators accepts.
#[derive(Clone, Debug)]
pub enum OperatorNames {
    /// Any name: connections are encrypted, so the certificate vouches for the name.
    Certified,
    /// Addresses, `localhost`, and these names.
    Listed(Vec<String>),
}

impl OperatorNames {
    /// Adds the check of a port for operators to a router. A request must name one host, which this
    /// value accepts, and must not come from a page of another origin. Otherwise the response has
    /// status 400 or 403.
    pub fn guard(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self, known_only)).layer(middleware::from_fn(one_host))
    }

    /// Refuses a request that a page of another origin may have made.
    fn check(&self, request: &Request) -> Result<(), Refused> {
        let authority = authority(request);
        // Browsers always name a host; HTTP/1.0 probes need none.
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

/// Returns the host that a request names; in HTTP/2 the request's target holds it.
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
        // DNS rebinding: the page's own name resolves to this server.
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

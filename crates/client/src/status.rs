//! Statuses of responses without a refusal. No Spirea server sends such a response: it comes from
//! something between client and server, or from another kind of server.

/// Returns a message for a status whose response has no refusal: the status, its usual cause and a
/// remedy.
pub(crate) fn explained(status: u16) -> String {
    let (name, cause) = match status {
        300..=399 => ("a redirection", "redirections are not followed: give the final address"),
        401 => (
            "401 Unauthorized",
            "something in front of the server wants a login of its own, which clients do not have: have it \
             pass requests on, and use the server's tokens",
        ),
        403 => (
            "403 Forbidden",
            "a firewall or a proxy in front of the server refuses the request: have its operator allow the \
             paths below /v1/databases/, with bodies of application/x-protobuf",
        ),
        404 => {
            ("404 Not Found", "is this the address of a Spirea server, with the path that a proxy gives it?")
        }
        405 | 501 => (
            if status == 405 { "405 Method Not Allowed" } else { "501 Not Implemented" },
            "is this the address of a Spirea server? Or a proxy in between does not pass POST on",
        ),
        407 => ("407 Proxy Authentication Required", "give the proxy's variable its user and password"),
        408 => {
            ("408 Request Timeout", "a proxy in between waited too long for the request: have it wait longer")
        }
        411 => ("411 Length Required", "a proxy in between takes no streamed bodies: have it take them"),
        413 => (
            "413 Content Too Large",
            "a proxy in front of the server takes no request of this length: have its operator raise the \
             limit (nginx: client_max_body_size, whose default is 1 MiB)",
        ),
        414 | 431 => (
            if status == 414 { "414 URI Too Long" } else { "431 Request Header Fields Too Large" },
            "a proxy in front of the server bounds heads of requests too narrowly: have its operator raise the limit",
        ),
        429 => ("429 Too Many Requests", "something in front of the server bounds requests: try again later"),
        500 => ("500 Internal Server Error", "a proxy in front of the server failed: tell its operator"),
        502 => (
            "502 Bad Gateway",
            "the proxy or balancer in front of the server does not reach it: try again; if it happens again, \
             the server may be stopped, or have another address than the proxy has",
        ),
        503 => (
            "503 Service Unavailable",
            "the balancer in front of the servers has none that is ready: try again when they have started",
        ),
        504 => (
            "504 Gateway Timeout",
            "the proxy in front of the server waits less long than an answer takes: try again, or have its \
             operator raise the timeout",
        ),
        _ => return format!("unexpected HTTP status {status}; is this the address of a Spirea server?"),
    };
    match status {
        300..=399 => format!("unexpected HTTP status {status}, {name}: {cause}"),
        _ => format!("unexpected HTTP status {name}: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_is_named_with_its_own_cause() {
        let statuses = [401, 403, 404, 405, 407, 408, 411, 413, 414, 429, 431, 500, 501, 502, 503, 504];
        let said = statuses.map(explained);
        for (status, said) in statuses.iter().zip(&said) {
            assert!(said.starts_with(&format!("unexpected HTTP status {status} ")), "{said}");
        }
        for status in [413, 502, 503, 504] {
            assert!(!explained(status).contains("the address of a Spirea server?"), "{status}");
        }
        assert!(explained(413).contains("client_max_body_size"));
        assert!(explained(302).contains("final address") && explained(418).contains("418;"));
        let mut causes: Vec<_> = [401, 403, 404, 413, 502, 503, 504].map(explained).to_vec();
        causes.sort();
        causes.dedup();
        assert_eq!(causes.len(), 7);
    }
}

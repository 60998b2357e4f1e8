//! The port for operators, and the shutdown of a server.

use std::time::Duration;

use serde_json::Value;
use spirea_protocols::Version;
use spirea_server::{Limits, ServerConfig};
use spirea_specimens::no_hook;
use spirea_wire::Code;
use tempfile::tempdir;

use crate::fixture::{dial, eventually, request, serve_config, urls};

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn operators_see_databases_load_keys_and_connections() {
    let folder = tempdir().unwrap();
    let engine = urls(folder.path(), no_hook());
    engine.announce("broken", Version::new([3; 32])).unwrap();
    engine.fail("broken", "the disk broke".into());
    let server = serve_config(&engine, ServerConfig::default());
    let reply = server.get_admin("/v1/admin/databases", "");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let listed = json(&reply.body);
    assert_eq!(listed["databases"][0]["error"], "the disk broke");
    assert_eq!(listed["databases"][1]["state"], "ready");

    let waiting = dial(server.address);
    eventually("the connection", || {
        json(&server.get_admin("/v1/admin/status", "").body)["connections"].as_u64() >= Some(2)
    });
    let status = json(&server.get_admin("/v1/admin/status", "").body);
    assert_eq!((&status["load"]["waiting"], &status["load"]["running"]), (&0.into(), &0.into()));
    assert_eq!((&status["keys"]["memory"]["sets"], &status["leaving"]), (&0.into(), &false.into()));
    assert_eq!((&status["certificate_expiry_unix_seconds"], &status["requests"]), (&Value::Null, &1.into()));
    assert_eq!(status["databases"], listed["databases"]);
    drop(waiting);

    // Each port has its own endpoints, and both have the probes.
    for path in ["/healthz", "/livez", "/metrics"] {
        assert_eq!((server.get(path).status, server.get_admin(path, "").status), (200, 200), "{path}");
    }
    assert_eq!(server.get_admin("/readyz", "").status, 503);
    for reply in [server.get("/v1/admin/status"), server.get_admin("/v1/databases", "")] {
        assert_eq!((reply.status, reply.refusal().code), (404, Code::NoSuchEndpoint));
    }
    // A page in an operator's browser must not read these responses.
    let reply = server.get_admin("/v1/admin/status", "origin: https://page.example\r\n");
    assert_eq!(reply.header("access-control-allow-origin"), None);
}

#[test]
fn a_server_that_leaves_says_so_before_it_stops_to_accept() {
    let folder = tempdir().unwrap();
    let limits = Limits { drain_delay: Duration::from_secs(6), ..Limits::default() };
    let engine = urls(folder.path(), no_hook());
    let mut server = serve_config(&engine, ServerConfig { limits, ..ServerConfig::default() });
    assert_eq!(server.get("/readyz").status, 200);
    let body = request(&server, 1).encode();
    server.stopper.stop();
    eventually("/readyz", || server.get("/readyz").status == 503);
    assert_eq!(json(&server.get("/readyz").body)["leaving"], true);
    assert_eq!(server.post("/v1/databases/urls/query", &body).status, 200);
    server.wait();
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn a_page_that_an_operator_has_open_cannot_publish() {
    let folder = tempdir().unwrap();
    let server = serve_config(&urls(folder.path(), no_hook()), ServerConfig::default());
    let line = br#"{"key": "a", "value": "b"}"#;
    let post = |headers: &str| {
        let headers = format!("connection: close\r\n{headers}");
        server.post_admin_with("/v1/admin/databases/urls/changes", &headers, line)
    };
    let (here, lines) = ("host: localhost\r\n", "content-type: application/x-ndjson\r\n");
    for (headers, status, code) in [
        // Requests that a form or script of another page can send without consent.
        (format!("{here}origin: https://page.example\r\ncontent-type: text/plain\r\n"), 403, Code::Forbidden),
        (format!("{here}origin: null\r\n{lines}"), 403, Code::Forbidden),
        (format!("host: page.example\r\norigin: http://page.example\r\n{lines}"), 403, Code::Forbidden),
        (format!("host: page.example\r\n{lines}"), 403, Code::Forbidden),
        (format!("{here}content-type: text/plain\r\n"), 415, Code::WrongContentType),
        (here.to_owned(), 415, Code::WrongContentType),
        // A tool and the server's own page are admitted; there is just no database to publish to.
        (format!("{here}{lines}"), 404, Code::UnknownDatabase),
        (format!("{here}origin: http://localhost\r\n{lines}"), 404, Code::UnknownDatabase),
    ] {
        let reply = post(&headers);
        assert_eq!((reply.status, reply.refusal().code), (status, code), "{headers}");
    }
    let named = ServerConfig { admin_names: vec!["pir.internal".into()], ..ServerConfig::default() };
    let named = serve_config(&urls(folder.path(), no_hook()), named);
    let headers = format!("connection: close\r\nhost: PIR.internal:7092\r\n{lines}");
    assert_eq!(named.post_admin_with("/v1/admin/databases/urls/changes", &headers, line).status, 404);
}

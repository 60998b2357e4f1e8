//! Refusals as JSON, whatever part of the server makes them.

use std::io::Write;
use std::time::Duration;

use serde_json::Value;
use spirea_protocols::Version;
use spirea_server::{Limits, ServerConfig};
use spirea_specimens::no_hook;
use spirea_wire::Code;
use tempfile::tempdir;

use crate::fixture::{
    Reply, begin_slowly, config, dial, exchange, read, request, serve_config, serve_urls, urls,
};
use crate::tokens::{secret, write};

const QUERY: &str = "/v1/databases/urls/query";
const JSON: &str = "accept: application/json\r\ncontent-type: application/x-protobuf\r\n";

/// Returns the problem details of a refusal, and checks the members that every problem has.
fn problem(reply: &Reply) -> Value {
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{reply:?}");
    assert_eq!(reply.header("vary"), Some("accept"));
    assert_eq!(reply.header("content-length"), Some(reply.body.len().to_string().as_str()));
    let problem: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(problem["status"], reply.status);
    for member in ["title", "detail", "remedy"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
    }
    let code = problem["code"].as_str().unwrap();
    assert!(problem["type"].as_str().unwrap().ends_with(&format!("/{code}")), "{problem}");
    problem
}

/// Returns the status and the code of a problem.
fn cause(reply: &Reply) -> (u16, String) {
    (reply.status, problem(reply)["code"].as_str().unwrap().to_owned())
}

#[test]
fn a_refusal_is_json_for_whoever_prefers_that_and_a_message_for_others() {
    let folder = tempdir().unwrap();
    let server = serve_config(&urls(folder.path(), no_hook()), ServerConfig::default());
    let path = "/v1/databases/other/config";
    for accept in ["application/json", "application/problem+json", "application/json, text/plain, */*"] {
        let reply = server.get_with(path, &format!("accept: {accept}\r\n"));
        assert_eq!(cause(&reply), (404, "UNKNOWN_DATABASE".into()), "{accept}");
        assert_eq!(problem(&reply)["title"], "Unknown database");
        assert_eq!(problem(&reply)["accepted"], false);
    }
    // A browser gets JSON, which it shows.
    let reply = server.get_with(path, "accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n");
    assert_eq!(cause(&reply), (404, "UNKNOWN_DATABASE".into()));
    for accept in ["*/*", "application/json;q=0.5, application/x-protobuf"] {
        let reply = server.get_with(path, &format!("accept: {accept}\r\n"));
        assert_eq!(reply.refusal().code, Code::UnknownDatabase, "{accept}");
        assert_eq!(reply.header("vary"), Some("accept"));
    }
    assert_eq!(server.get(path).refusal().code, Code::UnknownDatabase);

    // `type` links to the description of the problem in the port's document.
    for (reply, document) in [
        (server.get_with(path, JSON), server.get("/openapi.json")),
        (server.get_admin("/v1/admin/databases/other/versions", JSON), server.get_admin("/openapi.json", "")),
    ] {
        let problem = problem(&reply);
        let document: Value = serde_json::from_slice(&document.body).unwrap();
        let (path, pointer) = problem["type"].as_str().unwrap().split_once('#').unwrap();
        assert_eq!(path, "/openapi.json");
        let described = document.pointer(pointer).unwrap();
        assert_eq!((&described["title"], &described["status"]), (&problem["title"], &problem["status"]));
    }
    let head = "HEAD /nowhere HTTP/1.1\r\nhost: x\r\naccept: application/json\r\nconnection: close\r\n\r\n";
    let (head, whole) = (
        exchange(server.address, head.as_bytes()),
        server.get_with("/nowhere", "accept: application/json\r\n"),
    );
    assert_eq!((head.status, head.body.len()), (404, 0));
    assert_eq!(head.header("content-length"), Some(whole.body.len().to_string().as_str()));
}

#[test]
fn what_is_refused_outside_of_endpoints_is_json_too() {
    let folder = tempdir().unwrap();
    let server = serve_config(&urls(folder.path(), no_hook()), ServerConfig::default());
    assert_eq!(cause(&server.get_with("/nowhere", JSON)), (404, "NO_SUCH_ENDPOINT".into()));
    let reply = server.post_with("/healthz", JSON, b"");
    assert_eq!(cause(&reply), (405, "METHOD_NOT_ALLOWED".into()));
    assert_eq!(reply.header("allow"), Some("get, head, options"));
    let reply = server.get_admin("/v1/admin/status", &format!("origin: https://page.example\r\n{JSON}"));
    assert_eq!(cause(&reply), (403, "FORBIDDEN".into()));

    let file = folder.path().join("tokens.toml");
    write(&file, &[("phones", &secret(), "scopes = [\"query\"]")]);
    let guarded = ServerConfig { tokens: Some(file), ..ServerConfig::default() };
    let guarded = serve_config(&urls(folder.path(), no_hook()), guarded);
    let reply = guarded.get_with("/v1/databases", JSON);
    assert_eq!(cause(&reply), (401, "UNAUTHENTICATED".into()));
    assert_eq!(reply.header("www-authenticate"), Some("bearer"));

    let limits = Limits { client_requests: 1, ..Limits::default() };
    let crowded = serve_urls(folder.path(), limits, 8, no_hook());
    let _first = begin_slowly(crowded.address, QUERY, &format!("content-length: 9\r\n{JSON}"));
    let reply = crowded.get_with("/v1/databases", JSON);
    assert_eq!(cause(&reply), (429, "OVERLOADED".into()));
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[test]
fn bodies_that_are_refused_and_computations_that_fail_are_told_as_json_too() {
    let folder = tempdir().unwrap();
    let limits = Limits { read_timeout: Duration::from_secs(2), ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, Box::new(|| panic!("a defect in a backend")));
    let good = request(&server, 1);
    let stale = spirea_wire::Request { version: Version::new([9; 32]), ..good.clone() };
    let reply = server.post_with(QUERY, JSON, &stale.encode());
    assert_eq!(cause(&reply), (409, "STALE_VERSION".into()));
    let version = config(&server).version;
    assert_eq!(problem(&reply)["current_version"], version.to_string());
    let long = vec![0; config(&server).limits().request_bytes() as usize + 1];
    assert_eq!(cause(&server.post_with(QUERY, JSON, &long)), (413, "TOO_LARGE".into()));
    let untyped = server.post_with(QUERY, "accept: application/json\r\n", &good.encode());
    assert_eq!(cause(&untyped), (415, "WRONG_CONTENT_TYPE".into()));
    let failed = server.post_with(QUERY, JSON, &good.encode());
    assert_eq!(cause(&failed), (500, "INTERNAL".into()));
    assert_eq!(problem(&failed)["accepted"], true);

    let mut stalled = dial(server.address);
    let head =
        format!("POST {QUERY} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 9\r\n{JSON}\r\n");
    stalled.write_all(head.as_bytes()).unwrap();
    assert_eq!(cause(&read(&mut stalled)), (408, "SLOW_BODY".into()));
}

#[test]
fn a_request_has_one_host() {
    let folder = tempdir().unwrap();
    let server = serve_config(&urls(folder.path(), no_hook()), ServerConfig::default());
    let ports = [server.address, server.admin.unwrap()];
    for (version, hosts, status) in [
        ("1.1", "host: localhost\r\n", 200),
        ("1.1", "", 400),
        ("1.1", "host: localhost\r\nhost: localhost\r\n", 400),
        ("1.1", "host: localhost\r\nhost: elsewhere\r\n", 400),
        ("1.0", "host: localhost\r\nhost: elsewhere\r\n", 400),
    ] {
        for port in ports {
            let request = format!("GET /healthz HTTP/{version}\r\n{hosts}connection: close\r\n\r\n");
            assert_eq!(exchange(port, request.as_bytes()).status, status, "HTTP/{version} {hosts:?}");
        }
    }
    // A load balancer's probe.
    assert_eq!(exchange(server.address, b"GET /healthz HTTP/1.0\r\n\r\n").status, 200);
}

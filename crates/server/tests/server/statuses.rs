//! Every endpoint and every status code.

use std::io::{Read, Write};
use std::time::Duration;

use spirea_protocols::{TableKind, Version};
use spirea_server::{Limits, ServeError, Server, ServerConfig};
use spirea_specimens::no_hook;
use spirea_specimens::snapshots::write_snapshot;
use spirea_wire::{Code, DatabaseState, Listing};
use tempfile::tempdir;

use crate::fixture::{
    Running, config, dial, engine, exchange, read, request, serve_config, serve_engine, serve_urls,
};

fn urls() -> (tempfile::TempDir, Running) {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    (folder, server)
}

const QUERY: &str = "/v1/databases/urls/query";

#[test]
fn malformed_requests_get_400() {
    let (_folder, server) = urls();
    let good = request(&server, 2).encode();
    let refused = |body: &[u8], code| {
        let reply = server.post(QUERY, body);
        assert_eq!((reply.status, reply.refusal().code), (400, code));
        assert!(!reply.refusal().accepted);
    };
    refused(b"", Code::WrongFormat);
    refused(b"\xff", Code::Malformed);
    refused(&[&[0x08, 2], &good[2..]].concat(), Code::WrongFormat);
    refused(&good[..good.len() - 1], Code::Malformed);
    refused(&request(&server, 0).encode(), Code::Malformed);
    let mut short = request(&server, 2);
    short.base.queries[1] = short.base.queries[1].slice(1..);
    refused(&short.encode(), Code::Malformed);
    assert_eq!(server.post(QUERY, &good).status, 200);
    server.assert_serving();
}

#[test]
fn names_and_endpoints_that_do_not_exist_get_404() {
    let (_folder, server) = urls();
    for path in ["config", "hint"] {
        for name in ["other", "%ff", "..%2f..%2fetc", "urls%20"] {
            let reply = server.get(&format!("/v1/databases/{name}/{path}"));
            assert_eq!((reply.status, reply.refusal().code), (404, Code::UnknownDatabase), "{name}");
        }
    }
    for path in ["query", "keys"] {
        let reply = server.post(&format!("/v1/databases/other/{path}"), &request(&server, 1).encode());
        assert_eq!((reply.status, reply.refusal().code), (404, Code::UnknownDatabase));
    }
    for reply in
        [server.get("/nothing"), server.get("/v1/databases/urls"), server.post("/v1/databases/urls", b"")]
    {
        assert_eq!((reply.status, reply.refusal().code), (404, Code::NoSuchEndpoint));
    }
    let reply = server.post("/v1/databases/urls/keys", b"key");
    assert_eq!((reply.status, reply.refusal().code), (404, Code::NoKeysNeeded));
}

#[test]
fn a_browser_without_a_path_gets_a_page_with_links() {
    let folder = tempdir().unwrap();
    let engine = crate::fixture::urls(folder.path(), no_hook());
    let demo = folder.path().join("demo");
    std::fs::create_dir(&demo).unwrap();
    std::fs::write(demo.join("index.html"), "<!doctype html>").unwrap();
    for demo in [None, Some(demo)] {
        let has_demo = demo.is_some();
        let server = serve_config(&engine, ServerConfig { demo, ..ServerConfig::default() });
        let reply = server.get_with("/", "accept: text/html,*/*;q=0.8\r\n");
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/html; charset=utf-8")));
        let page = reply.text();
        assert_eq!(page.contains("href=\"/demo/\""), has_demo);
        for link in page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert_eq!(server.get(link).status, 200, "{link}");
        }
    }
}

#[test]
fn other_methods_get_405_with_those_that_there_are() {
    let folder = tempdir().unwrap();
    let engine = crate::fixture::urls(folder.path(), no_hook());
    let server = serve_config(&engine, ServerConfig::default());
    let admin = server.admin.unwrap();
    let ask = |address, method: &str, path: &str| {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        exchange(address, head.as_bytes())
    };
    let (get, post) = ("get, head, options", "post, options");
    let mut refused = 0;
    for (address, path, allow) in [
        (server.address, "/healthz", get),
        (server.address, "/v1/databases", get),
        (server.address, "/v1/databases/urls/config", get),
        (server.address, QUERY, post),
        (server.address, "/v1/databases/urls/keys", post),
        (admin, "/", get),
        (admin, "/v1/admin/status", get),
        (admin, "/v1/admin/databases/urls/rollback", post),
    ] {
        let others = if allow == get { ["POST", "PUT", "BREW"] } else { ["GET", "HEAD", "DELETE"] };
        for method in others {
            let reply = ask(address, method, path);
            assert_eq!((reply.status, reply.header("allow")), (405, Some(allow)), "{method} {path}");
            if method != "HEAD" {
                assert_eq!(reply.refusal().code, Code::MethodNotAllowed);
            }
            refused += 1;
        }
        let reply = ask(address, "OPTIONS", path);
        assert_eq!((reply.status, reply.header("allow"), reply.body.len()), (200, Some(allow), 0), "{path}");
    }
    assert_eq!(server.metric("spirea_refusals_total{code=\"method_not_allowed\"}"), Some(f64::from(refused)));
    for method in ["DELETE", "OPTIONS"] {
        assert_eq!(ask(server.address, method, "/nowhere").refusal().code, Code::NoSuchEndpoint);
    }
    let (whole, head) = (server.get("/v1/databases"), ask(server.address, "HEAD", "/v1/databases"));
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(whole.body.len().to_string().as_str()));
}

#[test]
fn other_versions_get_409_with_the_current_one() {
    let (_folder, server) = urls();
    let current = config(&server).version;
    let stale = spirea_wire::Request { version: Version::new([9; 32]), ..request(&server, 1) };
    let reply = server.post(QUERY, &stale.encode());
    assert_eq!((reply.status, reply.refusal().code), (409, Code::StaleVersion));
    assert_eq!(reply.refusal().current_version, Some(current));
}

#[test]
fn oversized_bodies_get_413_before_they_are_sent() {
    let (_folder, server) = urls();
    // Sends the head alone: the server does not wait for the body.
    let mut stream = dial(server.address);
    stream
        .write_all(
            format!("POST {QUERY} HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 99999999999\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 413");
    drop(stream);

    // Chunked, without a length: refused as soon as the limit is exceeded.
    let limits = config(&server).limits();
    let too_long = vec![0; limits.request_bytes() as usize + 1];
    let mut stream = dial(server.address);
    let head = format!(
        "POST {QUERY} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/x-protobuf\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n",
        too_long.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&too_long).unwrap();
    stream.write_all(b"\r\n0\r\n\r\n").unwrap();
    let reply = read(&mut stream);
    assert_eq!((reply.status, reply.refusal().code), (413, Code::TooLarge));

    // A request with one query too many exceeds every allowed length.
    let reply = server.post(QUERY, &request(&server, limits.max_batch + 1).encode());
    assert_eq!(reply.status, 413);
    server.assert_serving();
}

#[test]
fn chunked_bodies_within_the_limit_are_answered() {
    let (_folder, server) = urls();
    let body = request(&server, 1).encode();
    let mut stream = dial(server.address);
    let head = format!(
        "POST {QUERY} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/x-protobuf; charset=x\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    for chunk in body.chunks(100) {
        stream.write_all(&[format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(read(&mut stream).status, 200);
    server.assert_serving();
}

#[test]
fn other_content_types_get_415() {
    let (_folder, server) = urls();
    let body = request(&server, 1).encode();
    for headers in ["", "content-type: application/json\r\n", "content-type: application/x-protobuf2\r\n"] {
        let reply = server.post_with(QUERY, headers, &body);
        assert_eq!((reply.status, reply.refusal().code), (415, Code::WrongContentType), "{headers}");
    }
    assert_eq!(server.post_with(QUERY, "content-type: Application/X-Protobuf; v=1\r\n", &body).status, 200);
}

#[test]
fn databases_that_are_not_ready_get_503() {
    let folder = tempdir().unwrap();
    let path = write_snapshot(folder.path(), "urls", TableKind::Keyword, 1);
    let engine = engine(1);
    engine.announce("urls", Version::new([3; 32])).unwrap();
    let server = serve_engine(&engine, Limits::default());
    let ready = || {
        let reply = server.get("/readyz");
        (reply.status, serde_json::from_slice::<serde_json::Value>(&reply.body).unwrap())
    };

    let reply = server.get("/v1/databases/urls/config");
    assert_eq!((reply.status, reply.refusal().code), (503, Code::Loading));
    assert!(reply.header("retry-after").is_some());
    let reply = server.post(QUERY, b"anything");
    assert_eq!((reply.status, reply.refusal().code), (503, Code::Loading));
    let (status, body) = ready();
    assert_eq!(
        (status, &body["ready"], &body["databases"][0]["state"]),
        (503, &false.into(), &"loading".into())
    );
    assert_eq!(server.metric("spirea_ready"), Some(0.0));
    for alive in ["/healthz", "/livez"] {
        assert_eq!(server.get(alive).status, 200);
    }

    engine.fail("urls", "the disk broke".into());
    let reply = server.get("/v1/databases/urls/hint");
    assert_eq!((reply.status, reply.refusal().code), (503, Code::Failed));
    let (status, body) = ready();
    assert_eq!((status, &body["databases"][0]["error"]), (503, &"the disk broke".into()));

    engine.publish(spirea_specimens::hooked::database(&path, no_hook()));
    let (status, body) = ready();
    assert_eq!(
        (status, &body["ready"], &body["databases"][0]["state"]),
        (200, &true.into(), &"ready".into())
    );
    assert_eq!(server.metric("spirea_ready"), Some(1.0));
    server.assert_serving();
}

#[test]
fn databases_are_listed_as_json_or_protobuf() {
    let (_folder, server) = urls();
    let reply = server.get("/v1/databases");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    let listed = &body["databases"][0];
    assert_eq!(
        (&listed["name"], &listed["protocol"], &listed["entries"]),
        (&"urls".into(), &"simple".into(), &300.into())
    );
    let reply = server.get_with("/v1/databases", "accept: application/x-protobuf\r\n");
    assert_eq!(reply.header("vary"), Some("accept"));
    let listing = Listing::decode(reply.body.into()).unwrap();
    assert_eq!(listing.databases[0].state, DatabaseState::Ready);
    assert_eq!(listing.databases[0].version, config(&server).version);
    let both = "accept: application/x-protobuf;q=0.5, application/json\r\n";
    assert_eq!(server.get_with("/v1/databases", both).header("content-type"), Some("application/json"));
}

#[test]
fn a_configuration_that_is_known_is_not_sent_again() {
    let (_folder, server) = urls();
    let path = "/v1/databases/urls/config";
    let first = server.get(path);
    let tag = first.header("etag").unwrap();
    assert_eq!(tag.trim_matches('"'), config(&server).version.to_string());
    for known in [tag.to_owned(), format!("\"x\", W/{tag}"), "*".into()] {
        let reply = server.get_with(path, &format!("if-none-match: {known}\r\n"));
        assert_eq!((reply.status, reply.body.len()), (304, 0), "{known}");
    }
    assert_eq!(server.get_with(path, "if-none-match: \"x\"\r\n").status, 200);
}

#[test]
fn hints_are_served_whole_and_in_parts() {
    let (folder, server) = urls();
    let hint = std::fs::read(folder.path().join("urls-1/hint.bin")).unwrap();
    let path = "/v1/databases/urls/hint";
    let whole = server.get(path);
    assert_eq!((whole.status, whole.header("accept-ranges")), (200, Some("bytes")));
    assert_eq!(whole.header("content-length"), Some(hint.len().to_string().as_str()));
    assert!(whole.body == hint);
    let tag = whole.header("etag").unwrap();
    assert_eq!(tag.trim_matches('"'), blake3::hash(&hint).to_hex().as_str());

    let total = hint.len();
    for (range, first, last) in [
        (format!("bytes={}-", total - 5), total - 5, total),
        ("bytes=0-0".into(), 0, 1),
        ("bytes=7-300006".into(), 7, 300_007.min(total)),
        ("bytes=-9".into(), total - 9, total),
    ] {
        for condition in [String::new(), format!("if-range: {tag}\r\n")] {
            let reply = server.get_with(path, &format!("range: {range}\r\n{condition}"));
            assert_eq!(reply.status, 206, "{range}");
            let expected = format!("bytes {first}-{}/{total}", last - 1);
            assert_eq!(reply.header("content-range"), Some(expected.as_str()));
            assert!(reply.body == hint[first..last], "{range}");
        }
        // A range of another hint is ignored.
        let reply = server.get_with(path, &format!("range: {range}\r\nif-range: \"another\"\r\n"));
        assert!(reply.status == 200 && reply.body == hint);
    }
    let reply = server.get_with(path, &format!("range: bytes={total}-\r\n"));
    assert_eq!((reply.status, reply.refusal().code), (416, Code::WrongRange));
    assert_eq!(reply.header("content-range"), Some(format!("bytes */{total}").as_str()));
    assert_eq!(server.get_with(path, &format!("if-none-match: {tag}\r\n")).status, 304);
}

#[test]
fn browsers_may_call() {
    let (_folder, server) = urls();
    let preflight = "OPTIONS /v1/databases/urls/query HTTP/1.1\r\nhost: x\r\norigin: https://page.example\r\naccess-control-request-method: POST\r\naccess-control-request-headers: authorization, content-type\r\nconnection: close\r\n\r\n";
    let reply = exchange(server.address, preflight.as_bytes());
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some("*")));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("post"));
    // The value is not `*`, because browsers' wildcard does not cover the `Authorization` header.
    assert_eq!(reply.header("access-control-allow-headers"), Some("authorization, content-type"));
    let reply = server.get_with("/v1/databases/other/hint", "origin: https://page.example\r\n");
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (404, Some("*")));
    assert!(reply.header("access-control-expose-headers").unwrap().contains("etag"));
}

#[test]
fn a_server_loads_what_it_can_and_says_what_it_cannot() {
    let folder = tempdir().unwrap();
    let urls = write_snapshot(folder.path(), "urls", TableKind::Keyword, 1);
    let rows = write_snapshot(folder.path(), "rows", TableKind::Index, 1);
    let hint = rows.join("hint.bin");
    let mut damaged = std::fs::read(&hint).unwrap();
    damaged[1000] ^= 1;
    std::fs::write(&hint, damaged).unwrap();
    let config = |snapshots: Vec<_>| ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        snapshots,
        threads: 1,
        ..ServerConfig::default()
    };
    let both = config(vec![urls.clone(), rows]);
    let server = Running::start(async { Server::bind(both).await });
    let mut body = serde_json::Value::Null;
    for _ in 0..3000 {
        body = serde_json::from_slice(&server.get("/readyz").body).unwrap();
        if body["databases"].as_array().unwrap().iter().all(|database| database["state"] != "loading") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        (&body["databases"][0]["name"], &body["databases"][0]["state"]),
        (&"rows".into(), &"failed".into())
    );
    assert!(body["databases"][0]["error"].as_str().unwrap().contains("hint.bin"), "{body}");
    assert_eq!(body["databases"][1]["state"], "ready");
    assert_eq!(server.get("/readyz").status, 503);
    server.assert_serving();

    let refused = |config| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Server::bind(config)).map(drop).unwrap_err()
    };
    assert!(matches!(refused(config(vec![])), ServeError::NoSnapshots));
    assert!(matches!(refused(config(vec![folder.path().join("absent")])), ServeError::Store(_)));
    assert!(matches!(refused(config(vec![urls.clone(), urls.clone()])), ServeError::Load(_)));
    let taken = ServerConfig { listen: server.address, ..config(vec![urls]) };
    assert!(matches!(refused(taken), ServeError::Listen { .. }));
}

//! The description of the endpoints: what is committed, what is served, and what happens are the same; so are the
//! dashboard's metrics and those that there are.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use spirea_server::ServerConfig;
use spirea_specimens::no_hook;
use tempfile::tempdir;

use crate::fixture::{Reply, request, serve_config, urls};
use crate::keys;

/// Set to write the documents anew instead of comparing.
const REGENERATE: &str = "SPIREA_REGENERATE";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn what_is_committed_is_served_and_what_happens_is_described() {
    let folder = tempdir().unwrap();
    let engine = urls(folder.path(), no_hook());
    engine.publish(keys::database(no_hook()));
    engine.announce("loading", [3; 32]).unwrap();
    let server = serve_config(&engine, ServerConfig::default());
    let served = [server.get("/openapi.json"), server.get_admin("/openapi.json", "")];
    let documents = served.map(|reply| serde_json::from_slice::<Value>(&reply.body).unwrap());
    for (file, document) in ["openapi.json", "openapi-admin.json"].iter().zip(&documents) {
        let text = serde_json::to_string_pretty(document).unwrap() + "\n";
        let path = root().join("docs").join(file);
        if std::env::var_os(REGENERATE).is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).is_ok_and(|committed| committed == text),
            "docs/{file} is out of date: run `{REGENERATE}=1 cargo test -p spirea-server --test server openapi`"
        );
    }

    let mut seen = BTreeSet::new();
    let mut check = |document: &Value, method: &str, path: &str, reply: &Reply| {
        let responses = &document["paths"][path][method]["responses"];
        let response = responses.get(reply.status.to_string());
        let response = response.unwrap_or_else(|| panic!("{method} {path} gives {}", reply.status));
        let essence = reply.header("content-type").and_then(|content_type| content_type.split(';').next());
        match (&response["content"], essence) {
            (Value::Null, None) => (),
            (content, Some(essence)) => assert!(content.get(essence).is_some(), "{method} {path}: {essence}"),
            (content, None) => panic!("{method} {path} gives {} without {content}", reply.status),
        }
        for (name, header) in response["headers"].as_object().into_iter().flatten() {
            let there = reply.header(&name.to_ascii_lowercase()).is_some();
            assert!(
                there || header["required"] != true,
                "{method} {path} gives {} without {name}",
                reply.status
            );
        }
        seen.insert(reply.status);
    };
    for (i, document) in documents.iter().enumerate() {
        let paths = document["paths"].as_object().unwrap();
        for path in paths.iter().filter(|(_, methods)| methods.get("get").is_some()).map(|(path, _)| path) {
            for name in ["urls", "keyed", "loading", "absent"] {
                for headers in [
                    "",
                    "accept: application/json\r\n",
                    "accept: application/x-protobuf\r\n",
                    "range: bytes=0-0\r\n",
                    "range: bytes=99999999999-\r\n",
                    "if-none-match: *\r\n",
                    "origin: https://page.example\r\n",
                ] {
                    for query in ["", "?version=11", "?blake3=11"] {
                        let asked = path.replace("{name}", name) + query;
                        let reply = if i == 0 {
                            server.get_with(&asked, headers)
                        } else {
                            server.get_admin(&asked, headers)
                        };
                        check(document, "get", path, &reply);
                    }
                }
            }
        }
    }
    let good = request(&server, 1);
    let stale = spirea_wire::Request { version: [9; 32], ..good.clone() };
    let bodies = [
        good.encode(),
        stale.encode(),
        Vec::new(),
        vec![0xff; 100],
        vec![0; 24 << 20],
        keys::request(Some([7; 32])).encode(),
    ];
    for path in ["/v1/databases/{name}/query", "/v1/databases/{name}/keys"] {
        for name in ["urls", "keyed", "loading", "absent"] {
            for body in &bodies {
                for headers in [
                    "",
                    "content-type: application/x-protobuf\r\n",
                    "content-type: application/x-protobuf\r\naccept: application/json\r\n",
                ] {
                    let reply = server.post_with(&path.replace("{name}", name), headers, body);
                    check(&documents[0], "post", path, &reply);
                }
            }
        }
    }
    let expected = [200, 206, 304, 400, 403, 404, 409, 413, 415, 416, 424, 503];
    assert!(expected.iter().all(|status| seen.contains(status)), "{seen:?}");
}

#[test]
fn every_metric_of_the_dashboard_exists() {
    let dashboard: Value =
        serde_json::from_str(&std::fs::read_to_string(root().join("deploy/grafana.json")).unwrap()).unwrap();
    let known = include_str!("../../src/metrics.rs");
    let mut used = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let words =
                target["expr"].as_str().unwrap().split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            used.extend(words.filter(|word| word.starts_with("spirea_")).map(str::to_owned));
        }
    }
    assert!(used.len() > 15, "{used:?}");
    for metric in &used {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| metric.strip_suffix(end));
        let exists = |name: &str| known.contains(&format!("\"{name}\""));
        assert!(exists(metric) || family.is_some_and(exists), "{metric} is in deploy/grafana.json alone");
    }
    // And the other way: what is measured is shown.
    for name in known.split('"').filter(|name| name.starts_with("spirea_")) {
        assert!(used.iter().any(|metric| metric.starts_with(name)), "{name} is not in deploy/grafana.json");
    }
}

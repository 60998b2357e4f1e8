//! The committed OpenAPI documents agree with the served documents and with the actual behaviour.
//! The metrics of the dashboard agree with the existing metrics.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use spirea_apple::ohttp::GatewayKey;
use spirea_client::{ClientOptions, HttpClient};
use spirea_protocols::{KeysHash, Version};
use spirea_server::{AppleConfig, ServerConfig};
use spirea_specimens::no_hook;
use tempfile::tempdir;

use crate::fixture::{Reply, eventually, options, request, serve_config, urls};
use crate::{apple, apple_tokens, gateway, keys, publish, tokens};

/// Variable that makes the test rewrite the documents instead of comparing them.
const REGENERATE: &str = "SPIREA_REGENERATE";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn what_is_committed_is_served_and_what_happens_is_described() {
    let folder = tempdir().unwrap();
    let engine = urls(folder.path(), no_hook());
    engine.publish(keys::database(no_hook()));
    engine.announce("loading", Version::new([3; 32])).unwrap();
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
    let stale = spirea_wire::Request { version: Version::new([9; 32]), ..good.clone() };
    let bodies = [
        good.encode(),
        stale.encode(),
        Vec::new(),
        vec![0xff; 100],
        vec![0; 24 << 20],
        keys::request(Some(KeysHash::new([7; 32]))).encode(),
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

/// Returns the metric names in the dashboard's panels.
fn shown() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deploy/grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let words = targets.flat_map(|target| {
        target["expr"].as_str().unwrap().split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
    });
    words.filter(|word| word.starts_with("spirea_")).map(str::to_owned).collect()
}

/// Returns the names of the metrics that the alerts use.
fn alerted() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deploy/alerts.yml")).unwrap();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("spirea_")).map(str::to_owned).collect()
}

/// Returns the names of each metric in a server's output; a histogram has three names.
fn given(metrics: &str) -> Vec<Vec<String>> {
    let families = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names = families.map(|(name, kind)| match kind {
        "histogram" => ["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")).into(),
        _ => vec![name.to_owned()],
    });
    names.collect()
}

#[test]
fn the_dashboard_shows_every_metric_and_asks_for_no_other() {
    let folder = tempdir().unwrap();
    let path = publish::repository(folder.path(), &publish::snapshot(folder.path(), "simple", true, 1));
    let (file, token) = (folder.path().join("tokens.toml"), tokens::secret());
    tokens::write(&file, &[("client", &token, "scopes = [\"query\"]")]);
    let accepted = apple_tokens::write(folder.path(), "", &[(&apple_tokens::Issuer::new(), "")]);
    let gateway_keys = gateway::write(folder.path(), &[&GatewayKey::generate().unwrap()]);
    let apple_config =
        AppleConfig { tokens: Some(accepted), gateway: Some(gateway_keys), ..AppleConfig::default() };
    let server = publish::serve_with(ServerConfig {
        tokens: Some(file),
        apple: apple_config,
        ..publish::config(&path)
    });
    // A metric with labels exists only after its first event.
    let token = Some(token.expose().to_owned());
    let options = ClientOptions { token, ..options(&folder.path().join("cache")) };
    let mut client = HttpClient::connect_with(&[&server.url()], "table", options).unwrap();
    assert!(client.get_keys(&[b"key-1"]).unwrap()[0].is_some());
    assert_eq!(server.get("/v1/databases").status, 401);
    assert_eq!(server.post_with("/config", apple::CLIENT, b"").status, 401);
    assert_eq!(server.post_with(gateway::PATH, gateway::TYPE, b"").status, 400);
    server.reloader.reload();
    eventually("the tokens are read again", || {
        server.get("/metrics").text().contains("spirea_reloads_total{")
    });

    let (shown, given) = (shown(), given(&server.get("/metrics").text()));
    assert!(given.len() > 30, "{given:?}");
    for names in &given {
        assert!(names.iter().any(|name| shown.contains(name)), "{names:?} is not in deploy/grafana.json");
    }
    let given: BTreeSet<String> = given.into_iter().flatten().collect();
    let unknown: Vec<_> = shown.difference(&given).collect();
    assert!(unknown.is_empty(), "deploy/grafana.json asks for {unknown:?}, which no server gives");
    let alerted = alerted();
    let unknown: Vec<_> = alerted.difference(&given).collect();
    assert!(alerted.len() > 10 && unknown.is_empty(), "deploy/alerts.yml asks for {unknown:?}");
}

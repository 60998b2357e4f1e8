//! Traces, with a collector that accepts or refuses them.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use spirea_server::ServerConfig;
use spirea_specimens::no_hook;
use spirea_specimens::snapshots::{key, value};
use tempfile::tempdir;

use crate::fixture::{Running, connect, eventually, request, serve_config, texts, urls};

/// Requests that a collector has received: heads and bodies.
type Taken = Arc<Mutex<Vec<(String, Value)>>>;

/// Starts a collector that responds with this status.
fn collector(status: u16) -> (SocketAddr, Taken) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, taken) = (listener.local_addr().unwrap(), Taken::default());
    let all = Arc::clone(&taken);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            all.lock().push(message(&mut stream));
            let reply = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
            // The sender may have gone.
            let _ = stream.write_all(reply.as_bytes());
        }
    });
    (address, taken)
}

fn message(stream: &mut TcpStream) -> (String, Value) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (head, serde_json::from_slice(&body).unwrap())
}

fn serve(folder: &std::path::Path, collector: SocketAddr) -> Running {
    let traces = Some(format!("http://{collector}").parse().unwrap());
    serve_config(&urls(folder, no_hook()), ServerConfig { traces, ..ServerConfig::default() })
}

/// Returns all received spans.
fn spans(taken: &Taken) -> Vec<Value> {
    let taken = taken.lock();
    let of = |(head, body): &(String, Value)| {
        assert!(head.starts_with("post /v1/traces http/1.1") && head.contains("application/json"), "{head}");
        let resource = &body["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "spirea");
        resource["scopeSpans"][0]["spans"].as_array().unwrap().clone()
    };
    taken.iter().flat_map(of).collect()
}

fn times(span: &Value) -> [u128; 2] {
    ["startTimeUnixNano", "endTimeUnixNano"].map(|time| span[time].as_str().unwrap().parse().unwrap())
}

#[test]
fn a_query_is_a_trace_of_its_wait_and_its_computation() {
    let (address, taken) = collector(200);
    let folder = tempdir().unwrap();
    let server = serve(folder.path(), address);
    let mut client = connect(&server.url(), "urls", folder.path()).unwrap();
    assert_eq!(texts(client.get_keys(&[&key(7)]).unwrap()), [Some(value(7, 1))]);
    assert_eq!(server.get("/v1/databases/a-secret-name/config").status, 404);
    let sent = request(&server, 2);
    assert_eq!(server.post("/v1/databases/urls/query", &sent.encode()).status, 200);
    // Queued traces are sent before the server ends.
    drop(server);
    let spans = spans(&taken);
    let named = |name: &str| spans.iter().filter(|span| span["name"] == name).collect::<Vec<_>>();
    let queries = named("POST /v1/databases/{name}/query");
    assert_eq!((queries.len(), named("wait").len(), named("compute").len()), (2, 2, 2));
    assert_eq!(named("GET /healthz").len(), 0);
    for query in queries {
        assert!(query.get("parentSpanId").is_none() && query["kind"] == 2);
        let children: Vec<_> = spans.iter().filter(|span| span["parentSpanId"] == query["spanId"]).collect();
        let [wait, compute] = children[..] else { panic!("{children:?}") };
        assert!(children.iter().all(|child| child["traceId"] == query["traceId"]));
        assert_eq!(times(wait)[1], times(compute)[0]);
        assert!(times(query)[0] <= times(wait)[0] && times(compute)[1] <= times(query)[1]);
        assert!(times(compute)[0] < times(compute)[1]);
    }
    let identities: BTreeSet<_> = spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
    assert_eq!(identities.len(), spans.len());
    assert!(spans.iter().all(|span| span["traceId"].as_str().unwrap().len() == 32));

    // Spans have only the attributes that metrics have.
    let attributes = spans.iter().flat_map(|span| span["attributes"].as_array().unwrap());
    let keys: BTreeSet<_> = attributes.map(|attribute| attribute["key"].as_str().unwrap()).collect();
    let known = [
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "spirea.batch.queries",
        "spirea.database",
    ];
    assert_eq!(keys, BTreeSet::from(known));
    let text = serde_json::to_string(&spans).unwrap();
    assert!(!text.contains("a-secret-name") && !text.contains("127.0.0.1"));
}

#[test]
fn a_collector_that_takes_nothing_costs_traces_alone() {
    let (refusing, _) = collector(503);
    // The local end of this connection keeps its port in use, and nobody listens on it.
    let kept = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = TcpStream::connect(kept.local_addr().unwrap()).unwrap();
    for address in [refusing, taken.local_addr().unwrap()] {
        let folder = tempdir().unwrap();
        let server = serve(folder.path(), address);
        server.assert_serving();
        eventually("traces are dropped", || {
            server.metric("spirea_traces_dropped_total").is_some_and(|dropped| dropped > 0.0)
        });
        server.assert_serving();
    }
}

#[test]
fn a_method_of_the_client_s_own_is_not_told() {
    let (address, taken) = collector(200);
    let folder = tempdir().unwrap();
    let server = serve(folder.path(), address);
    let method = "X".repeat(32 << 10);
    let head = format!("{method} /v1/databases HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(crate::fixture::exchange(server.address, head.as_bytes()).status, 405);
    drop(server);
    let names: Vec<_> = spans(&taken).iter().map(|span| span["name"].clone()).collect();
    assert_eq!(names, ["other /v1/databases"]);
}

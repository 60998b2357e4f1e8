//! One trace through a coordinator and its workers.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use spirea_cluster::{CoordinatorConfig, WorkerConfig};
use spirea_server::ServerConfig;

use crate::fixture::{Coordinating, Place, Working, build, each_once, eventually};

/// Starts a collector; returns its address and the spans that it receives.
fn collector() -> (SocketAddr, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, taken) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let all = Arc::clone(&taken);
    // The thread ends with the process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let document: Value = serde_json::from_slice(&body(&mut stream)).unwrap();
            let spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
            all.lock().extend(spans);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (address, taken)
}

fn body(stream: &mut TcpStream) -> Vec<u8> {
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
    body
}

#[test]
fn a_query_is_one_trace_through_the_coordinator_and_all_workers() {
    let (address, taken) = collector();
    let traces = || Some(format!("http://{address}").parse().unwrap());
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let worker =
        |index| Working::start(WorkerConfig { traces: traces(), ..place.worker_config(&snapshot, index, 2) });
    let workers: Vec<Working> = [0, 1].map(worker).into();
    let placement = place.place(&[(&snapshot, each_once(&workers))]);
    let config = place.coordinator_config(placement);
    let server = ServerConfig { traces: traces(), ..config.server };
    let coordinator = Coordinating::start(CoordinatorConfig { server, ..config });
    coordinator.ready(&snapshot);
    place.client(&coordinator).get_indices(&[7]).unwrap();
    let named = |name: &str| -> Vec<Value> {
        taken.lock().iter().filter(|span| span["name"] == name).cloned().collect()
    };
    eventually("all spans are there", || {
        named("POST /v1/databases/{name}/query").len() == 1 && named("/v1/partial").len() == 2
    });
    let query = &named("POST /v1/databases/{name}/query")[0];
    for partial in named("/v1/partial") {
        assert_eq!((&partial["traceId"], &partial["parentSpanId"]), (&query["traceId"], &query["spanId"]));
        assert_ne!(partial["spanId"], query["spanId"]);
    }
    let text = serde_json::to_string(&*taken.lock()).unwrap();
    assert!(!text.contains("127.0.0.1"), "{text}");
}

//! Placements that change while queries are answered.

use std::time::Duration;

use serde_json::json;
use spirea_cluster::WorkerConfig;
use spirea_wire::{Queries, Request};

use crate::failures::while_asked;
use crate::fixture::{Place, Working, build, each_once, eventually, exchange};
use crate::proxy::Proxy;

#[test]
fn versions_roll_over_under_load_without_an_error() {
    let place = Place::new();
    let [first, second] = [1, 2].map(|edition| build(place.path(), "simple", edition));
    let mut former = place.workers(&first, 2);
    let of_first = each_once(&former);
    let coordinator = place.coordinator(place.place(&[(&first, of_first.clone())]), None);
    coordinator.ready(&first);
    let (path, version) = ("/v1/databases/words/config", first.version().to_string());
    let config = |query: &str| exchange(coordinator.address, "GET", &format!("{path}{query}"), "", b"").0;
    let mut workers = Vec::new();
    while_asked(&place, &coordinator, &[1, 2], || {
        // The shares of the new version start one after another: at first only one of them is
        // served.
        workers.push(place.worker(&second, 0, 2));
        place.place(&[(&first, of_first.clone()), (&second, vec![vec![workers[0].url()], vec![]])]);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(coordinator.current(), Some(version.clone()));
        workers.push(place.worker(&second, 1, 2));
        place.place(&[(&first, of_first.clone()), (&second, each_once(&workers))]);
        coordinator.ready(&second);
        // Clients that name the former version are answered.
        assert_eq!(config(&format!("?version={version}")), 200);
        place.place(&[(&second, each_once(&workers))]);
        eventually("the former version has gone", || config(&format!("?version={version}")) != 200);
        former.iter_mut().for_each(|worker| worker.drain());
    });
}

#[test]
fn a_former_version_is_listed_until_all_that_it_accepted_is_answered() {
    let place = Place::new();
    let [first, second] = [1, 2].map(|edition| build(place.path(), "simple", edition));
    let (mut former, newest) = (place.worker(&first, 0, 1), place.worker(&second, 0, 1));
    let slow = Proxy::to(former.address);
    let coordinator = place.coordinator(place.place(&[(&first, vec![vec![slow.url()]])]), None);
    coordinator.ready(&first);
    let of_second = vec![vec![newest.url()]];
    place.place(&[(&first, vec![vec![slow.url()]]), (&second, of_second.clone())]);
    coordinator.ready(&second);
    assert!(coordinator.snapshots().iter().all(|snapshot| snapshot["in_flight"] == 0));
    let query_bytes = first.manifest().protocol.sizes.query_bytes;
    // These are full batches, and more of them than the worker computes while it drains.
    let queries = vec![vec![1; query_bytes].into(); former.status.max_batch];
    let base = Queries { keys: None, queries };
    let request = Request { version: first.version(), base, delta: None }.encode();
    slow.slow_down(Duration::from_millis(600));
    let path = first.folder().display().to_string();
    let leaving = || coordinator.snapshots().into_iter().find(|snapshot| snapshot["path"] == *path);
    std::thread::scope(|scope| {
        let accepted: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| coordinator.post("/v1/databases/words/query", &request)))
            .collect();
        eventually("some wait", || leaving().unwrap()["in_flight"].as_u64() > Some(6));
        place.place(&[(&second, of_second)]);
        eventually("it is placed no longer", || {
            leaving().is_some_and(|snapshot| snapshot["state"] == "leaving" && snapshot["in_flight"] != 0)
        });
        slow.slow_down(Duration::ZERO);
        eventually("nobody waits for it", || leaving().is_none());
        former.drain();
        for answered in accepted {
            let (status, body) = answered.join().unwrap();
            assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        }
    });
    assert_eq!(coordinator.current(), Some(second.version().to_string()));
}

#[test]
fn workers_that_drain_are_left_before_they_end() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    // The drain delay is far longer than the interval of the coordinator's status requests.
    let drain_delay = Duration::from_secs(4);
    let mut first = Working::start(WorkerConfig { drain_delay, ..place.worker_config(&snapshot, 0, 1) });
    let second = place.worker(&snapshot, 0, 1);
    let way = Proxy::to(first.address);
    let urls = vec![vec![way.url(), second.url()]];
    let mut coordinator = place.coordinator(place.place(&[(&snapshot, urls)]), None);
    coordinator.ready(&snapshot);
    // The worker's last response is still on its way when the worker ends.
    way.slow_down(Duration::from_millis(200));
    while_asked(&place, &coordinator, &[1], || {
        eventually("it is asked", || coordinator.replica(0, 0)["requests"].as_u64() > Some(0));
        first.drain();
        eventually("it has ended", || coordinator.replica(0, 0)["state"] == "failed");
    });
    assert_eq!([0, 1].map(|index| coordinator.replica(0, index)["failures"].as_u64()), [Some(0); 2]);
    // The coordinator ends once it has answered.
    coordinator.stop();
}

#[test]
fn what_is_placed_is_being_loaded_from_the_first_request_on() {
    let place = Place::new();
    let none = place.path().join("none.json");
    std::fs::write(&none, json!({ "databases": [] }).to_string()).unwrap();
    let coordinator = place.coordinator(none, None);
    let config = |name: &str| {
        let path = format!("/v1/databases/{name}/config");
        exchange(coordinator.address, "GET", &path, "", b"").0
    };
    // A client that hears that there is no such database does not retry.
    for turn in 0..50 {
        let name = format!("words-{turn}");
        assert_eq!(config(&name), 404);
        let snapshot = json!({
            "path": place.path().join("absent"), "version": "0".repeat(64), "shares": [["https://127.0.0.1:1"]]
        });
        let document = json!({ "databases": [{ "name": name, "snapshots": [snapshot] }] });
        assert_eq!(coordinator.admin("PUT", "/v1/placement", document.to_string().as_bytes()).0, 200);
        assert_eq!(config(&name), 503);
    }
}

#[test]
fn operators_place_and_see_and_others_do_not() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let workers = place.workers(&snapshot, 1);
    let none = place.path().join("none.json");
    std::fs::write(&none, json!({ "databases": [] }).to_string()).unwrap();
    let coordinator = place.coordinator(none, None);
    assert_eq!(coordinator.report(), json!({ "databases": [] }));
    let put = |document: serde_json::Value| {
        coordinator.admin("PUT", "/v1/placement", document.to_string().as_bytes())
    };
    let placed = |path: &std::path::Path| {
        let snapshot = json!({
            "path": path, "version": snapshot.version().to_string(), "shares": [[workers[0].url()]]
        });
        json!({ "databases": [{ "name": "words", "snapshots": [snapshot] }] })
    };
    assert_eq!(put(placed(snapshot.folder())).0, 200);
    coordinator.ready(&snapshot);
    let (status, text) = put(json!({ "databases": [{ "name": "words", "snapshots": [
            { "path": "/a", "version": snapshot.version().to_string(), "shares": [] }
        ] }] }));
    assert_eq!(status, 400);
    assert!(String::from_utf8_lossy(&text).contains("the one before it stays"));
    assert_eq!(coordinator.current(), Some(snapshot.version().to_string()));
    while_asked(&place, &coordinator, &[1], || ());
    let report = coordinator.report();
    let database = &report["databases"][0];
    assert!(database["queries"].as_u64() > Some(9) && database["queries_per_second"].as_f64() > Some(0.0));
    assert_eq!((&database["waiting"], &database["running"]), (&json!(0), &json!(0)));
    let replica = coordinator.replica(0, 0);
    assert!(replica["p99_ms"].as_f64() >= replica["p50_ms"].as_f64());
    let (_, metrics) = exchange(coordinator.address, "GET", "/metrics", "", b"");
    let metrics = String::from_utf8(metrics).unwrap();
    for name in ["spirea_replica_ready{", "spirea_database_queries_total{", "spirea_latency_seconds_count{"] {
        assert!(metrics.lines().any(|line| line.starts_with(name) && !line.ends_with(" 0")), "{name}");
    }
    // Clients must not reach the endpoint.
    assert_eq!(exchange(coordinator.address, "GET", "/v1/placement", "", b"").0, 404);
    // A folder without a snapshot is reported, and other databases continue to answer.
    assert_eq!(put(placed(place.path())).0, 200);
    eventually("the cause is told", || {
        coordinator.report()["databases"][0]["snapshots"][0]["state"] == "refused"
    });
}

#[test]
fn a_folder_with_another_version_than_the_placed_one_is_refused() {
    let place = Place::new();
    let [wanted, swapped] = [1, 2].map(|edition| build(place.path(), "simple", edition));
    let worker = place.worker(&swapped, 0, 1);
    let snapshot = json!({
        "path": swapped.folder(), "version": wanted.version().to_string(), "shares": [[worker.url()]]
    });
    let document = json!({ "databases": [{ "name": "words", "snapshots": [snapshot] }] });
    let placement = place.path().join("placement.json");
    std::fs::write(&placement, document.to_string()).unwrap();
    let coordinator = place.coordinator(placement, None);
    let cause = || coordinator.snapshots()[0]["cause"].as_str().unwrap_or_default().to_owned();
    eventually("the other version is refused", || cause().contains(&swapped.version().to_string()));
    assert_eq!(coordinator.current(), None);
}

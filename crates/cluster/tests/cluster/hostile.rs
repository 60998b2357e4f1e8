//! Hostile bytes at any path of a worker's port, as from a coordinator that an attacker controls;
//! also as placements, and as workers' status reports. `SPIREA_CONFORMANCE=long` makes 100,000 of
//! each.

use bytes::Bytes;
use spirea_cluster::{Placement, ShareState, ShareStatus};
use spirea_specimens::{Inputs, inputs};
use spirea_wire::ShareRequest;

use crate::fixture::{Place, build};
use crate::workers::Asking;

#[test]
fn a_worker_refuses_any_bytes_and_answers_on() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let worker = place.worker(&snapshot, 0, 1);
    let query = vec![1; snapshot.manifest().protocol.sizes.query_bytes];
    let version = snapshot.version();
    let request = |queries: usize| {
        let queries = vec![(None, Bytes::from(query.clone())); queries];
        ShareRequest { version, keys: Vec::new(), queries }.encode().to_vec()
    };
    let corpus = [request(1), request(3), b"spirea".to_vec()];
    let mut made = Inputs::new(3);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let asking = Asking::open(&place.as_coordinator("hostile"), &worker).await.unwrap();
        let (status, _, honest) = asking.ask("POST", "/v1/partial", corpus[0].clone()).await;
        assert_eq!(status, 200);
        let keys = format!("/v1/keys/{}", "0".repeat(64));
        for i in 0..inputs(1000) {
            let body = made.changed(&corpus);
            let any = format!("/v1/{}", blake3::hash(&body).to_hex());
            let path = *made.of(&["/v1/partial", "/v1/partial", "/v1/partial", "/v1/share", &keys, &any]);
            let method = if path == "/v1/partial" { "POST" } else { *made.of(&["GET", "POST", "PUT", "X"]) };
            let (status, later, _) = asking.ask(method, path, body).await;
            assert!(status.as_u16() < 500, "{i}: {method} {path}: {status}, again later: {later}");
        }
        let (status, _, again) = asking.ask("POST", "/v1/partial", corpus[0].clone()).await;
        assert_eq!((status.as_u16(), again), (200, honest));
    });
}

#[test]
fn any_bytes_are_a_placement_or_an_error() {
    let placement = format!(
        r#"{{"databases":[{{"name":"words","snapshots":[{{"path":"/srv/words","version":"{}","shares":[
            ["https://worker-3:7000"],["https://[::1]:7000","https://10.0.0.1:7000"],[]]}}]}}]}}"#,
        "0".repeat(64)
    );
    Placement::from_json(placement.as_bytes()).unwrap();
    let (corpus, mut made) = ([placement.into_bytes()], Inputs::new(4));
    for _ in 0..inputs(2000) {
        if let Ok(placement) = Placement::from_json(&made.changed(&corpus)) {
            let again = serde_json::to_vec(&placement).unwrap();
            assert_eq!(Placement::from_json(&again).unwrap(), placement);
            let snapshots = placement.databases.iter().flat_map(|database| &database.snapshots);
            // Letters of a scheme may have either case.
            for url in snapshots.flat_map(|snapshot| snapshot.shares.iter().flatten()) {
                assert!(url.to_ascii_lowercase().starts_with("https://"), "{url}");
            }
        }
    }
}

#[test]
fn any_bytes_are_a_workers_state_or_an_error() {
    let status = ShareStatus {
        database: "words".into(),
        version: "0".repeat(64),
        share: 1,
        shares: 2,
        party: Some(1),
        bytes: 1 << 40,
        queue: 3,
        running: 1,
        max_batch: 64,
        keys_bytes: 0,
        state: ShareState::Ready,
    };
    let (corpus, mut made) = ([serde_json::to_vec(&status).unwrap()], Inputs::new(5));
    for _ in 0..inputs(2000) {
        if let Ok(status) = serde_json::from_slice::<ShareStatus>(&made.changed(&corpus)) {
            let again = serde_json::to_vec(&status).unwrap();
            assert_eq!(serde_json::from_slice::<ShareStatus>(&again).unwrap(), status);
        }
    }
}

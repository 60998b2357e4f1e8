//! Requests of a coordinator that an attacker controls: any bytes at any path of a worker's port.
//! `SPIREA_CONFORMANCE=long` sends 100,000.

use bytes::Bytes;
use spirea_specimens::{Inputs, inputs};
use spirea_wire::ShareRequest;

use crate::fixture::{Place, build};
use crate::workers::Asking;

#[test]
fn a_worker_refuses_any_bytes_and_answers_on() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let worker = place.worker(&snapshot, 0, 1);
    let query = vec![1; snapshot.manifest().protocol.sizes().query_bytes];
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

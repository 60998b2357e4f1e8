//! A worker that has the right certificate and misbehaves: its honest replica answers, and soon the
//! worker is avoided.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use spirea_cluster::{CoordinatorConfig, MutualTls, ShareStatus};
use spirea_math::random::SecretRng;
use spirea_protocols::{Partial, Party};
use spirea_server::{Limits, ServerConfig, Stopper, serve_router};
use spirea_store::Snapshot;
use spirea_wire::{Queries, Request};

use crate::fixture::{Coordinating, Place, Working, build, build_keyed, eventually};
use crate::workers::Asking;

/// Behaviour with a batch.
#[derive(Clone)]
enum Conduct {
    /// Never answers.
    Silence,
    /// Refuses with this status.
    Refuses(StatusCode),
    /// Sends an honest worker's partial with other content.
    Garbles(Arc<Asking>),
}

struct Rogue {
    url: String,
    asked: Arc<AtomicU64>,
    _runtime: tokio::runtime::Runtime,
}

impl Rogue {
    fn start(
        place: &Place,
        status: &ShareStatus,
        conduct: impl FnOnce(&tokio::runtime::Runtime) -> Conduct,
    ) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let acceptor = MutualTls::open(&place.as_worker("rogue")).unwrap().acceptor();
        let status = serde_json::to_vec(status).unwrap();
        let (conduct, asked) = (conduct(&runtime), Arc::new(AtomicU64::new(0)));
        let (of_keys, of_partials) = (conduct.clone(), Arc::clone(&asked));
        let router = Router::new()
            .route("/v1/share", get(|| async move { status }))
            .route(
                "/v1/keys/{hash}",
                put(|Path(hash): Path<String>, body: Bytes| async move {
                    if let Conduct::Garbles(honest) = of_keys {
                        honest.ask("PUT", &format!("/v1/keys/{hash}"), body).await;
                    }
                    StatusCode::NO_CONTENT
                }),
            )
            .route(
                "/v1/partial",
                post(move |body: Bytes| async move {
                    of_partials.fetch_add(1, Ordering::Relaxed);
                    misbehave(conduct, body).await
                }),
            )
            // Keys are longer than the default limit.
            .layer(DefaultBodyLimit::disable());
        runtime.spawn(async move {
            serve_router(listener, Some(acceptor), router, Limits::default(), &Stopper::new()).await;
        });
        Self { url, asked, _runtime: runtime }
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

async fn misbehave(conduct: Conduct, body: Bytes) -> Response {
    match conduct {
        Conduct::Silence => std::future::pending().await,
        Conduct::Refuses(status) => (status, [(RETRY_AFTER, "1")], "no\n").into_response(),
        Conduct::Garbles(honest) => {
            let (_, _, partial) = honest.ask("POST", "/v1/partial", body).await;
            let mut partial = partial.to_vec();
            partial[Partial::HEADER_BYTES..].fill(0xff);
            partial.into_response()
        }
    }
}

/// Starts a coordinator for a share with a rogue and an honest worker, and waits until it reports
/// both as ready.
fn beside(place: &Place, snapshot: &Snapshot, rogue: &Rogue, honest: &Working) -> Coordinating {
    let placement = place.place(&[(snapshot, vec![vec![rogue.url.clone(), honest.url()]])]);
    let batch_timeout = Duration::from_secs(30);
    let config = place.coordinator_config(placement);
    let party = (snapshot.manifest().protocol.parties > 1).then_some(Party::Zero);
    let server = ServerConfig { party, ..config.server };
    let coordinator = Coordinating::start(CoordinatorConfig { server, batch_timeout, ..config });
    coordinator.ready(snapshot);
    eventually("both are ready", || {
        [0, 1].iter().all(|&replica| coordinator.replica(0, replica)["state"] == "ready")
    });
    coordinator
}

const LOOK_UPS: u64 = 20;

/// Looks up rows, each of which must be found. Returns the number of batches that the rogue was
/// asked for.
fn all_are_answered(place: &Place, coordinator: &Coordinating, rogue: &Rogue) -> u64 {
    let mut client = place.client(coordinator);
    for row in 0..LOOK_UPS {
        assert!(client.get_indices(&[row]).unwrap()[0].is_some(), "row {row}");
    }
    rogue.asked()
}

#[test]
fn a_worker_that_never_computes_stops_no_look_up() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let honest = place.worker(&snapshot, 0, 1);
    let rogue = Rogue::start(&place, &honest.status, |_| Conduct::Silence);
    let coordinator = beside(&place, &snapshot, &rogue, &honest);
    assert!(all_are_answered(&place, &coordinator, &rogue) < LOOK_UPS / 2);
}

#[test]
fn a_worker_that_refuses_fast_does_not_become_the_favourite() {
    let refusals = [
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::UNPROCESSABLE_ENTITY,
    ];
    for status in refusals {
        let place = Place::new();
        let snapshot = build(place.path(), "simple", 1);
        let honest = place.worker(&snapshot, 0, 1);
        let rogue = Rogue::start(&place, &honest.status, |_| Conduct::Refuses(status));
        let coordinator = beside(&place, &snapshot, &rogue, &honest);
        let asked = all_are_answered(&place, &coordinator, &rogue);
        assert!(asked < LOOK_UPS / 2, "{status}: {asked}");
        assert_eq!(coordinator.replica(0, 1)["avoided"], serde_json::Value::Null);
    }
}

/// Number of malformed queries: more than a share's budget of second opinions.
const MALFORMED: usize = 30;

#[test]
fn a_malformed_query_reaches_no_worker_and_costs_nobody_anything() {
    let place = Place::new();
    let snapshot = build(place.path(), "dpf-xor", 1);
    let honest = place.worker(&snapshot, 0, 1);
    let rogue = Rogue::start(&place, &honest.status, |_| Conduct::Refuses(StatusCode::UNPROCESSABLE_ENTITY));
    let coordinator = beside(&place, &snapshot, &rogue, &honest);
    let asked = || [0, 1].map(|replica| coordinator.replica(0, replica)["requests"].clone());
    let query_bytes = snapshot.manifest().protocol.sizes.query_bytes;
    let post = |query: Vec<u8>| {
        let base = Queries { keys: None, queries: vec![query.into()] };
        let request = Request { version: snapshot.version(), base, delta: None }.encode();
        coordinator.post("/v1/databases/words/query", &request).0
    };
    let before = asked();
    for _ in 0..MALFORMED {
        let status = post(vec![0xff; query_bytes]);
        assert!((400..500).contains(&status), "{status}");
    }
    assert_eq!(asked(), before);
    assert_eq!(coordinator.replica(0, 1)["avoided"], serde_json::Value::Null);
    // Queries of other clients are answered; the rogue's refusals reach no client.
    let mut rng = SecretRng::deterministic_for_tests(1);
    let client = snapshot.manifest().protocol.client(&[], &[], &mut rng).unwrap();
    for _ in 0..LOOK_UPS {
        assert_eq!(post(client.query(0, &mut rng).unwrap().queries.remove(0)), 200);
    }
    assert!(coordinator.replica(0, 0)["avoided"].as_str().unwrap().contains("refused queries"));
    assert_eq!(coordinator.replica(0, 1)["avoided"], serde_json::Value::Null);
}

#[test]
fn a_partial_that_does_not_combine_is_its_workers_and_another_one_is_asked() {
    let place = Place::new();
    let snapshot = build_keyed(place.path());
    let honest = place.worker(&snapshot, 0, 1);
    let asking = place.as_coordinator("asking");
    let rogue = Rogue::start(&place, &honest.status, |runtime| {
        Conduct::Garbles(Arc::new(runtime.block_on(Asking::open(&asking, &honest)).unwrap()))
    });
    let coordinator = beside(&place, &snapshot, &rogue, &honest);
    let mut client = place.client(&coordinator);
    // A replica that has not answered yet has the lowest expected time.
    assert!(client.get_indices(&[1]).unwrap()[0].is_some());
    assert!(rogue.asked() > 0);
    assert!(coordinator.replica(0, 0)["avoided"].as_str().unwrap().contains("combine"));
    assert!(client.get_indices(&[2]).unwrap()[0].is_some());
    assert_eq!(coordinator.replica(0, 1)["avoided"], serde_json::Value::Null);
}

/// Starts a coordinator for a share with a worker whose partials combine and are wrong, and with
/// `count` honest workers. Returns it when it has compared a partial of the rogue.
fn beside_garbling(place: &Place, count: usize) -> (Coordinating, Rogue, Vec<Working>) {
    let snapshot = build(place.path(), "simple", 1);
    let honest: Vec<Working> = (0..count).map(|_| place.worker(&snapshot, 0, 1)).collect();
    let asking = place.as_coordinator("asking");
    let rogue = Rogue::start(place, &honest[0].status, |runtime| {
        Conduct::Garbles(Arc::new(runtime.block_on(Asking::open(&asking, &honest[0])).unwrap()))
    });
    let urls = std::iter::once(rogue.url.clone()).chain(honest.iter().map(Working::url)).collect();
    let coordinator = place.coordinator(place.place(&[(&snapshot, vec![urls])]), None);
    coordinator.ready(&snapshot);
    eventually("all are ready", || {
        (0..=count).all(|replica| coordinator.replica(0, replica)["state"] == "ready")
    });
    let mut client = place.client(&coordinator);
    eventually("the rogue's partial is compared", || {
        // Fails if the rogue is asked.
        let _ = client.get_indices(&[1]);
        !coordinator.replica(0, 0)["avoided"].is_null()
    });
    (coordinator, rogue, honest)
}

#[test]
fn a_wrong_partial_that_combines_is_its_workers_if_two_others_agree() {
    let place = Place::new();
    let (coordinator, rogue, honest) = beside_garbling(&place, 2);
    assert!(coordinator.replica(0, 0)["avoided"].as_str().unwrap().contains("two other replicas"));
    for replica in 1..=honest.len() {
        assert_eq!(coordinator.replica(0, replica)["avoided"], serde_json::Value::Null);
    }
    let before = rogue.asked();
    assert_eq!(all_are_answered(&place, &coordinator, &rogue), before);
}

#[test]
fn two_workers_that_differ_are_both_reported() {
    let place = Place::new();
    let (coordinator, _rogue, honest) = beside_garbling(&place, 1);
    assert_eq!(honest.len(), 1);
    eventually("both are reported", || {
        [0, 1].iter().all(|&replica| {
            let avoided = coordinator.replica(0, replica)["avoided"].clone();
            avoided.as_str().is_some_and(|why| why.contains("no third one"))
        })
    });
}

#[test]
fn what_a_worker_says_of_itself_is_told_as_a_short_line() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let honest = place.worker(&snapshot, 0, 1);
    let status = ShareStatus { version: "\u{1b}x\n".repeat(6000), ..honest.status.clone() };
    let rogue = Rogue::start(&place, &status, |_| Conduct::Silence);
    let placement = place.place(&[(&snapshot, vec![vec![rogue.url.clone(), honest.url()]])]);
    let coordinator = place.coordinator(placement, None);
    coordinator.ready(&snapshot);
    eventually("its share is refused", || coordinator.replica(0, 0)["state"] == "failed");
    let cause = coordinator.replica(0, 0)["cause"].as_str().unwrap().to_owned();
    assert!(cause.contains("it serves share") && cause.len() <= 256, "{} bytes", cause.len());
    assert!(!cause.contains(char::is_control), "{cause:?}");
}

#[test]
fn numbers_that_a_worker_reports_are_clamped() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let honest = place.worker(&snapshot, 0, 1);
    let status = ShareStatus { queue: usize::MAX, running: usize::MAX, ..honest.status.clone() };
    let rogue = Rogue::start(&place, &status, |_| Conduct::Silence);
    let coordinator = beside(&place, &snapshot, &rogue, &honest);
    assert!(coordinator.replica(0, 0)["queue"].as_u64().unwrap() <= 1 << 20);
    assert!(all_are_answered(&place, &coordinator, &rogue) < LOOK_UPS / 2);
}

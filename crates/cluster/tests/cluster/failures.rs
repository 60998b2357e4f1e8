//! Workers that are killed, slow, cut off or wrong: no answer is wrong or lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{get, post};
use parking_lot::Mutex;
use spirea_cluster::{CoordinatorConfig, MutualTls, ShareStatus};
use spirea_server::{Limits, ServerConfig, Stopper, serve_router};
use spirea_wire::{Queries, Request};

use crate::fixture::{Coordinating, PATIENCE, Place, ROWS, build, each_once, eventually, value};
use crate::proxy::Proxy;

/// Looks up rows on two threads before, during and after `happens`. Every answer must be right.
/// Returns the number of answers.
pub fn while_asked(
    place: &Place,
    coordinator: &Coordinating,
    editions: &[u8],
    happens: impl FnOnce(),
) -> u64 {
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (stop, answered) = (&stop, &answered);
            let mut client = place.client(coordinator);
            scope.spawn(move || {
                let mut row = thread * 7;
                while !stop.load(Ordering::Relaxed) {
                    let found = client.get_indices(&[row % ROWS]).unwrap();
                    let text =
                        found.into_iter().flatten().flat_map(|value| value.into_fields()).collect::<Vec<_>>();
                    let right = |edition: &u8| text == [value(row % ROWS, *edition).into_bytes()];
                    assert!(editions.iter().any(right), "row {row}");
                    answered.fetch_add(1, Ordering::Relaxed);
                    row += 1;
                }
            });
        }
        let more = |count: u64| {
            let before = answered.load(Ordering::Relaxed);
            eventually("queries are answered", || answered.load(Ordering::Relaxed) >= before + count);
        };
        // A failed assertion would otherwise leave the scope waiting for ever.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            more(5);
            happens();
            more(5);
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
    answered.into_inner()
}

#[test]
fn a_killed_worker_is_replaced_by_its_replica_and_an_accepted_query_waits_for_the_last_one() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let mut workers = place.workers(&snapshot, 2);
    let mut second = place.worker(&snapshot, 0, 2);
    let [of_first, of_second] = [vec![workers[0].url(), second.url()], vec![workers[1].url()]];
    let coordinator = place.coordinator(place.place(&[(&snapshot, vec![of_first, of_second.clone()])]), None);
    coordinator.ready(&snapshot);
    while_asked(&place, &coordinator, &[1], || workers[0].kill());
    eventually("it is lost", || coordinator.replica(0, 0)["state"] == "failed");
    let mut back = None;
    while_asked(&place, &coordinator, &[1], || {
        second.kill();
        eventually("it is lost", || coordinator.replica(0, 1)["state"] == "failed");
        std::thread::sleep(Duration::from_millis(300));
        // Queries wait: none is answered, and none is lost.
        let worker = place.worker(&snapshot, 0, 2);
        place.place(&[(&snapshot, vec![vec![worker.url()], of_second.clone()])]);
        back = Some(worker);
    });
}

#[test]
fn a_query_that_waits_too_long_is_refused_and_the_next_one_answered() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let mut workers = place.workers(&snapshot, 2);
    let placement = place.place(&[(&snapshot, each_once(&workers))]);
    let patience = Duration::from_millis(800);
    let coordinator =
        Coordinating::start(CoordinatorConfig { patience, ..place.coordinator_config(placement) });
    coordinator.ready(&snapshot);
    let mut client = place.client(&coordinator);
    client.get_indices(&[3]).unwrap();
    workers[1].kill();
    let started = Instant::now();
    let error = client.get_indices(&[4]).map(drop).unwrap_err();
    assert!(error.to_string().contains("did not answer"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(30), "every request of a batch waits once");
    workers[1] = place.worker(&snapshot, 1, 2);
    place.place(&[(&snapshot, each_once(&workers))]);
    eventually("it is back", || coordinator.replica(1, 0)["state"] == "ready");
    let found = client.get_indices(&[4]).unwrap().remove(0).unwrap().into_fields();
    assert_eq!(found, [value(4, 1).into_bytes()]);
}

#[test]
fn a_batch_may_take_longer_than_lost_machines_are_waited_for_but_not_for_ever() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let worker = place.worker(&snapshot, 0, 1);
    let slow = Proxy::to(worker.address);
    let stuck = Wrong::start(&place, &worker.status, None);
    let of = |url: &str| place.place(&[(&snapshot, vec![vec![url.to_owned()]])]);
    let coordinator = Coordinating::start(CoordinatorConfig {
        patience: Duration::from_millis(200),
        batch_timeout: Duration::from_secs(6),
        ..place.coordinator_config(of(&slow.url()))
    });
    coordinator.ready(&snapshot);
    let mut client = place.client(&coordinator);
    slow.slow_down(Duration::from_millis(400));
    assert!(client.get_indices(&[3]).unwrap()[0].is_some());
    of(&stuck.url);
    eventually("it is believed to be ready", || {
        let replica = coordinator.replica(0, 0);
        replica["url"] == *stuck.url && replica["state"] == "ready"
    });
    let error = client.get_indices(&[4]).map(drop).unwrap_err();
    assert!(error.to_string().contains("did not answer"), "{error}");
    slow.slow_down(Duration::ZERO);
    of(&slow.url());
    eventually("the worker is back", || {
        let replica = coordinator.replica(0, 0);
        replica["url"] == *slow.url() && replica["state"] == "ready"
    });
    assert!(client.get_indices(&[4]).unwrap()[0].is_some());
}

/// Two replicas answer two batches in the time of one; neither request is a hedge for the other.
#[test]
fn replicas_compute_batches_at_the_same_time() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let workers = [place.worker(&snapshot, 0, 1), place.worker(&snapshot, 0, 1)];
    let slow = workers.each_ref().map(|worker| Proxy::to(worker.address));
    slow.iter().for_each(|proxy| proxy.slow_down(Duration::from_millis(600)));
    let urls = slow.iter().map(Proxy::url).collect();
    let coordinator = place.coordinator(place.place(&[(&snapshot, vec![urls])]), None);
    coordinator.ready(&snapshot);
    eventually("both are ready", || [0, 1].iter().all(|&i| coordinator.replica(0, i)["state"] == "ready"));
    let query_bytes = snapshot.manifest().protocol.sizes.query_bytes;
    // Full batches do not wait for more queries.
    let queries = vec![vec![1; query_bytes].into(); workers[0].status.max_batch];
    let base = Queries { keys: None, queries };
    let request = Request { version: snapshot.version(), base, delta: None }.encode();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (status, body) = coordinator.post("/v1/databases/words/query", &request);
                assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
            });
        }
        eventually("both compute", || {
            let replicas = coordinator.snapshots()[0]["shares"][0].clone();
            let of = |name: &str| [0, 1].map(|i| replicas[i][name].as_u64().unwrap());
            of("hedges") == [0, 0] && of("in_flight").iter().all(|&batches| batches > 0)
        });
    });
}

#[test]
fn a_slow_replica_gets_company_and_one_behind_a_parted_network_is_given_up() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let workers = [place.worker(&snapshot, 0, 1), place.worker(&snapshot, 0, 1)];
    let proxy = Proxy::to(workers[0].address);
    let urls = vec![proxy.url(), workers[1].url()];
    let coordinator = place.coordinator(place.place(&[(&snapshot, vec![urls])]), None);
    coordinator.ready(&snapshot);
    let hedges = || coordinator.replica(0, 1)["hedges"].as_u64().unwrap();
    while_asked(&place, &coordinator, &[1], || {
        eventually("both are ready", || coordinator.replica(0, 0)["state"] == "ready");
        eventually("both are asked", || {
            [0, 1].into_iter().all(|index| coordinator.replica(0, index)["requests"].as_u64() > Some(20))
        });
        proxy.slow_down(Duration::from_millis(400));
        eventually("the other one is asked too", || hedges() > 0);
        proxy.slow_down(Duration::ZERO);
    });
    while_asked(&place, &coordinator, &[1], || {
        proxy.part();
        eventually("it is given up", || coordinator.replica(0, 0)["state"] == "failed");
        proxy.join();
        eventually("it is back", || coordinator.replica(0, 0)["state"] == "ready");
    });
    let report = coordinator.replica(0, 1);
    let (asked, hedged) = (report["requests"].as_u64().unwrap(), hedges());
    let all = asked + coordinator.replica(0, 0)["requests"].as_u64().unwrap();
    assert!(hedged as f64 <= 2.0 + all as f64 * 0.05, "{hedged} of {all}");
}

/// The request counts as slow before a second replica is placed, so it was not sent twice. It must
/// be sent again because its connection is lost.
#[test]
fn requests_at_a_worker_that_is_cut_off_are_asked_of_another_whether_it_is_still_placed_or_not() {
    for still_placed in [true, false] {
        let place = Place::new();
        let snapshot = build(place.path(), "simple", 1);
        let workers = [place.worker(&snapshot, 0, 1), place.worker(&snapshot, 0, 1)];
        let proxy = Proxy::to(workers[0].address);
        let placement = place.place(&[(&snapshot, vec![vec![proxy.url()]])]);
        let coordinator = place.coordinator(placement, None);
        coordinator.ready(&snapshot);
        let mut client = place.client(&coordinator);
        std::thread::scope(|scope| {
            proxy.part();
            let asked = scope.spawn(|| (client.get_indices(&[4]).unwrap(), Instant::now()));
            eventually("it is asked", || coordinator.replica(0, 0)["in_flight"].as_u64() == Some(1));
            std::thread::sleep(Duration::from_millis(500));
            let cut_off = still_placed.then(|| proxy.url());
            place.place(&[(&snapshot, vec![cut_off.into_iter().chain([workers[1].url()]).collect()])]);
            let placed = Instant::now();
            let (found, answered) = asked.join().unwrap();
            assert_eq!(found[0].as_ref().unwrap().fields(), [value(4, 1).into_bytes()]);
            // The answer comes well before the batch timeout.
            assert!(answered.duration_since(placed) < PATIENCE / 2);
        });
    }
}

/// A worker that answers every batch with fixed bytes.
struct Wrong {
    url: String,
    _runtime: tokio::runtime::Runtime,
}

impl Wrong {
    /// Starts the worker. Without `answer` it never answers.
    fn start(place: &Place, status: &ShareStatus, answer: Option<Vec<u8>>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let acceptor = MutualTls::open(&place.as_worker("wrong")).unwrap().acceptor();
        let status = serde_json::to_vec(status).unwrap();
        let answered = || async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        };
        let router = Router::new()
            .route("/v1/share", get(|| async move { status }))
            .route("/v1/partial", post(answered));
        runtime.spawn(async move {
            serve_router(listener, Some(acceptor), router, Limits::default(), &Stopper::new()).await;
        });
        Self { url, _runtime: runtime }
    }
}

#[test]
fn what_is_no_partial_of_the_batch_is_never_made_an_answer_of() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let params = &snapshot.manifest().protocol;
    let right = place.worker(&snapshot, 0, 1);
    // The header of share 0 of 1 without a valid batch digest; no bytes; bytes that name no valid
    // share.
    let mut header = vec![0; 40 + params.sizes.answer_bytes * 2];
    header[4] = 1;
    let no_share = [&[9; 40][..], &header].concat();
    for answer in [header, Vec::new(), no_share] {
        let wrong = Wrong::start(&place, &right.status, Some(answer));
        let urls = vec![wrong.url.clone(), right.url()];
        let coordinator = place.coordinator(place.place(&[(&snapshot, vec![urls])]), None);
        coordinator.ready(&snapshot);
        eventually("it is believed to be ready", || coordinator.replica(0, 0)["state"] == "ready");
        while_asked(&place, &coordinator, &[1], || {
            eventually("it was asked", || coordinator.replica(0, 0)["failures"].as_u64() > Some(0));
        });
    }
    // A worker that serves another snapshot is not asked.
    let other = ShareStatus { version: "0".repeat(64), ..right.status.clone() };
    let wrong = Wrong::start(&place, &other, None);
    let urls = vec![wrong.url.clone(), right.url()];
    let coordinator = place.coordinator(place.place(&[(&snapshot, vec![urls])]), None);
    coordinator.ready(&snapshot);
    eventually("it is refused", || coordinator.replica(0, 0)["state"] == "failed");
    assert!(coordinator.replica(0, 0)["cause"].as_str().unwrap().contains("is placed there"));
    assert_eq!(coordinator.replica(0, 0)["requests"], 0);
}

#[test]
fn a_coordinator_that_stops_gives_up_a_batch_that_a_worker_holds() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let right = place.worker(&snapshot, 0, 1);
    let stuck = Wrong::start(&place, &right.status, None);
    let config = place.coordinator_config(place.place(&[(&snapshot, vec![vec![stuck.url.clone()]])]));
    let limits = Limits { drain_timeout: Duration::from_millis(100), ..Limits::default() };
    let server = ServerConfig { limits, ..config.server };
    let mut coordinator = Coordinating::start(CoordinatorConfig { server, ..config });
    let panics = Arc::<Mutex<Vec<String>>>::default();
    let (seen, otherwise) = (Arc::clone(&panics), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        seen.lock().push(panic.to_string());
        otherwise(panic);
    }));
    // The coordinator sends the first batch itself, to measure how long a batch takes.
    eventually("it is asked", || coordinator.replica(0, 0)["in_flight"].as_u64() == Some(1));
    // This also ends the runtime, and the batch waits on that runtime's timers. A panic would come
    // at once.
    coordinator.stop();
    std::thread::sleep(Duration::from_millis(300));
    let of_runtime = |panic: &&String| panic.contains("shutdown");
    assert_eq!(panics.lock().iter().find(of_runtime), None);
}

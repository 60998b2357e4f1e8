//! Authentication between coordinators and workers, and certificates that change and expire.

use std::time::Duration;

use spirea_cluster::{CoordinatorConfig, MutualFiles, MutualTls};
use spirea_store::Snapshot;
use tokio::runtime::Runtime;

use crate::authority::Authority;
use crate::failures::while_asked;
use crate::fixture::{Coordinating, Place, Working, build, each_once, eventually};
use crate::workers::Asking;

/// Starts a coordinator with these files.
fn coordinator(place: &Place, tls: MutualFiles) -> Coordinating {
    let config = place.coordinator_config(place.path().join("placement.json"));
    Coordinating::start(CoordinatorConfig { tls, ..config })
}

/// Starts a worker of the whole database with these files.
fn worker(place: &Place, snapshot: &Snapshot, tls: MutualFiles) -> Working {
    Working::start(spirea_cluster::WorkerConfig { tls, ..place.worker_config(snapshot, 0, 1) })
}

#[test]
fn strangers_are_refused_on_both_sides() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let workers = place.workers(&snapshot, 1);
    place.place(&[(&snapshot, each_once(&workers))]);
    let stranger = Authority::new();
    let strange = [
        // A coordinator whose certificate another authority has signed.
        stranger.issue(place.path(), "strange", &[&place.workers]),
        // A coordinator that trusts another authority than that of the workers.
        place.coordinators.issue(place.path(), "trusting", &[&stranger]),
        // A worker that tries to ask another worker.
        place.workers.issue(place.path(), "curious", &[&place.workers]),
        // A coordinator that trusts the coordinators' authority for workers.
        place.coordinators.issue(place.path(), "confused", &[&place.coordinators]),
    ];
    for tls in strange {
        let coordinator = coordinator(&place, tls);
        eventually("nobody is asked", || coordinator.replica(0, 0)["state"] == "failed");
        let cause = coordinator.replica(0, 0)["cause"].as_str().unwrap().to_owned();
        assert!(
            cause.contains("certificate") || cause.contains("UnknownCA") || cause.contains("alert"),
            "{cause}"
        );
        assert_eq!(coordinator.current(), None);
    }
    // A client without a certificate: the handshake fails, or the first request.
    let mut plain = std::net::TcpStream::connect(workers[0].address).unwrap();
    std::io::Write::write_all(&mut plain, b"GET /v1/share HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut answer);
    assert!(!answer.starts_with(b"HTTP/"));
}

#[test]
fn certificates_rotate_while_queries_are_answered() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let mut worker = place.worker(&snapshot, 0, 1);
    place.place(&[(&snapshot, vec![vec![worker.url()]])]);
    let coordinator = coordinator(&place, place.as_coordinator("coordinator"));
    coordinator.ready(&snapshot);
    let [workers, coordinators] = [(); 2].map(|()| Authority::new());
    while_asked(&place, &coordinator, &[1], || {
        coordinators.issue(place.path(), "coordinator", &[&workers]);
        // A new worker with a new certificate: only a coordinator that has reloaded its files can
        // ask it.
        let tls = workers.issue(place.path(), "new", &[&coordinators]);
        let second = self::worker(&place, &snapshot, tls);
        place.place(&[(&snapshot, vec![vec![worker.url(), second.url()]])]);
        eventually("the new one is asked", || coordinator.replica(0, 1)["state"] == "ready");
        // The connection to the former worker went on.
        assert_eq!(coordinator.replica(0, 0)["failures"], 0);
        worker.kill();
        worker = second;
    });
}

/// True if the worker answers a client with these files.
fn is_answered(runtime: &Runtime, files: &MutualFiles, worker: &Working) -> bool {
    runtime.block_on(Asking::open(files, worker)).is_ok()
}

#[test]
fn a_running_worker_reads_its_files_again_and_trusts_the_authorities_that_they_list() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let worker = place.worker(&snapshot, 0, 1);
    let next = Authority::new();
    let former_files = place.as_coordinator("former");
    let next_files = next.issue(place.path(), "next", &[&place.workers]);
    let runtime = Runtime::new().unwrap();
    let answered = || [&former_files, &next_files].map(|files| is_answered(&runtime, files, &worker));
    assert_eq!(answered(), [true, false]);
    let kept = runtime.block_on(Asking::open(&former_files, &worker)).unwrap();
    for (trusted, expected) in [(&[&place.coordinators, &next][..], [true, true]), (&[&next], [false, true])]
    {
        place.workers.issue(place.path(), "worker", trusted);
        eventually("it has read its files", || answered() == expected);
    }
    // An open connection is accepted as long as the certificate that it began with lasts.
    runtime.block_on(kept.status()).unwrap();
}

/// Validity of short-lived certificates: far longer than each test below needs before it uses its
/// certificate.
const LASTS: Duration = Duration::from_secs(10);

#[test]
fn a_coordinator_is_known_by_a_certificate_until_it_expires() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let worker = place.worker(&snapshot, 0, 1);
    let runtime = Runtime::new().unwrap();
    let files = place.coordinators.issue_for(place.path(), "short", &[&place.workers], LASTS);
    let asking = runtime.block_on(Asking::open(&files, &worker)).unwrap();
    eventually("the connection is closed", || runtime.block_on(asking.status()).is_err());
    assert!(!is_answered(&runtime, &files, &worker));
}

#[test]
fn a_worker_is_known_by_a_certificate_until_it_expires_and_again_by_its_next_one() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    place.place(&[(&snapshot, vec![vec![]])]);
    let coordinator = coordinator(&place, place.as_coordinator("coordinator"));
    let files = place.workers.issue_for(place.path(), "short-lived", &[&place.coordinators], LASTS);
    let worker = worker(&place, &snapshot, files);
    place.place(&[(&snapshot, vec![vec![worker.url()]])]);
    eventually("it is asked", || coordinator.replica(0, 0)["state"] == "ready");
    eventually("it is left", || coordinator.replica(0, 0)["state"] == "failed");
    let cause = coordinator.replica(0, 0)["cause"].to_string();
    assert!(cause.contains("expired") || cause.contains("Expired"), "{cause}");
    place.workers.issue(place.path(), "short-lived", &[&place.coordinators]);
    eventually("it is asked again", || coordinator.replica(0, 0)["state"] == "ready");
}

#[test]
fn files_that_are_wrong_are_named() {
    let place = Place::new();
    let files = place.as_worker("worker");
    MutualTls::open(&files).unwrap();
    for (path, content) in [(&files.own.certificate, "no certificate"), (&files.authority, "")] {
        let before = std::fs::read(path).unwrap();
        std::fs::write(path, content).unwrap();
        let error = MutualTls::open(&files).map(drop).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        std::fs::write(path, before).unwrap();
    }
}

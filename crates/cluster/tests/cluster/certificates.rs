//! Who may ask whom, and certificates that change and end.

use std::time::Duration;

use spirea_cluster::{CoordinatorConfig, MutualFiles, MutualTls};
use spirea_store::Snapshot;
use tokio::runtime::Runtime;

use crate::authority::Authority;
use crate::failures::while_asked;
use crate::fixture::{Coordinating, Place, Working, build, each_once, eventually};
use crate::workers::Asking;

/// A coordinator that is known by these files.
fn coordinator(place: &Place, tls: MutualFiles) -> Coordinating {
    let config = place.coordinator_config(place.path().join("placement.json"));
    Coordinating::start(CoordinatorConfig { tls, ..config })
}

/// A worker of the whole whose files are of this name.
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
        // A coordinator that another authority has signed.
        stranger.issue(place.path(), "strange", &[&place.workers]),
        // Workers that another authority would have to have signed.
        place.coordinators.issue(place.path(), "trusting", &[&stranger]),
        // A worker that would ask another one.
        place.workers.issue(place.path(), "curious", &[&place.workers]),
        // A coordinator that takes others of its kind for workers.
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
    // Nobody at all, without a certificate: the handshake fails, or the first request.
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
        // A new worker with the new certificate, which only who has read the files again can ask.
        let tls = workers.issue(place.path(), "new", &[&coordinators]);
        let second = self::worker(&place, &snapshot, tls);
        place.place(&[(&snapshot, vec![vec![worker.url(), second.url()]])]);
        eventually("the new one is asked", || coordinator.replica(0, 1)["state"] == "ready");
        // The connection to the former one went on.
        assert_eq!(coordinator.replica(0, 0)["failures"], 0);
        worker.kill();
        worker = second;
    });
}

/// Whether a worker answers who is known by these files.
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
    // Who was known when it came is known as long as its certificate lasts.
    runtime.block_on(kept.status()).unwrap();
}

/// Far more than one of the tests below takes to use a certificate that was made for it.
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

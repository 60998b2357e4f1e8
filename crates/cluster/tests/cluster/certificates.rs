//! Who may ask whom, and certificates that change.

use spirea_cluster::{CoordinatorConfig, MutualTls};
use spirea_server::ServerConfig;

use crate::authority::Authority;
use crate::failures::while_asked;
use crate::fixture::{Coordinating, PATIENCE, Place, Working, build, each_once, eventually};

fn config(place: &Place, tls: spirea_cluster::MutualFiles) -> CoordinatorConfig {
    let free = ([127, 0, 0, 1], 0).into();
    let server = ServerConfig { listen: free, admin_listen: Some(free), ..ServerConfig::default() };
    CoordinatorConfig { server, placement: place.path().join("placement.json"), tls, patience: PATIENCE }
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
        stranger.issue(place.path(), "strange", &place.authority),
        // Workers that another authority would have to have signed.
        place.authority.issue(place.path(), "trusting", &stranger),
    ];
    for tls in strange {
        let coordinator = Coordinating::start(config(&place, tls));
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
    let mut worker = Working::start(place.worker_config(&snapshot, 0, 1));
    place.place(&[(&snapshot, vec![vec![worker.url()]])]);
    let coordinator = Coordinating::start(config(&place, place.known("coordinator")));
    coordinator.ready(&snapshot);
    let next = Authority::new();
    let of_next = place.worker_config(&snapshot, 0, 1);
    while_asked(&place, &coordinator, &[1], || {
        next.issue(place.path(), "worker", &next);
        next.issue(place.path(), "coordinator", &next);
        // A new worker with the new certificate, which only who has read the files again can ask.
        let tls = spirea_cluster::MutualFiles {
            own: spirea_server::TlsFiles {
                certificate: place.path().join("worker.certificate.pem"),
                key: place.path().join("worker.key.pem"),
            },
            authority: place.path().join("worker.authority.pem"),
        };
        let second = Working::start(spirea_cluster::WorkerConfig { tls, ..of_next.clone() });
        place.place(&[(&snapshot, vec![vec![worker.url(), second.url()]])]);
        eventually("the new one is asked", || coordinator.replica(0, 1)["state"] == "ready");
        // The connection to the former one went on.
        assert_eq!(coordinator.replica(0, 0)["failures"], 0);
        worker.kill();
        worker = second;
    });
}

#[test]
fn files_that_are_wrong_are_named() {
    let place = Place::new();
    let files = place.known("worker");
    MutualTls::open(&files).unwrap();
    for (path, content) in [(&files.own.certificate, "no certificate"), (&files.authority, "")] {
        let before = std::fs::read(path).unwrap();
        std::fs::write(path, content).unwrap();
        let error = MutualTls::open(&files).map(drop).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        std::fs::write(path, before).unwrap();
    }
}

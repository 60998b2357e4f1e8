//! Former versions, whose deltas are opened when clients ask for them.

use std::path::Path;
use std::thread;

use spirea_client::{ClientOptions, HttpClient, Keep};
use spirea_server::ServerConfig;
use tempfile::tempdir;

use crate::fixture::{Running, once_published};
use crate::publish::{config, repository, serve_with, snapshot};

/// Serves a repository with one base.
fn serve(folder: &Path, protocol: &str) -> Running {
    serve_with(config(&repository(folder, &snapshot(folder, protocol, true, 1))))
}

/// Publishes changes one after another: the value of a key is the number of its change.
fn change(server: &Running, numbers: std::ops::RangeInclusive<u32>) {
    for number in numbers {
        let line = format!("{{\"key\": \"key-3\", \"value\": \"change {number}\"}}");
        let reply = server.post_admin("/v1/admin/databases/table/changes", line.as_bytes());
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    }
}

/// Returns a client of the current version.
fn client(server: &Running) -> HttpClient {
    let options = ClientOptions { keep: Keep::Memory, ..ClientOptions::default() };
    HttpClient::connect_with(&[&server.url()], "table", options).unwrap()
}

fn ask(client: &mut HttpClient) -> String {
    let [value] = client.get_keys(&[b"key-3"]).unwrap().try_into().unwrap();
    String::from_utf8(value.expect("the key is there").fields()[0].clone()).unwrap()
}

fn open(server: &Running) -> Option<f64> {
    server.metric("spirea_versions_open{database=\"table\"}")
}

fn opened(server: &Running) -> Option<f64> {
    server.metric("spirea_former_versions_opened_total")
}

#[test]
fn few_of_many_versions_are_open() {
    let folder = tempdir().unwrap();
    let server = serve(folder.path(), "simple");
    change(&server, 1..=1);
    let mut early = client(&server);
    change(&server, 2..=6);
    // The two newest versions are open, and so is the base without a delta.
    assert_eq!((open(&server), opened(&server)), (Some(3.0), Some(0.0)));
    assert_eq!(ask(&mut early), "change 1");
    assert_eq!(opened(&server), Some(1.0));
    assert_eq!(ask(&mut early), "change 6");

    let mut late = client(&server);
    change(&server, 7..=21);
    assert_eq!(server.metric("spirea_versions_served{database=\"table\"}"), Some(16.0));
    assert_eq!(open(&server), Some(2.0));
    assert_eq!(ask(&mut late), "change 6");
    assert_eq!((ask(&mut late), opened(&server)), ("change 21".into(), Some(2.0)));

    // A roll-back to a version whose delta is not in memory opens it.
    for (back, number) in [(1, 20), (2, 19), (3, 18)] {
        let reply = server.post_admin("/v1/admin/databases/table/rollback", b"");
        assert_eq!(reply.status, 200, "{back}: {}", String::from_utf8_lossy(&reply.body));
        assert_eq!(ask(&mut client(&server)), format!("change {number}"));
    }
    assert_eq!((open(&server), opened(&server)), (Some(2.0), Some(2.0)));
}

#[test]
fn a_delta_is_opened_once_for_all_who_ask_at_the_same_time() {
    let folder = tempdir().unwrap();
    // Clients register keys, for the base and for the delta.
    let server = serve(folder.path(), "exppack-simple");
    change(&server, 1..=1);
    let mut clients: Vec<_> = (0..4).map(|_| client(&server)).collect();
    change(&server, 2..=4);
    assert_eq!(opened(&server), Some(0.0));
    thread::scope(|scope| {
        let asking: Vec<_> = clients.iter_mut().map(|client| scope.spawn(|| ask(client))).collect();
        for asked in asking {
            assert_eq!(asked.join().unwrap(), "change 1");
        }
    });
    assert_eq!(opened(&server), Some(1.0));
    assert_eq!(ask(&mut clients[0]), "change 4");
}

#[test]
fn a_former_delta_that_is_damaged_on_disk_is_not_opened() {
    let folder = tempdir().unwrap();
    let server = serve(folder.path(), "simple");
    change(&server, 1..=1);
    let [mut first, mut second] = [client(&server), client(&server)];
    let deltas = folder.path().join("repository/deltas");
    let [delta] = std::fs::read_dir(&deltas).unwrap().collect::<Vec<_>>().try_into().unwrap();
    change(&server, 2..=4);
    let matrix = delta.unwrap().path().join("matrix.bin");
    let mut bytes = std::fs::read(&matrix).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&matrix, &bytes).unwrap();
    // The client is told that the version is gone, and follows.
    assert_eq!(ask(&mut first), "change 4");
    assert_eq!(opened(&server), Some(0.0));
    assert!(server.metric("spirea_refusals_total{code=\"stale_version\"}") >= Some(1.0));
    // The next request tries again.
    bytes[100] ^= 1;
    std::fs::write(&matrix, &bytes).unwrap();
    assert_eq!(ask(&mut second), "change 1");
    assert_eq!(opened(&server), Some(1.0));
}

#[test]
fn a_start_opens_no_deltas_of_former_versions() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "exppack-simple", true, 1));
    let server = serve_with(config(&path));
    change(&server, 1..=1);
    let mut early = client(&server);
    let deltas = folder.path().join("repository/deltas");
    let [delta] = std::fs::read_dir(&deltas).unwrap().collect::<Vec<_>>().try_into().unwrap();
    change(&server, 2..=5);
    let address = server.address;
    drop(server);

    // A delta that a start opens, or verifies, would be missing among the versions.
    let matrix = delta.unwrap().path().join("matrix.bin");
    let mut bytes = std::fs::read(&matrix).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&matrix, &bytes).unwrap();
    let server = serve_with(ServerConfig { listen: address, ..config(&path) });
    // The base alone is the sixth version.
    let served = || server.metric("spirea_versions_served{database=\"table\"}");
    once_published("all versions", || served() == Some(6.0));
    assert_eq!((open(&server), opened(&server)), (Some(3.0), Some(0.0)));
    bytes[100] ^= 1;
    std::fs::write(&matrix, &bytes).unwrap();
    assert_eq!(ask(&mut early), "change 1");
    assert_eq!((ask(&mut early), opened(&server)), ("change 5".into(), Some(1.0)));
}

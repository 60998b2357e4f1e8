//! Servers on threads of a process that also does other things.

use std::fs;
use std::time::Duration;

use spirea_client::HttpClient;
use spirea_protocols::TableKind;
use spirea_server::{Background, Readiness, ServeError, ServerConfig};
use spirea_specimens::snapshots::{key, write_snapshot};

use crate::fixture::options;

fn config(snapshots: Vec<std::path::PathBuf>) -> ServerConfig {
    ServerConfig { listen: ([127, 0, 0, 1], 0).into(), snapshots, ..ServerConfig::default() }
}

fn ready(server: &Background) -> Readiness {
    loop {
        match server.readiness() {
            Readiness::Loading => std::thread::sleep(Duration::from_millis(1)),
            other => return other,
        }
    }
}

#[test]
fn two_of_them_answer_beside_each_other_until_each_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots =
        ["first", "second"].map(|name| write_snapshot(folder.path(), name, TableKind::Keyword, 1));
    let servers = snapshots.map(|snapshot| Background::start(config(vec![snapshot])).unwrap());
    let urls = servers.each_ref().map(|server| format!("http://{}", server.addresses().data));
    for ((server, url), name) in servers.into_iter().zip(&urls).zip(["first", "second"]) {
        assert_eq!(ready(&server), Readiness::Ready);
        let mut client = HttpClient::connect_with(&[url], name, options(folder.path())).unwrap();
        assert!(client.get_keys(&[&key(0)]).unwrap()[0].is_some());
        server.stop().unwrap();
        let error = client.get_keys(&[&key(0)]).unwrap_err();
        assert!(matches!(error, spirea_client::ClientError::Unreachable(_)), "{error}");
    }
}

#[test]
fn what_is_wrong_is_told_when_it_starts_or_loads() {
    assert!(matches!(Background::start(config(Vec::new())), Err(ServeError::NoSnapshots)));

    let folder = tempfile::tempdir().unwrap();
    let snapshot = write_snapshot(folder.path(), "damaged", TableKind::Keyword, 1);
    let matrix = snapshot.join("matrix.bin");
    let mut bytes = fs::read(&matrix).unwrap();
    bytes[0] ^= 1;
    fs::write(&matrix, bytes).unwrap();
    let server = Background::start(config(vec![snapshot])).unwrap();
    let Readiness::Failed(causes) = ready(&server) else { panic!("it loads what is damaged") };
    assert!(
        causes.len() == 1 && causes[0].0 == "damaged" && causes[0].1.contains("matrix.bin"),
        "{causes:?}"
    );
}

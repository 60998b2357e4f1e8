//! Snapshots that replace served ones on disk, as a nightly build job writes them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value as Json;
use spirea_client::{ClientOptions, HttpClient};
use spirea_protocols::signature::{PrivateKey, Signature};
use spirea_server::{Server, ServerConfig};
use spirea_specimens::snapshots::{columns, csv_options, try_build};
use spirea_store::{BuildOptions, Overwrite, Snapshot};
use spirea_wire::Code;
use tempfile::tempdir;

use crate::fixture::{Reply, Running, once_published};
use crate::publish::{config, repository, serve_with, snapshot};

const ROWS: usize = 40;

/// A snapshot to build, which replaces any existing snapshot in its folder.
pub struct Build<'a> {
    out: &'a Path,
    protocol: &'a str,
    name: &'a str,
    keyed: bool,
    rows: usize,
    edition: u32,
}

impl Build<'_> {
    pub fn make(&self) -> Snapshot {
        let Self { out, protocol, name, keyed, rows, edition } = *self;
        let lines: String = (0..rows).map(|row| format!("key-{row},row {row} of {edition}\n")).collect();
        let columns = columns(keyed.then_some("key"), &["value"]);
        let options = csv_options(out, protocol, columns, &format!("key,value\n{lines}"));
        try_build(&BuildOptions { name: Some(name.into()), overwrite: Overwrite::Replace, ..options })
            .unwrap()
    }
}

pub fn edition(out: &Path, edition: u32) -> Build<'_> {
    Build { out, protocol: "exppack-simple", name: "table", keyed: true, rows: ROWS, edition }
}

fn serve(folder: &Path, watch: bool) -> Running {
    let server = Running::start(Server::bind(ServerConfig { watch, ..config(folder) }));
    once_published("the database", || server.get("/readyz").status == 200);
    server
}

fn client(server: &Running) -> HttpClient {
    HttpClient::connect_with(&[&server.url()], "table", ClientOptions::default()).unwrap()
}

fn ask(client: &mut HttpClient, row: usize) -> String {
    let [value] = client.get_keys(&[format!("key-{row}").as_bytes()]).unwrap().try_into().unwrap();
    String::from_utf8(value.expect("the key is there").fields()[0].clone()).unwrap()
}

pub fn reload(server: &Running, parameters: &str) -> Reply {
    server.post_admin(&format!("/v1/admin/reload{parameters}"), b"")
}

pub fn reloaded(reply: &Reply) -> Vec<(String, bool)> {
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    let body: Json = serde_json::from_slice(&reply.body).unwrap();
    let databases = body["databases"].as_array().unwrap().iter();
    databases
        .map(|found| (found["version"].as_str().unwrap().into(), found["new"].as_bool().unwrap()))
        .collect()
}

/// The newest version that answers.
fn served(server: &Running) -> String {
    let body: Json =
        serde_json::from_slice(&server.get_with("/v1/databases", "accept: application/json\r\n").body)
            .unwrap();
    body["databases"][0]["versions"][0].as_str().unwrap().into()
}

fn path(folder: &Path) -> PathBuf {
    folder.join("served")
}

#[test]
fn a_snapshot_in_the_place_of_a_served_one_is_adopted_on_request() {
    let folder = tempdir().unwrap();
    let out = path(folder.path());
    let first = edition(&out, 1).make();
    let server = serve(&out, false);
    let mut client = client(&server);
    assert_eq!(ask(&mut client, 3), "row 3 of 1");
    assert_eq!(reloaded(&reload(&server, "")), [(first.version().to_string(), false)]);

    let second = edition(&out, 2).make();
    // The former snapshot answers until the server is told to reload.
    assert_eq!(ask(&mut client, 4), "row 4 of 1");
    assert_eq!(reloaded(&reload(&server, "")), [(second.version().to_string(), true)]);
    assert_eq!(served(&server), second.version().to_string());
    // Clients that began with the former version are answered, learn of the new version, and follow
    // it.
    assert_eq!(ask(&mut client, 5), "row 5 of 1");
    assert_eq!(ask(&mut client, 5), "row 5 of 2");
    assert_eq!(reloaded(&reload(&server, "")), [(second.version().to_string(), false)]);
    assert_eq!(server.metric("spirea_reloads_total{outcome=\"used\",what=\"snapshots\"}"), Some(3.0));
}

/// Ends a thread's loop when its test passes or panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn clients_are_answered_while_snapshots_are_adopted() {
    let folder = tempdir().unwrap();
    let out = path(folder.path());
    edition(&out, 1).make();
    let server = serve(&out, true);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&stop);
        let asking = scope.spawn(|| {
            let (mut client, mut seen) = (client(&server), Vec::new());
            while !stop.load(Ordering::Relaxed) {
                let value = ask(&mut client, 7);
                if seen.last() != Some(&value) {
                    seen.push(value);
                }
            }
            seen
        });
        let second = edition(&out, 2).make();
        once_published("the new snapshot", || served(&server) == second.version().to_string());
        assert_eq!(ask(&mut client(&server), 7), "row 7 of 2");
        drop(ends);
        let seen = asking.join().unwrap();
        assert!(seen.is_sorted() && seen[0] == "row 7 of 1", "{seen:?}");
    });
}

#[test]
fn sighup_adopts_a_snapshot_too() {
    let folder = tempdir().unwrap();
    let out = path(folder.path());
    edition(&out, 1).make();
    let server = serve(&out, false);
    let second = edition(&out, 2).make();
    server.reloader.reload();
    once_published("the new snapshot", || served(&server) == second.version().to_string());
}

#[test]
fn what_cannot_be_served_or_followed_leaves_the_former_snapshot() {
    let folder = tempdir().unwrap();
    let out = path(folder.path());
    let first = edition(&out, 1).make();
    let server = serve(&out, false);
    let mut client = client(&server);
    let refused = |said: &str| {
        let refusal = reload(&server, "").refusal();
        assert_eq!(refusal.code, Code::NotPublishable);
        assert!(refusal.message.starts_with("table: ") && refusal.message.contains(said), "{refusal:?}");
        let status = server.get_admin("/v1/admin/databases", "").text();
        assert!(status.contains(said), "{status}");
        assert_eq!(served(&server), first.version().to_string());
        assert_eq!(server.get("/readyz").status, 200);
    };
    Build { name: "other", ..edition(&out, 2) }.make();
    refused("build it with --name table");
    Build { keyed: false, ..edition(&out, 2) }.make();
    refused("clients could not follow");
    Build { protocol: "dpf-xor", ..edition(&out, 2) }.make();
    refused("--party");
    Build { rows: ROWS / 2 - 1, ..edition(&out, 2) }.make();
    refused("less than half");
    let second = edition(&out, 2).make();
    let matrix = second.matrix_path();
    let bytes = std::fs::read(&matrix).unwrap();
    let mut damaged = bytes.clone();
    damaged[100] ^= 1;
    std::fs::write(&matrix, damaged).unwrap();
    refused("does not match the manifest's hash");
    std::fs::remove_file(out.join("manifest.json")).unwrap();
    refused("not a complete snapshot");
    assert_eq!(ask(&mut client, 3), "row 3 of 1");

    // A valid snapshot is adopted, and clears the refusal.
    let small = Build { rows: ROWS / 2 - 1, ..edition(&out, 3) }.make();
    assert_eq!(reloaded(&reload(&server, "?shrinking=allow")), [(small.version().to_string(), true)]);
    assert!(!server.get_admin("/v1/admin/databases", "").text().contains("refused"));
    assert_eq!(reload(&server, "?shrinking=perhaps").refusal().code, Code::Malformed);
}

#[test]
fn clients_that_pin_a_key_can_follow_or_the_snapshot_is_refused() {
    let folder = tempdir().unwrap();
    let out = path(folder.path());
    let [key, other] = [1, 2].map(|byte| PrivateKey::from_bytes(&[byte; 32]));
    let sign = |snapshot: &Snapshot, key: &PrivateKey, sequence| {
        let signature = Signature::new(key, "table", &snapshot.version(), sequence, "2026-11-26T00:00:00Z");
        std::fs::write(out.join("signature.json"), signature.to_json()).unwrap();
    };
    sign(&edition(&out, 1).make(), &key, 5);
    let server = serve(&out, false);
    let refused = |said: &str| {
        let refusal = reload(&server, "").refusal();
        assert!(refusal.message.contains(said), "{refusal:?}");
    };
    let second = edition(&out, 2).make();
    refused("not signed");
    sign(&second, &other, 6);
    refused("pin the key");
    sign(&second, &key, 4);
    refused("sequence number 4");
    sign(&second, &key, 6);
    assert_eq!(reloaded(&reload(&server, "")), [(second.version().to_string(), true)]);
}

#[test]
fn a_database_that_failed_is_loaded_by_a_reload() {
    let folder = tempdir().unwrap();
    let out = path(folder.path());
    let first = edition(&out, 1).make();
    let bytes = std::fs::read(first.matrix_path()).unwrap();
    std::fs::write(first.matrix_path(), vec![0; bytes.len()]).unwrap();
    let server = Running::start(Server::bind(config(&out)));
    once_published("the failure", || server.get("/readyz").text().contains("failed"));
    // A snapshot of another database is not adopted.
    std::fs::rename(&out, folder.path().join("kept")).unwrap();
    Build { name: "other", ..edition(&out, 2) }.make();
    assert!(reload(&server, "").refusal().message.contains("--name table"));
    std::fs::remove_dir_all(&out).unwrap();
    std::fs::rename(folder.path().join("kept"), &out).unwrap();
    std::fs::write(first.matrix_path(), bytes).unwrap();
    assert_eq!(reloaded(&reload(&server, "")), [(first.version().to_string(), true)]);
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn databases_of_repositories_are_left_alone() {
    let folder = tempdir().unwrap();
    let repository = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let server = serve_with(ServerConfig { watch: true, ..config(&repository) });
    assert!(reloaded(&reload(&server, "")).is_empty());
}

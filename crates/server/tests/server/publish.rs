//! Publishing versions while a server answers: changes, snapshots, rollback, compaction, and
//! invalid uploads.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use spirea_client::{ClientOptions, HttpClient};
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::registry::Choice;
use spirea_protocols::signature::{PrivateKey, PublicKey, Signature};
use spirea_server::{Limits, ServeError, Server, ServerConfig, SignerError};
use spirea_specimens::snapshots::{columns, csv_options, try_build};
use spirea_store::repository::{Settings, Shrinking};
use spirea_store::signing::new_key;
use spirea_store::{BuildOptions, Overwrite, Protocol, Repository, Silent, Snapshot};
use spirea_wire::Code;
use tempfile::tempdir;

use crate::fixture::{PATIENCE, Reply, Running, dial, eventually, read};

const ROWS: usize = 60;

fn key(row: usize) -> String {
    format!("key-{row}")
}

fn value(row: usize, edition: u32) -> String {
    format!("value {row} of edition {edition}")
}

/// Builds a snapshot of an edition, by key or by position.
pub fn snapshot(folder: &Path, protocol: &str, keyed: bool, edition: u32) -> Snapshot {
    snapshot_of(ROWS, folder, protocol, keyed, edition)
}

/// Builds a snapshot of an edition with this number of rows.
fn snapshot_of(rows: usize, folder: &Path, protocol: &str, keyed: bool, edition: u32) -> Snapshot {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    snapshot_under(choice, rows, folder, keyed, edition)
}

/// Builds a snapshot of an edition with this number of rows.
fn snapshot_under(choice: Choice, rows: usize, folder: &Path, keyed: bool, edition: u32) -> Snapshot {
    let protocol = &choice.protocol;
    let rows: String = (0..rows).map(|row| format!("{},{}\n", key(row), value(row, edition))).collect();
    let out = folder.join(format!("{protocol}-{keyed}-{edition}"));
    let columns = columns(keyed.then_some("key"), &["value"]);
    let options = csv_options(&out, protocol, columns, &format!("key,value\n{rows}"));
    let protocol = Protocol::Named(choice);
    try_build(&BuildOptions { name: Some("table".into()), protocol, ..options }).unwrap()
}

/// Creates a repository with one snapshot.
pub fn repository(folder: &Path, snapshot: &Snapshot) -> PathBuf {
    let path = folder.join("repository");
    Repository::create(&path, Settings::default())
        .unwrap()
        .add_base(snapshot, Shrinking::Refuse, &Silent)
        .unwrap();
    path
}

pub fn config(path: &Path) -> ServerConfig {
    let free = ([127, 0, 0, 1], 0).into();
    ServerConfig {
        listen: free,
        admin_listen: Some(free),
        snapshots: vec![path.into()],
        threads: 1,
        ..ServerConfig::default()
    }
}

pub fn serve(path: &Path) -> Running {
    serve_with(config(path))
}

pub fn serve_with(config: ServerConfig) -> Running {
    let server = Running::start(Server::bind(config));
    eventually("the database", || server.get("/readyz").status == 200);
    server
}

fn client(server: &Running, folder: &Path) -> HttpClient {
    let options = ClientOptions { cache: Some(folder.join("cache")), ..ClientOptions::default() };
    HttpClient::connect_with(&[&server.url()], "table", options).unwrap()
}

/// Returns the client's current values, after a first look-up that announces the newest version.
fn ask(client: &mut HttpClient, keys: &[&str]) -> Vec<Option<String>> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    client.get_keys(&keys[..1]).unwrap();
    let text = |value: spirea_client::Value| String::from_utf8(value.fields()[0].clone()).unwrap();
    client.get_keys(&keys).unwrap().into_iter().map(|value| value.map(text)).collect()
}

pub fn publish(server: &Running, what: &str, body: &[u8]) -> Reply {
    server.post_admin(&format!("/v1/admin/databases/table/{what}"), body)
}

pub fn published(reply: &Reply) -> Json {
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    serde_json::from_slice(&reply.body).unwrap()
}

fn archive(folder: &Path, files: &[&str]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for file in files {
        archive.append_path_with_name(folder.join(file), file).unwrap();
    }
    archive.into_inner().unwrap()
}

/// Returns all files of a snapshot, the manifest first.
fn files(snapshot: &Snapshot) -> Vec<String> {
    let names = snapshot.manifest().files().map(|entry| entry.file.clone());
    ["manifest.json".into()].into_iter().chain(names).collect()
}

pub fn whole(snapshot: &Snapshot) -> Vec<u8> {
    let files = files(snapshot);
    archive(snapshot.folder(), &files.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn changes_answer_when_their_publisher_is_told() {
    // One protocol of each kind: with a hint at the client, with keys that are registered or part
    // of a query, and with plaintext polynomials.
    let (registered, per_query) = (KeyDelivery::Registered, KeyDelivery::PerQuery);
    let protocols = [
        ("simple", registered),
        ("exppack-simple", registered),
        ("exppack-simple", per_query),
        ("onion", registered),
    ];
    for (protocol, keys) in protocols {
        let folder = tempdir().unwrap();
        let choice = Choice { protocol: protocol.into(), keys, ..Choice::default() };
        let path = repository(folder.path(), &snapshot_under(choice, ROWS, folder.path(), true, 1));
        let server = serve(&path);
        let mut client = client(&server, folder.path());
        let before = [Some(value(3, 1)), Some(value(4, 1)), None];
        assert_eq!(ask(&mut client, &["key-3", "key-4", "new"]), before);

        let lines = br#"{"key": "key-3", "value": "changed"}
            {"key": "new", "value": "added"}
            {"key": "key-5", "deleted": true}"#;
        let first = published(&publish(&server, "changes", lines));
        assert_eq!(first["changes"], 3);
        let after = ["changed", "added"].map(|text| Some(text.to_owned()));
        let asked = ["key-3", "new", "key-4", "key-5", "absent"];
        let expected = [after[0].clone(), after[1].clone(), Some(value(4, 1)), None, None];
        assert_eq!(ask(&mut client, &asked), expected, "{protocol}");
        assert_eq!(client.description().version().to_string(), first["version"]);

        // Later changes override earlier ones.
        let lines = br#"{"key": "new", "deleted": true}
            {"key": "key-5", "value": "again"}"#;
        let second = published(&publish(&server, "changes", lines));
        assert!(second["changes"] == 3 && second["sequence"].as_u64() > first["sequence"].as_u64());
        let expected = [after[0].clone(), None, Some(value(4, 1)), Some("again".into()), None];
        assert_eq!(ask(&mut client, &asked), expected, "{protocol}");

        // A new base that includes all changes holds the same table.
        let compacted = published(&publish(&server, "compact", b""));
        assert_eq!(compacted["changes"], 0);
        assert_eq!(ask(&mut client, &asked), expected, "{protocol}");
        // Rolls back to the state before, then to a named version.
        published(&publish(&server, "rollback", b""));
        assert_eq!(ask(&mut client, &asked), expected, "{protocol}");
        let to = format!("rollback?to={}", &first["version"].as_str().unwrap()[..12]);
        published(&publish(&server, &to, b""));
        assert_eq!(ask(&mut client, &["key-3", "new", "key-5"]), [after[0].clone(), after[1].clone(), None]);

        let metric = |name: &str| server.metric(&format!("{name}{{database=\"table\"}}")).unwrap();
        assert!(metric("spirea_versions_served") >= 3.0 && metric("spirea_version_behind") == 0.0);

        // Everything is on disk.
        drop(server);
        let server = serve(&path);
        let mut client = self::client(&server, folder.path());
        assert_eq!(ask(&mut client, &["key-3", "new", "key-5"]), [after[0].clone(), after[1].clone(), None]);
    }
}

#[test]
fn every_change_is_found_whether_clients_keep_keys_or_not() {
    for keys in KeyDelivery::ALL {
        let folder = tempdir().unwrap();
        let choice = Choice { protocol: "exppack-simple".into(), keys, ..Choice::default() };
        let path = repository(folder.path(), &snapshot_under(choice, ROWS, folder.path(), true, 1));
        let server = serve(&path);
        let mut client = client(&server, folder.path());
        let mut expected = vec![None; 30];
        for edition in 0..3 {
            let rows: Vec<usize> = (edition..30).step_by(2).collect();
            let text = |row: usize| format!("{edition} of {row} ").repeat(1 + 8 * row);
            let line = |&row: &usize| format!("{{\"key\": \"new {row}\", \"value\": {:?}}}\n", text(row));
            let lines: String = rows.iter().map(line).collect();
            rows.iter().for_each(|&row| expected[row] = Some(text(row)));
            published(&publish(&server, "changes", lines.as_bytes()));
            let names: Vec<String> = (0..30).map(|row| format!("new {row}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            assert_eq!(ask(&mut client, &names), expected, "{keys:?}, edition {edition}");
        }
    }
}

#[test]
fn changes_of_a_stream_are_published_behind_their_cursor_alone() {
    let folder = tempdir().unwrap();
    let server = serve(&repository(folder.path(), &snapshot(folder.path(), "simple", true, 1)));
    let group = |after: &str, cursor: &str, value: &str| {
        let lines = format!(
            "{{\"after\": {after}}}\n{{\"key\": \"key-3\", \"value\": \"{value}\", \"cursor\": \"{cursor}\"}}"
        );
        publish(&server, "changes", lines.as_bytes())
    };
    assert_eq!(published(&group("null", "1", "one"))["cursor"], "1");
    let first = published(&group("\"1\"", "2", "two"));
    for after in ["null", "\"1\""] {
        let refused = group(after, "2", "again");
        assert_eq!((refused.status, refused.refusal().code), (409, Code::NotPublishable));
        assert!(refused.refusal().message.contains("the cursor \"2\""), "{:?}", refused.refusal());
    }
    let versions = server.get_admin("/v1/admin/databases/table/versions", "");
    let newest = &published(&versions)["versions"][0];
    assert_eq!((&newest["cursor"], &newest["version"]), (&"2".into(), &first["version"]));
    let long = group("\"2\"", &"c".repeat(257), "three");
    assert_eq!((long.status, long.refusal().code), (400, Code::Malformed));
    assert_eq!(ask(&mut client(&server, folder.path()), &["key-3"]), [Some("two".into())]);
}

#[test]
fn rows_are_changed_added_and_deleted_by_number() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", false, 1));
    let server = serve(&path);
    let mut client = client(&server, folder.path());
    assert!(client.get_indices(&[ROWS as u64]).is_err());
    let lines = format!(
        "{{\"key\": 7, \"value\": \"changed\"}}\n{{\"key\": {ROWS}, \"value\": \"added\"}}\n{{\"key\": 9, \"deleted\": true}}"
    );
    published(&publish(&server, "changes", lines.as_bytes()));
    client.get_indices(&[0]).unwrap();
    let values = client.get_indices(&[7, ROWS as u64, 9, 8]).unwrap();
    let texts: Vec<_> = values
        .into_iter()
        .map(|value| value.map(|value| String::from_utf8(value.fields()[0].clone()).unwrap()))
        .collect();
    assert_eq!(texts, [Some("changed".into()), Some("added".into()), None, Some(value(8, 1))]);
    let beyond = client.get_indices(&[ROWS as u64 + 1]).unwrap_err();
    assert!(beyond.to_string().contains("no such entry"), "{beyond}");
    // No row may be skipped.
    let reply =
        publish(&server, "changes", format!("{{\"key\": {}, \"value\": \"far\"}}", ROWS + 5).as_bytes());
    assert_eq!((reply.status, reply.refusal().code), (400, Code::Malformed));
}

#[test]
fn a_snapshot_of_less_than_half_the_values_is_refused_until_that_is_allowed() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let server = serve(&path);
    let entries = || {
        let listed: Json = serde_json::from_slice(&server.get("/v1/databases").body).unwrap();
        listed["databases"][0]["entries"].as_u64().unwrap() as usize
    };
    let lines = br#"{"key": "new", "value": "1"}
        {"key": "key-1", "value": "2"}
        {"key": "never", "deleted": true}"#;
    published(&publish(&server, "changes", lines));
    assert_eq!(entries(), ROWS + 1);
    let cut_off = snapshot_of(ROWS / 2, folder.path(), "simple", true, 2);
    let reply = publish(&server, "snapshot", &whole(&cut_off));
    assert_eq!((reply.status, reply.refusal().code), (400, Code::Malformed));
    let refusal = reply.refusal().message;
    assert!(
        refusal.contains(&format!("has {} values, less than half of the {}", ROWS / 2, ROWS + 1)),
        "{refusal}"
    );
    assert_eq!(publish(&server, "snapshot?shrinking=perhaps", &whole(&cut_off)).status, 400);
    assert_eq!(entries(), ROWS + 1);
    published(&publish(&server, "snapshot?shrinking=allow", &whole(&cut_off)));
    assert_eq!(entries(), ROWS / 2);
}

#[test]
fn a_snapshot_replaces_the_table_and_former_versions_answer_on() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let server = serve(&path);
    let mut client = client(&server, folder.path());
    published(&publish(&server, "changes", br#"{"key": "key-1", "value": "changed"}"#));
    assert_eq!(ask(&mut client, &["key-1"]), [Some("changed".into())]);
    let second = snapshot(folder.path(), "simple", true, 2);
    let reply = published(&publish(&server, "snapshot", &whole(&second)));
    assert_eq!(
        (reply["version"].as_str().unwrap(), &reply["changes"]),
        (&*second.version().to_string(), &0.into())
    );
    // The version that the client knows still answers, once.
    let old = client.get_keys(&[b"key-1"]).unwrap().remove(0).unwrap();
    assert_eq!(old.fields(), [b"changed"]);
    assert_eq!(ask(&mut client, &["key-1"]), [Some(value(1, 2))]);
    let versions: Json =
        serde_json::from_slice(&server.get_admin("/v1/admin/databases/table/versions", "").body).unwrap();
    assert_eq!(versions["versions"].as_array().unwrap().len(), 3);
}

#[test]
fn what_is_no_snapshot_changes_nothing() {
    let folder = tempdir().unwrap();
    let first = snapshot(folder.path(), "simple", true, 1);
    let path = repository(folder.path(), &first);
    let server = serve(&path);
    let second = snapshot(folder.path(), "simple", true, 2);
    let good = whole(&second);
    let damaged = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let uploads = [
        Vec::new(),
        b"no archive".repeat(100),
        good[..good.len() / 2].to_vec(),
        // A byte of the manifest, and one in the middle of the matrix.
        damaged(600),
        damaged(good.len() / 3),
        archive(second.folder(), &["matrix.bin", "manifest.json"]),
        archive(second.folder(), &["manifest.json", "matrix.bin"]),
        archive(second.folder(), &["manifest.json", "manifest.json"]),
    ];
    for (i, upload) in uploads.iter().enumerate() {
        let reply = publish(&server, "snapshot", upload);
        assert_eq!((reply.status, reply.refusal().code), (400, Code::Malformed), "upload {i}");
    }
    // The upload is far longer than the system's buffers, and longer than the part that the server
    // drains while it responds. So the publisher is still sending when the refusal comes.
    let long = [archive(second.folder(), &["matrix.bin"]), vec![0; 100 << 20]].concat();
    for what in ["snapshot", "changes"] {
        let reply = publish(&server, what, &long);
        assert_eq!((reply.status, reply.refusal().code), (400, Code::Malformed), "{what}");
    }
    let mut strange = tar::Builder::new(Vec::new());
    strange.append_path_with_name(second.folder().join("matrix.bin"), "table.csv").unwrap();
    assert_eq!(publish(&server, "snapshot", &strange.into_inner().unwrap()).status, 400);
    for lines in
        ["{", r#"{"key": "a"}"#, r#"{"key": "a", "value": "b", "deleted": true}"#, r#"{"value": "b"}"#]
    {
        assert_eq!(publish(&server, "changes", lines.as_bytes()).status, 400, "{lines}");
    }
    // A broken upload of changes is the sender's fault.
    let mut stream = dial(server.admin.unwrap());
    let head = "POST /v1/admin/databases/table/changes HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/x-ndjson\r\ncontent-length: 99\r\n\r\n";
    stream.write_all(format!("{head}{{\"key\": \"key-1\", \"value\": \"cut\"}}\n").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let reply = read(&mut stream);
    assert_eq!((reply.status, reply.refusal().code), (400, Code::Malformed));
    assert!(reply.refusal().message.contains("broke off"), "{:?}", reply.refusal());
    for path in ["rollback?to=", "rollback?to=xyz", &format!("rollback?to={}", "ab".repeat(32))] {
        assert_eq!(publish(&server, path, b"").status, 400, "{path}");
    }
    assert_eq!(server.post_admin("/v1/admin/databases/other/compact", b"").status, 404);
    let mut client = client(&server, folder.path());
    assert_eq!(*client.description().version(), first.version());
    assert_eq!(ask(&mut client, &["key-1"]), [Some(value(1, 1))]);
    // The refused uploads leave nothing behind.
    assert_eq!(std::fs::read_dir(path.join("work")).unwrap().count(), 0);
}

#[test]
fn a_snapshot_s_folder_stays_as_it_is_and_an_empty_repository_gets_its_first_version() {
    let folder = tempdir().unwrap();
    let fixed = snapshot(folder.path(), "simple", true, 1);
    let server = serve(fixed.folder());
    let reply = publish(&server, "changes", br#"{"key": "a", "value": "b"}"#);
    assert_eq!((reply.status, reply.refusal().code), (409, Code::NotPublishable));
    drop(server);

    let path = folder.path().join("table");
    drop(Repository::create(&path, Settings::default()).unwrap());
    let free = ([127, 0, 0, 1], 0).into();
    let config = ServerConfig {
        listen: free,
        admin_listen: Some(free),
        snapshots: vec![path],
        ..ServerConfig::default()
    };
    let server = Running::start(Server::bind(config));
    assert_eq!(server.get("/readyz").status, 503);
    assert_eq!(publish(&server, "changes", br#"{"key": "a", "value": "b"}"#).status, 409);
    published(&publish(&server, "snapshot", &whole(&fixed)));
    assert_eq!(server.get("/readyz").status, 200);
    assert_eq!(ask(&mut client(&server, folder.path()), &["key-2"]), [Some(value(2, 1))]);
}

#[test]
fn a_folder_that_is_built_anew_is_served_as_it_was() {
    let folder = tempdir().unwrap();
    let first = snapshot(folder.path(), "simple", true, 1);
    let server = serve(first.folder());
    // Another edition takes the place of the first, whose files are deleted.
    let second = snapshot(folder.path(), "simple", true, 2);
    let lines = std::fs::read_to_string(second.folder().with_extension("csv")).unwrap();
    let options = csv_options(first.folder(), "simple", columns(Some("key"), &["value"]), &lines);
    try_build(&BuildOptions { overwrite: Overwrite::Replace, name: Some("table".into()), ..options })
        .unwrap();
    assert_ne!(Snapshot::open(first.folder()).unwrap().version(), first.version());
    // A client that has nothing fetches the hint now.
    let mut client = client(&server, folder.path());
    assert_eq!(ask(&mut client, &["key-7"]), [Some(value(7, 1))]);
    let rows = server.get("/v1/databases/table/hint/rows");
    assert_eq!(
        (rows.status, rows.body.len() as u64),
        (200, first.manifest().hint_rows.as_ref().unwrap().bytes)
    );
    // The folder may even be gone.
    std::fs::remove_dir_all(first.folder()).unwrap();
    assert_eq!(server.get("/v1/databases/table/hint").status, 200);
}

#[test]
fn a_hint_that_is_cut_off_in_place_is_not_sent() {
    let folder = tempdir().unwrap();
    let snapshot = snapshot(folder.path(), "simple", true, 1);
    let server = serve(snapshot.folder());
    let hint = std::fs::OpenOptions::new().write(true).open(snapshot.hint_path()).unwrap();
    hint.set_len(snapshot.manifest().hint.bytes - 1).unwrap();
    let reply = server.get("/v1/databases/table/hint");
    assert_eq!((reply.status, reply.refusal().code), (500, Code::Internal));
}

#[test]
fn a_compaction_that_fails_is_counted_and_shown_until_one_succeeds() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let server = serve(&path);
    let failed = || server.metric("spirea_compaction_failed{database=\"table\"}");
    let counted = || server.metric("spirea_compactions_failed_total{database=\"table\"}");
    assert_eq!((failed(), counted()), (Some(0.0), Some(0.0)));
    published(&publish(&server, "changes", br#"{"key": "new", "value": "added"}"#));
    // The base's matrix disappears from disk; the serving copy is in memory.
    let bases: Vec<_> = std::fs::read_dir(path.join("bases")).unwrap().collect();
    let matrix = bases[0].as_ref().unwrap().path().join("matrix.bin");
    let aside = folder.path().join("aside");
    std::fs::rename(&matrix, &aside).unwrap();
    assert_eq!(publish(&server, "compact", b"").status, 500);
    assert_eq!((failed(), counted()), (Some(1.0), Some(1.0)));
    for path in ["/v1/admin/databases", "/v1/admin/status"] {
        let described: Json = serde_json::from_slice(&server.get_admin(path, "").body).unwrap();
        let cause = described["databases"][0]["compaction_failed"].as_str().unwrap();
        assert!(cause.contains("matrix.bin"), "{cause}");
    }
    std::fs::rename(&aside, &matrix).unwrap();
    published(&publish(&server, "compact", b""));
    assert_eq!((failed(), counted()), (Some(0.0), Some(1.0)));
}

#[test]
fn a_client_that_pins_a_key_takes_what_it_signed_and_nothing_older() {
    let folder = tempdir().unwrap();
    let first = snapshot(folder.path(), "simple", true, 1);
    let key = || PrivateKey::from_bytes(&[7; 32]);
    let path = folder.path().join("repository");
    let settings = Settings { key: Some(key()), ..Settings::default() };
    let repository = Repository::create(&path, settings).unwrap();
    let record = repository.add_base(&first, Shrinking::Refuse, &Silent).unwrap();
    drop(repository);
    let server = serve(&path);
    let connect = |pinned: PublicKey| {
        let cache = Some(folder.path().join("cache"));
        let options = ClientOptions { cache, pinned_key: Some(pinned), ..ClientOptions::default() };
        HttpClient::connect_with(&[&server.url()], "table", options)
    };
    let mut pinned = connect(key().public()).unwrap();
    assert_eq!(ask(&mut pinned, &["key-1"]), [Some(value(1, 1))]);
    let other = connect(PrivateKey::from_bytes(&[8; 32]).public()).map(drop).unwrap_err();
    assert!(other.to_string().contains("signed by the key"), "{other}");
    // The server has no key, so versions made from changes are unsigned; the client reports that
    // and returns no answer.
    published(&publish(&server, "changes", br#"{"key": "key-1", "value": "changed"}"#));
    pinned.get_keys(&[b"key-1"]).unwrap();
    let unsigned = pinned.get_keys(&[b"key-1"]).unwrap_err();
    assert!(unsigned.to_string().contains("is not signed"), "{unsigned}");
    // This version is signed with a higher sequence number than the next version. So the client
    // will have seen a higher number when the next version comes.
    let later = Signature::new(&key(), "table", &first.version(), record.sequence + 1000, &record.created);
    std::fs::write(first.folder().join("signature.json"), later.to_json()).unwrap();
    let names: Vec<String> = files(&first).into_iter().chain(["signature.json".into()]).collect();
    let upload = archive(first.folder(), &names.iter().map(String::as_str).collect::<Vec<_>>());
    published(&publish(&server, "snapshot", &upload));
    assert_eq!(ask(&mut connect(key().public()).unwrap(), &["key-1"]), [Some(value(1, 1))]);
    let second = snapshot(folder.path(), "simple", true, 2);
    let earlier = Signature::new(&key(), "table", &second.version(), record.sequence + 10, &record.created);
    std::fs::write(second.folder().join("signature.json"), earlier.to_json()).unwrap();
    let names: Vec<String> = files(&second).into_iter().chain(["signature.json".into()]).collect();
    let upload = archive(second.folder(), &names.iter().map(String::as_str).collect::<Vec<_>>());
    published(&publish(&server, "snapshot", &upload));
    let older = connect(key().public()).map(drop).unwrap_err();
    assert!(
        older.to_string().contains("not signed") || older.to_string().contains("sequence number"),
        "{older}"
    );
}

#[test]
fn a_server_with_the_key_signs_all_that_it_publishes() {
    let folder = tempdir().unwrap();
    let first = snapshot(folder.path(), "simple", true, 1);
    let path = folder.path().join("repository");
    let [file, other] = ["operator.key", "other.key"].map(|name| folder.path().join(name));
    let key = new_key(&file).unwrap();
    let public = key.public();
    let settings = Settings { key: Some(key), ..Settings::default() };
    Repository::create(&path, settings).unwrap().add_base(&first, Shrinking::Refuse, &Silent).unwrap();

    let with_key = |file: &Path| ServerConfig { signing_key: Some(file.into()), ..config(&path) };
    let server = serve_with(with_key(&file));
    let cache = Some(folder.path().join("cache"));
    let options = ClientOptions { cache, pinned_key: Some(public), ..ClientOptions::default() };
    let mut pinned = HttpClient::connect_with(&[&server.url()], "table", options).unwrap();
    let changed = Some("changed".to_owned());
    assert_eq!(ask(&mut pinned, &["key-1"]), [Some(value(1, 1))]);
    published(&publish(&server, "changes", br#"{"key": "key-1", "value": "changed"}"#));
    assert_eq!(ask(&mut pinned, &["key-1"]), std::slice::from_ref(&changed));
    published(&publish(&server, "compact", b""));
    assert_eq!(ask(&mut pinned, &["key-1"]), std::slice::from_ref(&changed));
    // The server also signs an uploaded unsigned snapshot, and an old version that becomes current
    // again.
    published(&publish(&server, "snapshot", &whole(&snapshot(folder.path(), "simple", true, 2))));
    assert_eq!(ask(&mut pinned, &["key-1"]), [Some(value(1, 2))]);
    published(&publish(&server, "rollback", b""));
    assert_eq!(ask(&mut pinned, &["key-1"]), [changed]);
    drop(server);

    // Until another key has signed the current version, a server with that key does not start, and
    // its settings do not pass the check.
    let new = new_key(&other).unwrap();
    let error = with_key(&other).check().unwrap_err();
    assert!(error.key == "signing_key" && error.cause.contains(&new.public().to_string()), "{error}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime.block_on(Server::bind(with_key(&other))).map(drop).unwrap_err();
    assert!(matches!(error, ServeError::Signer(SignerError::Other { .. })), "{error}");
    let settings = Settings { key: Some(new), ..Settings::default() };
    let repository = Repository::open(&path, settings).unwrap();
    let current = repository.current().unwrap().version;
    repository.roll_back(Some(current)).unwrap();
    drop(repository);
    with_key(&other).check().unwrap();
    let absent = with_key(Path::new("absent.key")).check().unwrap_err();
    assert!(absent.key == "signing_key" && absent.cause.contains("spirea key new"), "{absent}");
}

#[test]
fn clients_that_ask_while_versions_are_published_are_never_wrong() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 0));
    let server = serve(&path);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking: Vec<_> = (0..3)
            .map(|i| {
                let (server, done, cache) = (&server, &done, folder.path().join(format!("{i}")));
                scope.spawn(move || {
                    let mut client = client(server, &cache);
                    let mut newest = 0;
                    while !done.load(Ordering::Relaxed) {
                        let answer = client.get_keys(&[b"key-0", b"key-1", b"absent"]).unwrap();
                        let [Some(a), Some(b), None] = &answer[..] else { panic!("{answer:?}") };
                        let edition = |value: &spirea_client::Value, row| {
                            let text = String::from_utf8(value.fields()[0].clone()).unwrap();
                            let edition: u32 = text.rsplit(' ').next().unwrap().parse().unwrap();
                            assert_eq!(text, self::value(row, edition));
                            edition
                        };
                        // All values of a request belong to one version, and versions never go
                        // backwards.
                        assert_eq!(edition(a, 0), edition(b, 1));
                        assert!(edition(a, 0) >= newest);
                        newest = edition(a, 0);
                    }
                    newest
                })
            })
            .collect();
        for edition in 1..=12 {
            let lines: String = (0..2)
                .map(|row| format!("{{\"key\": \"{}\", \"value\": \"{}\"}}\n", key(row), value(row, edition)))
                .collect();
            published(&publish(&server, "changes", lines.as_bytes()));
            if edition % 4 == 0 {
                published(&publish(&server, "compact", b""));
            }
        }
        let mut last = client(&server, folder.path());
        assert_eq!(ask(&mut last, &["key-0"]), [Some(value(0, 12))]);
        done.store(true, Ordering::Relaxed);
        asking.into_iter().for_each(|client| assert!(client.join().unwrap() > 0));
    });
}

#[test]
fn an_upload_that_drips_is_refused() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let limits = Limits { read_timeout: Duration::from_secs(1), ..Limits::default() };
    let config = ServerConfig { limits, ..config(&path) };
    let server = Running::start(async move { Server::bind(config).await });
    eventually("ready", || server.get("/readyz").status == 200);
    let mut stream = dial(server.admin.unwrap());
    let head = "POST /v1/admin/databases/table/changes HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                content-type: application/x-ndjson\r\ncontent-length: 100000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (started, mut response) = (Instant::now(), [0; 12]);
    // An empty line is not a change: only the rate is wrong.
    while stream.write_all(b"\n").is_ok() && stream.read_exact(&mut response).is_err() {
        assert!(started.elapsed() < PATIENCE, "the upload still holds its place");
    }
    assert_eq!(server.get("/readyz").status, 200);
}

//! Workers and a coordinator as an orchestrator runs them: real processes that are killed and
//! stopped.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::command::{SPIREA, Server, expect, folder_with, refusal, text};

/// A process that prints a line when it is ready.
struct Running {
    process: Child,
    said: String,
}

impl Running {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut process = Command::new(SPIREA)
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        Self { process, said }
    }

    fn worker(folder: &Path, share: &str) -> (Self, Value) {
        let arguments = ["worker", "--snapshot", "notes", "--share", share, "--listen", "localhost:0"];
        let tls = ["--tls-cert", "own.pem", "--tls-key", "own.key", "--client-ca", "ca.pem"];
        let worker = Self::start(folder, &[&arguments[..], &tls, &["--threads", "1"]].concat());
        let said = serde_json::from_str(&worker.said).expect("a worker says in JSON that it is ready");
        (worker, said)
    }

    fn ask_to_end(mut self) -> i32 {
        let killed = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.process.wait().unwrap().code().expect("it ends by itself")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes certificates by which both sides authenticate each other.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let pair = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&pair, &authority).unwrap();
    for (name, content) in
        [("ca.pem", authority.pem()), ("own.pem", own.pem()), ("own.key", pair.serialize_pem())]
    {
        std::fs::write(folder.join(name), content).unwrap();
    }
}

/// Version of the snapshot `notes`.
fn version(folder: &Path) -> Value {
    let manifest = std::fs::read(folder.join("notes/manifest.json")).unwrap();
    serde_json::from_slice::<Value>(&manifest).unwrap()["blake3"].clone()
}

fn place(folder: &Path, shares: &Value) {
    let snapshot = json!({ "path": folder.join("notes"), "version": version(folder), "shares": shares });
    let document = json!({ "databases": [{ "name": "notes", "snapshots": [snapshot] }] });
    std::fs::write(folder.join("placement.new"), document.to_string()).unwrap();
    std::fs::rename(folder.join("placement.new"), folder.join("placement.json")).unwrap();
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    text(&answer)
}

#[test]
fn workers_and_a_coordinator_answer_as_one_server_does_and_one_is_killed() {
    let rows: String = (0..2000).map(|row| format!("{row},{row} {}\n", "x".repeat(700))).collect();
    let folder = folder_with(&[("notes.csv", &format!("key,note\n{rows}"))]);
    let folder = folder.path();
    certificates(folder);
    let table = ["--input", "notes.csv", "--key", "key", "--value", "note", "--out", "notes"];
    expect(folder, 0, &[&["build", "--protocol", "simple"][..], &table].concat());
    let files = expect(folder, 0, &["worker-files", "--snapshot", "notes", "--share", "1/2", "--json"]);
    let files: Value = serde_json::from_slice(&files.stdout).unwrap();
    let size = std::fs::metadata(folder.join("notes/matrix.bin")).unwrap().len();
    assert_eq!(files["files"][1], json!({ "path": "matrix.bin", "size": size, "ranges": [[1 << 20, size]] }));
    assert!(
        refusal(folder, &["worker-files", "--snapshot", "notes", "--share", "2/2"])
            .contains("numbered from 0")
    );

    let (mut first, said) = Running::worker(folder, "0/2");
    assert_eq!((&said["ready"], &said["share"], &said["shares"]), (&json!(true), &json!(0), &json!(2)));
    let (second, of_second) = Running::worker(folder, "1/2");
    let (third, of_third) = Running::worker(folder, "0/2");
    let own = json!([of_second["address"]]);
    place(folder, &json!([[said["address"], of_third["address"]], own]));
    let arguments =
        ["coordinator", "--listen", "127.0.0.1:0", "--placement", "placement.json", "--threads", "1"];
    let tls = ["--worker-ca", "ca.pem", "--tls-client-cert", "own.pem", "--tls-client-key", "own.key"];
    let coordinator = Running::start(folder, &[&arguments[..], &tls].concat());
    let url = coordinator.said.trim().strip_prefix("listening on ").unwrap();
    let address = url.strip_prefix("http://").unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    while !get(address, "/readyz").starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < deadline, "{}", get(address, "/readyz"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let look_up = |url: &str, key: &str| text(&expect(folder, 0, &["get", url, "notes", key]).stdout);
    let whole = Server::ready(folder, &["notes"]);
    // Clients get the same bytes as from a single server.
    let body = |answer: String| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    let path = "/v1/databases/notes/hint/rows";
    assert_eq!(body(whole.get("/v1/databases")), body(get(address, "/v1/databases")));
    assert_eq!(whole.get(path).len(), get(address, path).len());
    assert_eq!(look_up(url, "7"), look_up(&whole.url, "7"));
    first.process.kill().unwrap();
    for key in ["8", "9", "1999"] {
        assert!(look_up(url, key).starts_with(&format!("{key} x")), "{key}");
    }
    // A worker that is asked to end exits with success. So does a coordinator.
    place(folder, &json!([[of_third["address"]], own]));
    assert_eq!(coordinator.ask_to_end(), 0);
    assert_eq!((second.ask_to_end(), third.ask_to_end()), (0, 0));
}

#[test]
fn what_is_wrong_is_named() {
    let folder = folder_with(&[("notes.csv", "note\none\n"), ("placement.json", "{}")]);
    let folder = folder.path();
    certificates(folder);
    expect(
        folder,
        0,
        &["build", "--input", "notes.csv", "--value", "note", "--out", "notes", "--protocol", "simple"],
    );
    let tls = ["--worker-ca", "ca.pem", "--tls-client-cert", "own.pem", "--tls-client-key", "own.key"];
    let coordinator = |more: &[&str]| {
        refusal(folder, &[&["coordinator", "--listen", "127.0.0.1:0"][..], more, &tls].concat())
    };
    assert!(coordinator(&["--placement", "none.json"]).contains("none.json: the placement cannot be read"));
    assert!(coordinator(&["--placement", "placement.json"]).contains("missing field"));
    assert!(coordinator(&["--placement", "placement.json", "notes"]).contains("those of its placement"));
    let worker = ["worker", "--snapshot", "notes", "--listen", "127.0.0.1:0", "--tls-cert", "own.pem"];
    let worker = |more: &[&str]| refusal(folder, &[&worker[..], more].concat());
    let known = ["--tls-key", "own.key", "--client-ca", "ca.pem"];
    assert!(worker(&[&known[..], &["--share", "3"]].concat()).contains("such as 0/4"));
    assert!(
        worker(&["--tls-key", "own.key", "--client-ca", "notes.csv", "--share", "0/1"]).contains("notes.csv")
    );
    std::fs::write(folder.join("notes/matrix.bin"), "x").unwrap();
    assert!(worker(&[&known[..], &["--share", "0/1"]].concat()).contains("matrix.bin"));
}

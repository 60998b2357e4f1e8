//! The command as an operator uses it: settings, tokens and signals.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const SPIREA: &str = env!("CARGO_BIN_EXE_spirea");

fn spirea(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(SPIREA)
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env_remove("SPIREA_TOKEN")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Makes a folder with a snapshot `urls` of one key.
fn with_snapshot() -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("urls.csv"), "url,verdict\na.test,bad\n").unwrap();
    let build = ["build", "--input", "urls.csv", "--key", "url", "--value", "verdict", "--out", "urls"];
    let built = spirea(folder.path(), &build, &[]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    folder
}

/// A server with the addresses that it prints.
struct Server {
    process: Child,
    urls: Vec<String>,
}

impl Server {
    fn start(folder: &Path, arguments: &[&str], lines: usize) -> Self {
        let mut process = Command::new(SPIREA)
            .arg("serve")
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.join("server.log")).unwrap())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap()).lines().take(lines);
        let urls = said.map(|line| line.unwrap().split(' ').next_back().unwrap().to_owned()).collect();
        Self { process, urls }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_file_of_settings_and_a_token_are_all_that_a_server_needs() {
    let folder = with_snapshot();
    let folder = folder.path();
    let made =
        spirea(folder, &["token", "new", "--name", "phones", "--scope", "query", "--quota", "3/day"], &[]);
    assert!(made.status.success());
    let token = text(&made.stdout);
    assert!(token.starts_with("spirea_") && token.lines().count() == 1, "{token}");
    let said = text(&made.stderr);
    let (_, lines) = said.split_once("\n\n").unwrap();
    assert!(lines.contains("quota = \"3/day\"") && !said.contains(token.trim()), "{said}");
    std::fs::create_dir(folder.join("etc")).unwrap();
    std::fs::write(folder.join("etc/tokens.toml"), lines).unwrap();
    let settings = "listen = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndatabases = [{ path = \"../urls\" }]\n[tokens]\nfile = \"tokens.toml\"\n";
    std::fs::write(folder.join("etc/spirea.toml"), settings).unwrap();
    let checked = spirea(folder, &["serve", "--config", "etc/spirea.toml", "--check-config"], &[]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));

    let mut server = Server::start(folder, &["--config", "etc/spirea.toml"], 2);
    let get = ["get", &server.urls[0].clone(), "urls", "a.test", "--wait", "120"];
    // A server that is asked to reload its files continues to run.
    server.signal("-HUP");
    let refused = spirea(folder, &get, &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("no token") && text(&refused.stderr).contains("spirea token new"));
    let let_in = spirea(folder, &get, &[("SPIREA_TOKEN", token.trim())]);
    assert_eq!(text(&let_in.stdout), "bad\n", "{}", text(&let_in.stderr));
    std::fs::write(folder.join("token"), &token).unwrap();
    let from_file: Vec<&str> = get.iter().copied().chain(["--token-file", "token"]).collect();
    assert_eq!(text(&spirea(folder, &from_file, &[]).stdout), "bad\n");
    server.signal("-TERM");
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    assert!(!std::fs::read_to_string(folder.join("server.log")).unwrap().contains(token.trim()));
}

#[test]
fn a_job_builds_in_the_place_of_what_is_served_and_sends_sighup() {
    let folder = with_snapshot();
    let folder = folder.path();
    let server = Server::start(folder, &["urls", "--listen", "127.0.0.1:0"], 1);
    let get = |wanted: &str| {
        let got = spirea(folder, &["get", &server.urls[0], "urls", "a.test", "--wait", "120"], &[]);
        text(&got.stdout) == wanted
    };
    assert!(get("bad\n"));
    std::fs::write(folder.join("urls.csv"), "url,verdict\na.test,good\n").unwrap();
    let build = [
        "build",
        "--input",
        "urls.csv",
        "--key",
        "url",
        "--value",
        "verdict",
        "--out",
        "urls",
        "--overwrite",
    ];
    assert!(spirea(folder, &build, &[]).status.success());
    server.signal("-HUP");
    let deadline = Instant::now() + Duration::from_secs(120);
    while !get("good\n") {
        assert!(Instant::now() < deadline, "the new snapshot does not answer");
    }
}

#[test]
fn the_log_tells_of_a_snapshot_once_and_of_no_probes() {
    let folder = with_snapshot();
    let folder = folder.path();
    let mut server = Server::start(folder, &["urls", "--listen", "127.0.0.1:0"], 1);
    let url = server.urls[0].clone();
    assert!(spirea(folder, &["get", &url, "urls", "a.test", "--wait", "120"], &[]).status.success());
    // The doctor requests the probes, such as /readyz.
    assert!(spirea(folder, &["doctor", &url], &[]).status.success());
    server.signal("-HUP");
    let log = || std::fs::read_to_string(folder.join("server.log")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !log().contains("no new snapshot") {
        assert!(Instant::now() < deadline, "{}", log());
        std::thread::sleep(Duration::from_millis(10));
    }
    server.signal("-TERM");
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    let log = log();
    assert_eq!(log.matches("the snapshot is ready").count(), 1, "{log}");
    assert!(log.contains("/query") && !log.contains("/healthz") && !log.contains("/readyz"), "{log}");
}

#[test]
fn a_server_signs_its_own_certificate_and_says_how_clients_trust_it() {
    let folder = with_snapshot();
    let folder = folder.path();
    let arguments = ["urls", "--listen", "127.0.0.1:0", "--tls", "self-signed"];
    let certificate = folder.join("spirea-tls/certificate.pem");
    let mut before = None;
    for _ in 0..2 {
        let server = Server::start(folder, &arguments, 2);
        let [url, ca] = [0, 1].map(|at| &*server.urls[at]);
        assert!(
            url.starts_with("https://127.0.0.1:") && Path::new(ca).ends_with("spirea-tls/certificate.pem")
        );
        let get = ["get", url, "urls", "a.test", "--wait", "120"];
        assert_eq!(text(&spirea(folder, &[&get[..], &["--ca", ca]].concat(), &[]).stdout), "bad\n");
        let refused = spirea(folder, &["get", url, "urls", "a.test"], &[]);
        assert!(text(&refused.stderr).contains("--ca"), "{}", text(&refused.stderr));
        // The next server has the same certificate.
        let now = std::fs::read(&certificate).unwrap();
        assert_eq!(*before.get_or_insert_with(|| now.clone()), now);
    }
    let key = std::fs::metadata(folder.join("spirea-tls/key.pem")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777, 0o600);
}

#[test]
fn what_is_wrong_with_settings_is_said_with_file_line_key_and_remedy() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("spirea.toml"), "\n[limits]\nconections = 5\n").unwrap();
    let check = |arguments: &[&str], variables: &[(&str, &str)]| {
        let arguments: Vec<&str> = ["serve", "--check-config"].iter().chain(arguments).copied().collect();
        let output = spirea(folder, &arguments, variables);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let said = check(&["--config", "spirea.toml"], &[]);
    assert_eq!(said, "spirea: spirea.toml:3: limits.conections: unknown key; did you mean connections?\n");
    let said = check(&["absent"], &[]);
    assert!(said.starts_with("spirea: absent: "), "{said}");
    let said = check(&["absent", "--listen", "0.0.0.0:80"], &[("SPIREA_LISTEN", "127.0.0.1:80")]);
    assert!(said.starts_with("spirea: --listen: ") && said.contains("--insecure-no-auth"), "{said}");
    let said = check(&["absent"], &[("SPIREA_LIMITS__BODY_MEMORY", "much")]);
    assert!(said.starts_with("spirea: SPIREA_LIMITS__BODY_MEMORY: ") && said.contains("512MiB"), "{said}");
    let said = check(&[], &[]);
    assert!(said.contains("databases: nothing to serve"), "{said}");
}

#[test]
fn tokens_that_allow_nothing_are_not_made() {
    let folder = TempDir::new().unwrap();
    let refused = |arguments: &[&str]| {
        let output = spirea(folder.path(), &[&["token", "new"], arguments].concat(), &[]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        text(&output.stderr)
    };
    assert!(refused(&["--name", "a\"b", "--scope", "query"]).contains("--name"));
    assert!(refused(&["--name", "a", "--scope", "query", "--quota", "5"]).contains("1000/day"));
    assert!(refused(&["--name", "a", "--scope", "query", "--concurrency", "0"]).contains("at least 1"));
    assert!(refused(&["--name", "a"]).contains("--scope"));
}

#[test]
fn tiers_have_names_that_the_file_of_private_tokens_takes() {
    let folder = TempDir::new().unwrap();
    for arguments in [&["token", "issuer", "issuer.pem"][..], &["token", "user"]] {
        for tier in ["", "a b", "a\"", "caf\u{e9}"] {
            let output = spirea(folder.path(), &[arguments, &["--tier", tier]].concat(), &[]);
            assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{tier:?}");
            let said = text(&output.stderr);
            assert!(said.contains("--tier") && said.contains("letters, digits"), "{said}");
        }
    }
    assert!(!folder.path().join("issuer.pem").exists());
    assert!(spirea(folder.path(), &["token", "user", "--tier", "free_2-a"], &[]).status.success());
}

#[test]
fn the_doctor_examines_the_way_to_an_answer_and_says_what_is_wrong() {
    let folder = with_snapshot();
    let folder = folder.path();
    let server = Server::start(folder, &["urls", "--listen", "127.0.0.1:0"], 1);
    let url = &server.urls[0];
    assert!(spirea(folder, &["get", url, "urls", "a.test", "--wait", "120"], &[]).status.success());
    let examine = |arguments: &[&str]| {
        let output = spirea(folder, &[&["doctor", "--json"], arguments].concat(), &[]);
        let lines: Vec<serde_json::Value> =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (output.status.code(), lines)
    };
    let names = |lines: &[serde_json::Value], outcome: &str| -> Vec<String> {
        let those = lines.iter().filter(|line| line["outcome"] == outcome);
        those.map(|line| line["check"].as_str().unwrap().to_owned()).collect()
    };
    let (status, lines) = examine(&[url]);
    assert_eq!((status, names(&lines, "FAIL").len()), (Some(0), 0), "{lines:?}");
    // On a slow machine there may be warnings about times.
    let examined: Vec<_> = lines.iter().map(|line| line["check"].as_str().unwrap()).collect();
    let expected =
        ["dns", "tcp", "http", "ready", "access", "list", "config", "sizes", "hint", "look-up", "latency"];
    assert_eq!(examined, expected);

    let failing = |arguments: &[&str], check: &str| {
        let (status, lines) = examine(arguments);
        assert_eq!((status, names(&lines, "FAIL")), (Some(1), vec![check.to_owned()]), "{lines:?}");
        let last = lines.last().unwrap();
        assert!(!last["detail"].as_str().unwrap().is_empty() && !last["remedy"].as_str().unwrap().is_empty());
    };
    failing(&["nowhere"], "address");
    failing(&["http://absent.invalid:1"], "dns");
    failing(&[url, "--database", "absent"], "list");
    failing(&[&url.replace("http:", "https:")], "tls");
    // The local end of a connection reserves its port, and nobody listens there.
    let taken = std::net::TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    failing(&[&format!("http://{}", taken.local_addr().unwrap())], "tcp");

    let made = spirea(folder, &["token", "new", "--name", "operator", "--scope", "admin"], &[]);
    std::fs::write(folder.join("token"), &made.stdout).unwrap();
    std::fs::write(folder.join("tokens.toml"), text(&made.stderr).split_once("\n\n").unwrap().1).unwrap();
    let locked = Server::start(folder, &["urls", "--listen", "127.0.0.1:0", "--tokens", "tokens.toml"], 1);
    spirea(folder, &["get", &locked.urls[0], "urls", "a.test", "--wait", "120"], &[]);
    for arguments in [vec![&*locked.urls[0]], vec![&*locked.urls[0], "--token-file", "token"]] {
        let (status, lines) = examine(&arguments);
        assert_eq!(status, Some(1));
        assert!(names(&lines, "FAIL").contains(&"access".into()), "{lines:?}");
    }
}

#[test]
fn tables_of_changes_are_published_through_a_server() {
    let folder = with_snapshot();
    let folder = folder.path();
    let run = |status: i32, arguments: &[&str]| {
        let output = spirea(folder, arguments, &[]);
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
        text(if status == 0 { &output.stdout } else { &output.stderr })
    };
    run(0, &["publish", "--repository", "repository", "--base", "urls"]);
    std::fs::write(folder.join("put.csv"), "url,verdict,why\nnew.test,\"so, \"\"so\"\"\",x\n").unwrap();
    std::fs::write(folder.join("gone.jsonl"), "{\"url\": \"a.test\"}\n").unwrap();
    std::fs::write(folder.join("bytes.csv"), b"url,verdict\nnew.test,\xff\n").unwrap();
    let listen = ["repository", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let server = Server::start(folder, &listen, 2);
    let [url, admin] = [0, 1].map(|at: usize| server.urls[at].clone());
    run(0, &["get", &url, "urls", "a.test", "--wait", "120"]);
    let publish = ["publish", "--server", &admin, "--database", "urls", "--key", "url"];
    let with = |rest: &[&'static str]| [&publish[..], rest].concat();
    let published = run(0, &with(&["--put", "put.csv", "--delete", "gone.jsonl"]));
    assert!(published.contains("2 changed in its delta"), "{published}");
    assert_eq!(run(0, &["get", &url, "urls", "new.test"]), "so, \"so\"\n");
    assert!(spirea(folder, &["get", &url, "urls", "a.test"], &[]).status.code() == Some(1));
    // A version is named by its first digits.
    let versions = run(0, &["inspect", "repository"]);
    let base = versions.lines().rfind(|line| !line.starts_with(' ')).unwrap();
    let rollback = ["rollback", "--server", &admin, "--database", "urls", "--to", &base[..10]];
    assert!(run(0, &rollback).contains("0 changed in its delta"));
    assert_eq!(run(0, &["get", &url, "urls", "a.test"]), "bad\n");
    // Errors are found before anything is sent, with file and line.
    std::fs::write(folder.join("twice.csv"), "url,verdict\na.test,1\na.test,2\n").unwrap();
    assert!(run(2, &with(&["--put", "twice.csv"])).contains("twice.csv:3"));
    assert!(run(2, &with(&["--put", "bytes.csv"])).contains("bytes.csv:2: its text is not UTF-8"));
    assert!(run(2, &with(&["--put", "bytes.csv", "--bytes"])).contains("no text"));
    assert!(run(2, &with(&[])).contains("say what to publish"));
    for other in
        [&["--stream"][..], &["--every-changes", "5"], &["--every-seconds", "5"], &["--allow-shrinking"]]
    {
        let refused = run(2, &[&publish[..], &["--put", "put.csv"], other].concat());
        assert!(refused.contains(other[0]) && refused.contains("--put"), "{refused}");
    }
    // The server has its own key, and keeps its own number of versions.
    for (option, value) in [("--sign", "operator.key"), ("--keep", "3")] {
        let refused = run(2, &with(&["--put", "put.csv", option, value]));
        assert!(refused.contains(option) && refused.contains("--server"), "{refused}");
    }
    // A wrong name, or the port for clients, is detected too.
    for (server, database, refusal) in
        [(&admin, "other", "it is a snapshot of urls"), (&url, "urls", "the server refused (404")]
    {
        let base = ["publish", "--server", server, "--database", database, "--base", "urls"];
        assert!(run(2, &base).contains(refusal), "{server} {database}");
    }
}

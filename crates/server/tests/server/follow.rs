//! Servers that follow another server get the same versions, whatever happens to the connection.

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use spirea_client::{ClientOptions, HttpClient, Keep};
use spirea_protocols::signature::PrivateKey;
use spirea_server::{Follow, Limits, Secret, Server, ServerConfig, TlsFiles};
use spirea_store::repository::{Settings, Shrinking, StoredRecord};
use spirea_store::signing::new_key;
use spirea_store::{Repository, Silent};
use spirea_wire::Code;
use tempfile::tempdir;

use crate::fixture::{self, Reply, Running, dial, eventually, once_published};
use crate::publish::{config, repository, serve_with, snapshot};
use crate::tls::Authority;

/// Number of looks that a server lets wait at once.
const WAITING_LOOKS: usize = 128;

/// Returns the settings of a server that follows the one at `address`, into a folder with the
/// database's name.
pub fn following(folder: &Path, address: SocketAddr) -> ServerConfig {
    let follow =
        Follow { url: format!("http://{address}"), interval: Duration::from_millis(50), ..Follow::default() };
    ServerConfig { follow: Some(follow), ..config(&replica(folder)) }
}

fn replica(folder: &Path) -> PathBuf {
    folder.join("replica/table")
}

/// Ends a server. A version that is being adopted is adopted first, and then frees the repository.
fn end(server: Running, repository: &Path) {
    drop(server);
    eventually("a free repository", || Repository::open(repository, Settings::default()).is_ok());
}

fn client(server: &Running) -> HttpClient {
    let options = ClientOptions { keep: Keep::Memory, ..ClientOptions::default() };
    HttpClient::connect_with(&[&server.url()], "table", options).unwrap()
}

fn ask(client: &mut HttpClient, key: &str) -> String {
    let [value] = client.get_keys(&[key.as_bytes()]).unwrap().try_into().unwrap();
    String::from_utf8(value.expect("the key is there").fields()[0].clone()).unwrap()
}

/// Returns the bytes of the record of the current version in a repository's folder.
fn record(folder: &Path) -> Option<Vec<u8>> {
    let versions = Repository::list(folder).ok()?;
    Some(StoredRecord::from(versions.first()?).to_bytes())
}

/// Returns the newest version that answers; `None` if there is none.
pub fn served(server: &Running) -> Option<String> {
    let reply = server.get_with("/v1/databases", "accept: application/json\r\n");
    let body: Json = serde_json::from_slice(&reply.body).unwrap();
    Some(body["databases"][0]["versions"].get(0)?.as_str()?.to_owned())
}

fn publish(server: &Running, what: &str, body: &[u8]) {
    let reply = server.post_admin(&format!("/v1/admin/databases/table/{what}"), body);
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
}

#[test]
fn a_follower_answers_from_the_publisher_s_versions() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let publisher = serve_with(config(&path));
    let follower = serve_with(following(folder.path(), publisher.admin.unwrap()));
    let mut client = client(&follower);
    assert_eq!(ask(&mut client, "key-3"), "value 3 of edition 1");
    let steps: [(&str, &[u8]); 5] = [
        ("changes", br#"{"key": "key-3", "value": "changed", "cursor": "1"}"#),
        // The same version under another number.
        ("changes", br#"{"cursor": "2"}"#),
        ("changes", br#"{"key": "new", "value": "added"}"#),
        ("rollback", b""),
        ("compact", b""),
    ];
    for (what, body) in steps {
        publish(&publisher, what, body);
        once_published(what, || record(&replica(folder.path())) == record(&path));
        once_published(what, || served(&follower) == served(&publisher));
    }
    // Clients of the former versions were answered, and follow.
    assert_eq!(ask(&mut client, "key-3"), "value 3 of edition 1");
    assert_eq!(ask(&mut client, "key-3"), "changed");
    // A follower is no publisher.
    for what in ["changes", "snapshot", "rollback", "compact"] {
        let refused = follower.post_admin(&format!("/v1/admin/databases/table/{what}"), b"");
        assert_eq!((refused.status, refused.refusal().code), (409, Code::NotPublishable), "{what}");
    }
    // After a restart the follower answers without its publisher, and a follower of the follower
    // has the same version.
    drop(publisher);
    end(follower, &replica(folder.path()));
    let mut alone = following(folder.path(), ([127, 0, 0, 1], 1).into());
    alone.follow.as_mut().unwrap().interval = Duration::from_secs(60);
    let follower = serve_with(alone);
    assert_eq!(ask(&mut self::client(&follower), "key-3"), "changed");
    let second = tempdir().unwrap();
    let third = serve_with(following(second.path(), follower.admin.unwrap()));
    assert_eq!(served(&third), served(&follower));
    assert_eq!(record(&replica(second.path())), record(&path));
}

#[test]
fn a_version_answers_when_all_followers_have_it_or_after_the_time() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let (short, long) = (Duration::from_secs(3), Duration::from_secs(120));
    let publisher = serve_with(ServerConfig { activate_after: Some(long), ..config(&path) });
    let follower = serve_with(following(folder.path(), publisher.admin.unwrap()));
    // The publisher knows the follower once the follower has reported its first version.
    publish(&publisher, "changes", br#"{"key": "key-3", "value": "changed first"}"#);
    once_published("the follower", || served(&follower) == served(&publisher));
    let started = Instant::now();
    publish(&publisher, "changes", br#"{"key": "key-3", "value": "changed"}"#);
    assert!(started.elapsed() < long, "the follower has the version");
    let version = StoredRecord::from_bytes(&record(&path).unwrap()).unwrap();
    let files = replica(folder.path()).join("deltas").join(version.delta.unwrap().to_string());
    assert!(files.join("manifest.json").exists());
    once_published("the follower", || served(&follower) == served(&publisher));
    end(publisher, &path);
    end(follower, &replica(folder.path()));

    // A stopped follower delays a version by the configured time, also for the other followers.
    let publisher = serve_with(ServerConfig { activate_after: Some(short), ..config(&path) });
    let follower = serve_with(following(folder.path(), publisher.admin.unwrap()));
    let former = served(&publisher);
    once_published("the follower", || served(&follower) == former);
    let look = format!("?follower={}&has={}", "ab".repeat(16), "00".repeat(32));
    let seen = publisher.get_admin(&format!("/v1/admin/databases/table/record{look}"), "");
    assert_eq!((seen.status, seen.header("spirea-answering")), (200, former.as_deref()));
    let started = Instant::now();
    thread::scope(|scope| {
        let change = br#"{"key": "key-4", "value": "changed"}"#;
        let publishing = scope.spawn(|| publish(&publisher, "changes", change));
        while !publishing.is_finished() {
            let (first, then) = (served(&follower), served(&publisher));
            assert!(first == former || then != former, "a follower is ahead of its publisher");
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(started.elapsed() >= short);
    once_published("the follower", || served(&follower) == served(&publisher));
    for query in ["?follower=ab&has=00", "?follower=-1", "?has=xyz"] {
        let reply = publisher.get_admin(&format!("/v1/admin/databases/table/record{query}"), "");
        assert_eq!(reply.status, 400, "{query}");
    }
}

/// A version is open at a follower before its publisher answers from it, so that clients do not
/// wait for the follower.
#[cfg(target_os = "linux")]
#[test]
fn a_follower_opens_a_version_before_its_publisher_answers_from_it() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let long = Duration::from_secs(120);
    let publisher = serve_with(ServerConfig { activate_after: Some(long), ..config(&path) });
    let follower = serve_with(following(folder.path(), publisher.admin.unwrap()));
    let former = served(&publisher);
    once_published("the follower", || served(&follower) == former);
    // A second follower, which reports the next version only at the end. Until then, the publisher
    // waits for it.
    let report = |has: &str| {
        let look = format!("?follower={}&has={has}", "ab".repeat(16));
        let seen = publisher.get_admin(&format!("/v1/admin/databases/table/record{look}"), "");
        assert_eq!(seen.status, 200);
    };
    report(former.as_ref().unwrap());
    thread::scope(|scope| {
        let change = br#"{"key": "key-4", "value": "changed"}"#;
        let publishing = scope.spawn(|| publish(&publisher, "changes", change));
        let deltas = replica(folder.path()).join("deltas");
        once_published("an open delta", || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.contains(deltas.to_str().unwrap())
        });
        assert!(!publishing.is_finished());
        assert_eq!((served(&follower), served(&publisher)), (former.clone(), former));
        let version = StoredRecord::from_bytes(&record(&path).unwrap()).unwrap().version();
        report(&version.to_string());
        publishing.join().unwrap();
        once_published("the follower", || served(&follower) == Some(version.to_string()));
    });
}

#[test]
fn a_follower_waits_for_a_first_version() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("table");
    drop(Repository::create(&path, Settings::default()).unwrap());
    let publisher = Running::start(Server::bind(config(&path)));
    let follower = Running::start(Server::bind(following(folder.path(), publisher.admin.unwrap())));
    assert_eq!(follower.get("/readyz").status, 503);
    let base = snapshot(folder.path(), "simple", true, 1);
    let mut archive = tar::Builder::new(Vec::new());
    let files = base.manifest().files().map(|entry| &*entry.file);
    for file in ["manifest.json"].into_iter().chain(files) {
        archive.append_path_with_name(base.folder().join(file), file).unwrap();
    }
    publish(&publisher, "snapshot", &archive.into_inner().unwrap());
    once_published("the first version", || follower.get("/readyz").status == 200);
    assert_eq!(served(&follower), Some(base.version().to_string()));
}

/// Returns the settings of a follower that looks by itself only after an hour.
fn patient(folder: &Path, address: SocketAddr) -> ServerConfig {
    let mut settings = following(folder, address);
    settings.follow.as_mut().unwrap().interval = Duration::from_secs(3600);
    settings
}

#[test]
fn a_follower_is_told_of_versions_and_reports_them_at_once() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let long = Duration::from_secs(600);
    let publisher = serve_with(ServerConfig { activate_after: Some(long), ..config(&path) });
    let follower = serve_with(patient(folder.path(), publisher.admin.unwrap()));
    // A publication waits for a follower that has reported its first version, and ends when the
    // follower has the new one.
    let (edition, started) = (Cell::new(0), Instant::now());
    eventually("a publication that waits for the follower", || {
        edition.set(edition.get() + 1);
        let change = format!(r#"{{"key": "key-3", "value": "edition {}"}}"#, edition.get());
        publish(&publisher, "changes", change.as_bytes());
        let version = StoredRecord::from_bytes(&record(&path).unwrap()).unwrap();
        let files = replica(folder.path()).join("deltas").join(version.delta.unwrap().to_string());
        files.join("manifest.json").exists()
    });
    assert!(started.elapsed() < long);
    for (what, body) in [("changes", &br#"{"key": "new", "value": "added"}"#[..]), ("rollback", b"")] {
        publish(&publisher, what, body);
        once_published(what, || record(&replica(folder.path())) == record(&path));
        once_published(what, || served(&follower) == served(&publisher));
    }
    // A follower of the follower is told too.
    let second = tempdir().unwrap();
    let third = serve_with(patient(second.path(), follower.admin.unwrap()));
    publish(&publisher, "compact", b"");
    once_published("the third server", || served(&third) == served(&publisher));
}

#[test]
fn looks_that_wait_take_no_places_of_requests() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let limits = Limits { requests: 4, ..Limits::default() };
    let publisher = serve_with(ServerConfig { limits, ..config(&path) });
    let record = "/v1/admin/databases/table/record";
    let tag = publisher.get_admin(record, "").header("etag").unwrap().to_owned();
    let looks: Vec<_> = (0..8)
        .map(|_| {
            let mut look = dial(publisher.admin.unwrap());
            let head = format!("GET {record} HTTP/1.1\r\nhost: localhost\r\nif-none-match: {tag}\r\n");
            write!(look, "{head}prefer: wait=20\r\nconnection: close\r\n\r\n").unwrap();
            eventually("a place", || publisher.get_admin("/v1/admin/databases", "").status == 200);
            look
        })
        .collect();
    eventually("a place for a client", || publisher.get("/v1/databases").status == 200);
    publish(&publisher, "changes", br#"{"key": "key-3", "value": "changed"}"#);
    for mut look in looks {
        // Without a change in time, a look ends with 304; it is never refused.
        assert!([200, 304].contains(&fixture::read(&mut look).status));
    }
}

#[test]
fn a_look_waits_for_a_change_if_it_prefers_to() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let publisher = serve_with(config(&path));
    let look = |headers: &str| publisher.get_admin("/v1/admin/databases/table/record", headers);
    let tag_of = |reply: &Reply| reply.header("etag").unwrap().to_owned();
    let waits = |tag: &str, seconds| format!("if-none-match: {tag}\r\nprefer: wait={seconds}\r\n");
    let applied = |reply: &Reply| reply.header("preference-applied").map(str::to_owned);
    let former = tag_of(&look(""));

    // Nothing changes.
    let started = Instant::now();
    let reply = look(&waits(&former, 1));
    assert_eq!((reply.status, applied(&reply).as_deref()), (304, Some("wait=1")));
    assert!(started.elapsed() >= Duration::from_secs(1) && reply.body.is_empty());
    // A client that has another state is answered at once, and so is one that does not wait.
    let reply = look(&waits("\"ab\"", 20));
    assert_eq!((reply.status, tag_of(&reply)), (200, former.clone()));
    assert_eq!(applied(&look(&format!("if-none-match: {former}\r\n"))), None);

    // With one look more than there are places, one is answered at once, and operators are served.
    let admin = publisher.admin.unwrap();
    let take_all_places = |tag: &str| -> Vec<TcpStream> {
        let wait = |_| {
            let mut stream = dial(admin);
            let head =
                "GET /v1/admin/databases/table/record HTTP/1.1\r\nhost: localhost\r\nconnection: close";
            write!(stream, "{head}\r\n{}\r\n", waits(tag, 20)).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let looks: Vec<_> = (0..=WAITING_LOOKS).map(wait).collect();
        eventually("a look without a place", || looks.iter().any(|look| look.peek(&mut [0]).is_ok()));
        looks.iter().for_each(|look| look.set_nonblocking(false).unwrap());
        looks
    };
    let started = Instant::now();
    let mut looks = take_all_places(&former);
    assert_eq!(publisher.get_admin("/v1/admin/databases", "").status, 200);
    // A change answers all others, unless it comes when they have waited.
    publish(&publisher, "changes", br#"{"key": "key-3", "value": "changed"}"#);
    let prompt = started.elapsed() < Duration::from_secs(10);
    let replies: Vec<_> = looks.iter_mut().map(fixture::read).collect();
    let (waited, at_once): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| applied(reply).is_some());
    assert!(waited.iter().all(|reply| reply.status == 200 && tag_of(reply) != former) || !prompt);
    assert!(at_once.len() == 1 && at_once[0].status == 304 || !prompt, "{}", at_once.len());
    // The end of the server answers all of them before their time.
    let mut looks = take_all_places(&tag_of(&look("")));
    drop(publisher);
    for reply in looks.iter_mut().map(fixture::read) {
        assert_eq!((reply.status, applied(&reply)), (304, None));
    }
}

/// Damage that a [`Middleman`] does to the responses of a publisher.
#[derive(Clone, Copy)]
enum Harm {
    /// Ends the connection after this many bytes.
    Cut(usize),
    /// Flips a bit of each of [`FLIPPED`] bytes from this place.
    Flip(usize),
}

/// Number of flipped bytes. It exceeds the number of bytes in the irrelevant parts of a response.
const FLIPPED: usize = 500;

/// A proxy that damages those responses of a publisher that are long enough.
struct Middleman {
    address: SocketAddr,
    /// True as long as responses are harmed.
    harms: Arc<AtomicBool>,
}

impl Middleman {
    fn before(publisher: SocketAddr, harm: Harm) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, harms) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(true)));
        let switch = Arc::clone(&harms);
        thread::spawn(move || {
            for client in listener.incoming() {
                let switch = Arc::clone(&switch);
                thread::spawn(move || pass(client.unwrap(), publisher, harm, &switch));
            }
        });
        Self { address, harms }
    }
}

/// Passes a connection on to the publisher, and its responses back.
fn pass(mut client: TcpStream, publisher: SocketAddr, harm: Harm, harms: &AtomicBool) {
    let Ok(mut server) = TcpStream::connect(publisher) else { return };
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut buffer, mut passed) = (vec![0; 4096], 0);
    while let Ok(count @ 1..) = server.read(&mut buffer) {
        let bytes = &mut buffer[..count];
        if harms.load(Ordering::SeqCst) {
            match harm {
                Harm::Cut(place) if place < passed + count => break,
                Harm::Cut(_) => (),
                Harm::Flip(place) => bytes
                    .iter_mut()
                    .enumerate()
                    .filter(|(i, _)| (place..place + FLIPPED).contains(&(passed + i)))
                    .for_each(|(_, byte)| *byte ^= 1),
            }
        }
        passed += count;
        if client.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

#[test]
fn a_publisher_that_lies_or_is_cut_off_changes_nothing() {
    for harm in [Harm::Cut(700), Harm::Cut(60_000), Harm::Flip(700), Harm::Flip(60_000)] {
        let folder = tempdir().unwrap();
        let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
        let publisher = serve_with(config(&path));
        // The first version arrives undamaged.
        let admin = publisher.admin.unwrap();
        end(serve_with(following(folder.path(), admin)), &replica(folder.path()));
        let former = record(&replica(folder.path()));
        assert_eq!(former, record(&path));

        publish(&publisher, "changes", br#"{"key": "key-3", "value": "changed"}"#);
        let middleman = Middleman::before(admin, harm);
        let follower = serve_with(following(folder.path(), middleman.address));
        let has_failed = || {
            let status: Json = serde_json::from_slice(&follower.get("/readyz").body).unwrap();
            status["databases"][0]["refused"].is_string()
        };
        once_published("a failure", has_failed);
        assert_eq!(follower.metric("spirea_version_refused{database=\"table\"}"), Some(1.0));
        assert_eq!(record(&replica(folder.path())), former);
        assert_eq!(ask(&mut client(&follower), "key-3"), "value 3 of edition 1");
        middleman.harms.store(false, Ordering::SeqCst);
        once_published("the version", || served(&follower) == served(&publisher));
        once_published("no failure", || !has_failed());
        assert_eq!(record(&replica(folder.path())), record(&path));
        assert_eq!(ask(&mut client(&follower), "key-3"), "changed");
    }
}

#[test]
fn a_follower_needs_a_token_trusts_a_certificate_and_checks_signatures() {
    let folder = tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let key = new_key(&file("operator.key")).unwrap().public();
    let (authority, tls) =
        (Authority::new(), TlsFiles { certificate: file("certificate.pem"), key: file("key.pem") });
    authority.issue(&tls, 2124);
    let tokens = ["follow", "publish"].map(|scope| (scope, Secret::new().unwrap()));
    let lines = tokens.iter().map(|(scope, token)| {
        std::fs::write(file(scope), token.expose()).unwrap();
        format!("[[token]]\nname = \"{scope}\"\nblake3 = \"{}\"\nscopes = [\"{scope}\"]\n", token.hash())
    });
    std::fs::write(file("tokens.toml"), lines.collect::<String>()).unwrap();
    let publisher = Running::start(Server::bind(ServerConfig {
        tls: Some(tls),
        tokens: Some(file("tokens.toml")),
        signing_key: Some(file("operator.key")),
        ..config(&path)
    }));
    let admin = publisher.admin.unwrap();
    let good = || Follow {
        url: format!("https://{admin}"),
        token_file: Some(file("follow")),
        ca: Some(authority.write(folder.path())),
        key: None,
        interval: Duration::from_millis(50),
        disk: None,
    };
    let other = PrivateKey::from_bytes(&[7; 32]).public();
    let wrong = [
        (Follow { token_file: None, ..good() }, "401"),
        (Follow { token_file: Some(file("publish")), ..good() }, "403"),
        (Follow { ca: None, ..good() }, "certificate"),
        (Follow { key: Some(other), ..good() }, "not signed"),
    ];
    for (i, (follow, cause)) in wrong.into_iter().enumerate() {
        let place = folder.path().join(i.to_string()).join("table");
        let follower = Running::start(Server::bind(ServerConfig { follow: Some(follow), ..config(&place) }));
        let error = || {
            let status: Json = serde_json::from_slice(&follower.get("/readyz").body).unwrap();
            status["databases"][0]["error"].as_str().unwrap_or_default().to_owned()
        };
        once_published(cause, || error().contains(cause));
        assert!(record(&place).is_none());
    }
    let follower = Running::start(Server::bind(ServerConfig {
        follow: Some(good()),
        ..config(&replica(folder.path()))
    }));
    once_published("the version", || follower.get("/readyz").status == 200);
    assert_eq!(record(&replica(folder.path())), record(&path));
    end(follower, &replica(folder.path()));

    // With the key, only versions that the publisher signs are followed.
    end(publisher, &path);
    let signed =
        Repository::open(&path, Settings { key: Some(read(&file("operator.key"))), ..Settings::default() });
    let second = snapshot(folder.path(), "simple", true, 2);
    signed.unwrap().add_base(&second, Shrinking::Refuse, &Silent).unwrap();
    let publisher = serve_with(config(&path));
    let mut settings = following(folder.path(), publisher.admin.unwrap());
    settings.follow.as_mut().unwrap().key = Some(key);
    let follower = serve_with(settings);
    once_published("the signed version", || served(&follower) == Some(second.version().to_string()));
    publish(&publisher, "changes", br#"{"key": "key-3", "value": "unsigned"}"#);
    let refused = || {
        let status: Json = serde_json::from_slice(&follower.get("/readyz").body).unwrap();
        status["databases"][0]["refused"].as_str().unwrap_or_default().contains("not signed")
    };
    once_published("the refusal", refused);
    assert_eq!(served(&follower), Some(second.version().to_string()));
}

fn read(key: &Path) -> PrivateKey {
    spirea_store::signing::read_key(key).unwrap()
}

#[test]
fn followers_get_the_files_of_kept_versions_and_no_others() {
    let folder = tempdir().unwrap();
    let base = snapshot(folder.path(), "simple", true, 1);
    let path = repository(folder.path(), &base);
    let server = serve_with(config(&path));
    let get =
        |what: &str, headers: &str| server.get_admin(&format!("/v1/admin/databases/table/{what}"), headers);
    let current = get("record", "");
    assert_eq!((current.status, Some(current.body)), (200, record(&path)));
    let tag = current.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    assert_eq!(get("record", &format!("if-none-match: {tag}\r\n")).status, 304);
    let version = base.version().to_string();
    let names = base.manifest().files().map(|entry| entry.file.clone());
    for name in names.chain(["manifest.json".into()]) {
        let expected = std::fs::read(base.folder().join(&name)).unwrap();
        let whole = get(&format!("snapshots/{version}/{name}"), "");
        assert_eq!((whole.status, &whole.body), (200, &expected), "{name}");
        let part = get(&format!("snapshots/{version}/{name}"), "range: bytes=3-9\r\n");
        assert_eq!((part.status, &*part.body), (206, &expected[3..10]), "{name}");
        let range = format!("bytes 3-9/{}", expected.len());
        assert_eq!(part.header("content-range"), Some(&*range));
    }
    let outside = get(&format!("snapshots/{version}/manifest.json"), "range: bytes=9999999-\r\n");
    assert_eq!((outside.status, outside.refusal().code), (416, Code::WrongRange));
    let other = "ab".repeat(32);
    for (path, status) in [
        (format!("snapshots/{version}/lock"), 404),
        (format!("snapshots/{version}/changes.bin"), 404),
        (format!("snapshots/{version}/..%2f..%2flock"), 404),
        (format!("snapshots/{version}/%2e%2e"), 404),
        (format!("snapshots/{version}/"), 404),
        (format!("snapshots/{version}/../../lock"), 404),
        (format!("snapshots/{other}/manifest.json"), 404),
        ("snapshots/xyz/manifest.json".into(), 400),
        (format!("snapshots/..%2f{version}/manifest.json"), 400),
    ] {
        assert_eq!(get(&path, "").status, status, "{path}");
    }
    assert_eq!(server.get_admin("/v1/admin/databases/other/record", "").status, 404);
    // The port for clients has none of these endpoints.
    assert_eq!(server.get("/v1/admin/databases/table/record").status, 404);
}

#[test]
fn a_follower_that_ends_frees_its_repository() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    let publisher = serve_with(config(&path));
    end(serve_with(following(folder.path(), publisher.admin.unwrap())), &replica(folder.path()));
}

//! Several addresses of a server.

use std::path::Path;
use std::time::Duration;

use spirea_client::{ClientError, ClientOptions, HttpClient};
use spirea_engine::{Database, Served};
use spirea_protocols::{TableKind, Version};
use spirea_server::Limits;
use spirea_specimens::hooked::database;
use spirea_specimens::snapshots::{
    BACKEND, MAPPED, columns, csv_options, key, try_build, value, write_snapshot,
};
use spirea_specimens::{gate, no_hook};
use spirea_store::{Silent, Snapshot};
use spirea_wire::{Code, Refusal, Request};
use tempfile::tempdir;

use crate::fixture::{Running, connect, engine, options, request, serve_engine, serve_urls, texts};
use crate::proxy::{Proxy, refusing};

fn with_replicas(url: &str, replicas: &[String], cache: &Path) -> Result<HttpClient, ClientError> {
    let options = ClientOptions { replicas: vec![replicas.to_vec()], ..options(cache) };
    HttpClient::connect_with(&[url], "urls", options)
}

#[test]
fn the_request_of_a_server_that_dies_is_answered_by_another() {
    let folder = tempdir().unwrap();
    let path = write_snapshot(folder.path(), "urls", TableKind::Keyword, 1);
    let (hook, begins, go) = gate();
    let (first, second) = (engine(8), engine(8));
    first.publish(database(&path, hook));
    second.publish(database(&path, no_hook()));
    let limits = Limits { drain_timeout: Duration::ZERO, ..Limits::default() };
    let mut first = serve_engine(&first, limits);
    let second = serve_engine(&second, Limits::default());
    let proxies = [&first, &second].map(|server| Proxy::start(server.address, |_, _, response| response));
    let mut client = with_replicas(&proxies[0].url(), &[proxies[1].url()], folder.path()).unwrap();

    let asking = std::thread::spawn(move || {
        let values = texts(client.get_keys(&[&key(3)]).unwrap());
        (client, values)
    });
    begins.recv().unwrap();
    first.stopper.stop();
    first.wait();
    let (mut client, values) = asking.join().unwrap();
    assert_eq!(values, [Some(value(3, 1))]);
    let asked = proxies.each_ref().map(|proxy| proxy.seen("/query"));
    assert_eq!((asked[0].len(), asked[1].len()), (1, 1));
    let [dead, alive] = asked.map(|mut asked| asked.remove(0));
    assert!(dead.body == alive.body);
    assert_eq!(dead.header("spirea-request-id").unwrap(), alive.header("spirea-request-id").unwrap());
    // The client stays with the replica that answered.
    assert_eq!(texts(client.get_keys(&[&key(4)]).unwrap()), [Some(value(4, 1))]);
    assert_eq!(proxies[0].seen("/query").len(), 1);
    go.send(()).unwrap();
}

#[test]
fn a_server_that_is_not_ready_or_not_there_is_left_for_another() {
    let folder = tempdir().unwrap();
    let loading = engine(1);
    loading.announce("urls", Version::new([3; 32])).unwrap();
    let loading = serve_engine(&loading, Limits::default());
    let failed = engine(1);
    failed.announce("urls", Version::new([3; 32])).unwrap();
    failed.fail("urls", "the disk broke".into());
    let failed = serve_engine(&failed, Limits::default());
    let good = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    // The local end of this connection keeps its port in use, and nobody listens on it.
    let taken = std::net::TcpStream::connect(good.address).unwrap();
    let closed = format!("http://{}", taken.local_addr().unwrap());
    let replicas = [failed.url(), closed, good.url()];
    let mut client = with_replicas(&loading.url(), &replicas, folder.path()).unwrap();
    assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 1))]);

    let options = ClientOptions { attempts: 1, replicas: vec![vec![failed.url()]], ..options(folder.path()) };
    let error = HttpClient::connect_with(&[&loading.url()], "urls", options).map(drop).unwrap_err();
    assert!(matches!(error.cause(), ClientError::Refused { status: 503, .. }), "{error}");
    assert_eq!(error.url(), Some(&*failed.url()));
}

#[test]
fn a_server_that_does_not_have_a_version_yet_is_left_for_another_and_no_older_version_is_adopted() {
    let folder = tempdir().unwrap();
    let edition = |edition: u8| {
        let folder = folder.path().join(edition.to_string());
        std::fs::create_dir(&folder).unwrap();
        Served::from(database(&write_snapshot(&folder, "urls", TableKind::Keyword, edition), no_hook()))
    };
    let (former, new) = (edition(1), edition(2));
    let (slow, quick) = (engine(8), engine(8));
    quick.publish(former.clone());
    quick.publish(new.clone());
    slow.publish(new.clone());
    let (behind, ahead) = (serve_engine(&slow, Limits::default()), serve_engine(&quick, Limits::default()));
    let mut client = with_replicas(&behind.url(), &[ahead.url()], folder.path()).unwrap();
    assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 2))]);

    // The client asks here next, for a version that is being copied.
    slow.serve_exactly("urls", vec![former.clone()]);
    slow.expect("urls", *new.version());
    assert_eq!(texts(client.get_keys(&[&key(4)]).unwrap()), [Some(value(4, 2))]);
    assert_eq!(client.description().version(), new.version());

    let named = |version: Version| {
        let good = request(&ahead, 1);
        let reply = behind.post("/v1/databases/urls/query", &Request { version, ..good }.encode());
        (reply.status, reply.refusal().code, reply.header("retry-after").is_some())
    };
    assert_eq!(named(*new.version()), (503, Code::Loading, true));
    assert_eq!(named(Version::new([9; 32])), (409, Code::StaleVersion, false));
    // A message that is too long may be valid for the awaited version.
    let long = vec![0; 24 << 20];
    assert_eq!(behind.post("/v1/databases/urls/query", &long).refusal().code, Code::Loading);
    slow.expect("urls", *former.version());
    assert_eq!(behind.post("/v1/databases/urls/query", &long).refusal().code, Code::TooLarge);
    assert_eq!(named(*new.version()), (409, Code::StaleVersion, false));
}

const WORDS: [&str; 3] = ["zero", "one", "two"];

/// Builds a table whose clients register keys.
fn words(folder: &Path) -> Snapshot {
    let lines = ["word", &WORDS.join("\n"), ""].join("\n");
    let options = csv_options(&folder.join("words"), "exppack-simple", columns(None, &["word"]), &lines);
    try_build(&options).unwrap()
}

fn serve_words(snapshot: &Snapshot, limits: Limits) -> Running {
    let engine = engine(8);
    engine.publish(Database::load(snapshot, &BACKEND, MAPPED, &Silent).unwrap());
    serve_engine(&engine, limits)
}

fn look_up(client: &mut HttpClient, row: usize) {
    let values = texts(client.get_indices(&[row as u64]).unwrap());
    assert_eq!(values, [Some(vec![WORDS[row].into()])]);
}

#[test]
fn replicas_that_share_nothing_answer_clients_with_keys_in_turn() {
    let folder = tempdir().unwrap();
    let snapshot = words(folder.path());
    for replicas in [2, 3] {
        let servers: Vec<_> = (0..replicas).map(|_| serve_words(&snapshot, Limits::default())).collect();
        let balancer =
            Proxy::in_turn(servers.iter().map(|server| server.address).collect(), |_, _, response| response);
        let mut client = connect(&balancer.url(), "words", folder.path()).unwrap();
        for i in 0..16 {
            look_up(&mut client, i % WORDS.len());
        }
        let unknown = servers
            .iter()
            .filter_map(|server| server.metric("spirea_unknown_keys_total{database=\"words\"}"));
        assert!((1.0..=replicas as f64).contains(&unknown.sum::<f64>()), "each replica learns the keys once");
        for server in &servers {
            assert_eq!(server.metric("spirea_keys{place=\"memory\"}"), Some(1.0));
        }
        // Every request with a body has the same header, and none has a cookie.
        let sent = [balancer.seen("/keys"), balancer.seen("/query")].concat();
        let affinity = sent[0].header("spirea-affinity").unwrap();
        assert!(sent.iter().all(|seen| seen.header("spirea-affinity") == Some(affinity)));
        assert!(sent.iter().all(|seen| seen.header("cookie").is_none()));
    }
}

#[test]
fn keys_and_lists_are_divided_as_the_server_asks() {
    let folder = tempdir().unwrap();
    let snapshot = words(folder.path());
    let most = 300 << 10;
    let server = serve_words(&snapshot, Limits { request_bytes: most, ..Limits::default() });
    let proxy = Proxy::start(server.address, |_, _, response| response);
    let mut client = connect(&proxy.url(), "words", folder.path()).unwrap();
    for row in 0..WORDS.len() {
        look_up(&mut client, row);
    }
    let pieces = proxy.seen("/keys");
    assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.body.len() as u64 <= most));
    assert_eq!(server.metric("spirea_keys{place=\"memory\"}"), Some(1.0));
    assert_eq!(server.metric("spirea_unknown_keys_total{database=\"words\"}").unwrap_or_default(), 0.0);
    let list: Vec<u64> = (0..12).map(|i| i % WORDS.len() as u64).collect();
    assert_eq!(client.get_indices(&list).unwrap().len(), list.len());
    assert!(proxy.seen("/query").iter().all(|request| request.body.len() as u64 <= most));

    // The client enforces its own lower bound for the length of requests.
    let greedy = serve_words(&snapshot, Limits { request_bytes: 1, ..Limits::default() });
    let proxy = Proxy::start(greedy.address, |_, _, response| response);
    let mut client = connect(&proxy.url(), "words", folder.path()).unwrap();
    look_up(&mut client, 1);
    let pieces = proxy.seen("/keys");
    let whole: usize = pieces.iter().map(|piece| piece.body.len()).sum();
    assert_eq!(pieces.len(), whole.div_ceil(256 << 10));

    // A refused piece only costs time: the query then carries the keys.
    let proxy = Proxy::start(server.address, |seen, before, response| {
        match seen.path().ends_with("/keys") && before == 1 {
            true => refusing("424 Failed Dependency", "", &unknown_keys()),
            false => response,
        }
    });
    let mut client = connect(&proxy.url(), "words", folder.path()).unwrap();
    look_up(&mut client, 2);
    assert_eq!((proxy.seen("/keys").len(), proxy.seen("/query").len()), (2, 2));
}

fn unknown_keys() -> Refusal {
    let [message, remedy] = ["no", "none"].map(String::from);
    Refusal { code: Code::UnknownKeys, message, remedy, accepted: false, current_version: None }
}

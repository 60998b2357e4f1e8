//! Replicas that share evaluation keys through Redis, and every failure of Redis.

use std::cell::Cell;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use spirea_engine::Engine;
use spirea_protocols::KeysHash;
use spirea_server::{KeyOptions, Limits, ServerConfig, key_registry};
use spirea_specimens::no_hook;
use tempfile::tempdir;

use crate::fixture::{Running, eventually, serve_engine};
use crate::keys::{KEYS, ask, database, first, hash, unknown, upload};
use crate::redis_server;

/// Starts a replica that waits up to a minute for a Redis server, so that a loaded machine is no
/// failure.
fn replica(url: String, keys: KeyOptions) -> Running {
    let redis_timeout = Duration::from_secs(60);
    serve(ServerConfig { keys, redis: Some(url.into()), redis_timeout, ..ServerConfig::default() })
}

/// Starts a replica with the default time for a Redis server.
fn impatient(url: String) -> Running {
    serve(ServerConfig { redis: Some(url.into()), ..ServerConfig::default() })
}

fn serve(config: ServerConfig) -> Running {
    let engine = Arc::new(Engine::new(8, key_registry(&config).unwrap()).unwrap());
    engine.publish(database(no_hook()));
    serve_engine(&engine, Limits::default())
}

fn replicas(url: &str) -> [Running; 2] {
    [(); 2].map(|()| replica(url.to_owned(), KeyOptions::default()))
}

fn register(server: &Running, first: u8) {
    let reply = server.post(KEYS, &upload(first).encode());
    assert_eq!(reply.status, 200, "{reply:?}");
}

fn lookups(server: &Running, place: &str) -> f64 {
    server.metric(&format!("spirea_key_lookups_total{{place=\"{place}\"}}")).unwrap()
}

#[test]
fn keys_that_are_registered_at_one_replica_are_known_at_the_others() {
    let (redis, folder) = (redis_server::start(None), tempdir().unwrap());
    let url = redis.url(None);
    let on_disk = KeyOptions { folder: Some(folder.path().into()), ..KeyOptions::default() };
    let expiry = Duration::from_secs(77 * 60);
    let one = replica(url.clone(), KeyOptions { expiry, ..KeyOptions::default() });
    let other = replica(url.clone(), on_disk.clone());
    let keys = upload(3);
    unknown(&ask(&other, hash(&keys)));
    register(&one, 3);
    let (_, seconds, bytes) = redis.only();
    assert!(bytes == keys.keys);
    // The elapsed time is subtracted.
    assert!((expiry.as_secs() - 60..=expiry.as_secs()).contains(&seconds), "{seconds}");
    for _ in 0..2 {
        assert_eq!(first(ask(&other, hash(&keys))), 3);
    }
    assert_eq!(["unknown", "shared", "memory"].map(|place| lookups(&other, place)), [1.0; 3]);
    // From then on the replica has its own copy.
    redis.remove_all();
    drop(other);
    let other = replica(url, on_disk);
    assert_eq!((first(ask(&other, hash(&keys))), lookups(&other, "disk")), (3, 1.0));
}

#[test]
fn shared_bytes_that_are_no_keys_of_the_client_are_not_used() {
    let redis = redis_server::start(None);
    let [one, other] = replicas(&redis.url(None));
    let keys = upload(3);
    register(&one, 3);
    let (name, _, right) = redis.only();
    let damages: [fn(&mut Vec<u8>); 4] =
        [|bytes| bytes[9] ^= 1, |bytes| bytes.truncate(50), |bytes| bytes.push(0), Vec::clear];
    for damage in damages {
        let mut bytes = right.clone();
        damage(&mut bytes);
        redis.set(&name, 600, &bytes);
        unknown(&ask(&other, hash(&keys)));
    }
    redis.set(&name, 600, &right);
    assert_eq!(first(ask(&other, hash(&keys))), 3);
}

#[test]
fn shared_keys_expire() {
    let redis = redis_server::start(None);
    let expiry = Duration::from_secs(1);
    let [one, other] =
        [(); 2].map(|()| replica(redis.url(None), KeyOptions { expiry, ..KeyOptions::default() }));
    register(&one, 3);
    eventually("the keys expire", || redis.entries().is_empty());
    unknown(&ask(&other, hash(&upload(3))));
    assert_eq!(lookups(&other, "shared"), 0.0);
}

#[test]
fn a_redis_that_stops_is_done_without_and_used_again_when_it_is_back() {
    let mut redis = redis_server::start(None);
    let [one, other] = replicas(&redis.url(None));
    register(&one, 1);
    assert_eq!(first(ask(&other, hash(&upload(1)))), 1);
    redis.stop();
    register(&one, 2);
    unknown(&ask(&other, hash(&upload(2))));
    register(&other, 2);
    assert_eq!([&one, &other].map(|server| first(ask(server, hash(&upload(2))))), [2, 2]);
    redis.start_again();
    // Each replica pauses after a failure of Redis.
    let fresh = Cell::new(2);
    eventually("keys are shared again", || {
        std::thread::sleep(Duration::from_millis(200));
        fresh.update(|keys| keys + 1);
        register(&one, fresh.get());
        ask(&other, hash(&upload(fresh.get()))).status == 200
    });
    assert_eq!(lookups(&other, "shared"), 2.0);
}

#[test]
fn a_redis_without_memory_goes_on_giving_what_it_has() {
    let redis = redis_server::start(None);
    let [one, other] = replicas(&redis.url(None));
    register(&one, 1);
    redis.fill_memory();
    for server in [&one, &other] {
        register(server, 2);
        assert_eq!(first(ask(server, hash(&upload(2)))), 2);
    }
    assert_eq!(redis.entries().len(), 1);
    assert_eq!(first(ask(&other, hash(&upload(1)))), 1);
    assert_eq!(lookups(&other, "shared"), 1.0);
}

#[test]
fn a_password_opens_a_redis_and_a_wrong_one_is_no_error_to_clients() {
    let redis = redis_server::start(Some("open-sesame"));
    let [one, other] = replicas(&redis.url(Some("open-sesame")));
    register(&one, 1);
    assert_eq!(first(ask(&other, hash(&upload(1)))), 1);
    for password in [Some("sesame"), None] {
        let [stranger, _] = replicas(&redis.url(password));
        unknown(&ask(&stranger, hash(&upload(1))));
        register(&stranger, 2);
        assert_eq!(first(ask(&stranger, hash(&upload(2)))), 2);
    }
    assert_eq!(redis.entries().len(), 1);
}

#[test]
fn a_redis_that_is_silent_or_not_there_is_no_error_to_clients() {
    let [silent, kept] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    // The local end of this connection keeps its port in use, and nobody listens on it.
    let taken = TcpStream::connect(kept.local_addr().unwrap()).unwrap();
    let started = Instant::now();
    for redis in [taken.local_addr().unwrap(), silent.local_addr().unwrap()] {
        let server = impatient(format!("redis://{redis}"));
        unknown(&ask(&server, KeysHash::new([9; 32])));
        register(&server, 1);
        assert_eq!(first(ask(&server, hash(&upload(1)))), 1);
    }
    // A silent server is not contacted again for 5 s; only a stalled machine lets that time pass
    // here.
    silent.set_nonblocking(true).unwrap();
    let asked = std::iter::from_fn(|| silent.accept().ok()).count();
    assert!(asked == 1 || asked > 1 && started.elapsed() > Duration::from_secs(5), "{asked}");
}

#[test]
fn a_redis_that_drips_its_reply_is_given_up_by_a_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The whole reply would take more than two minutes, and each byte comes soon enough.
            let reply = [&b"$1000\r\n"[..], &[1; 1000], b"\r\n"].concat();
            std::thread::spawn(move || {
                for byte in reply {
                    std::thread::sleep(Duration::from_millis(150));
                    if stream.write_all(&[byte]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let (server, started) = (impatient(url), Instant::now());
    unknown(&ask(&server, KeysHash::new([9; 32])));
    register(&server, 1);
    assert_eq!(first(ask(&server, hash(&upload(1)))), 1);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

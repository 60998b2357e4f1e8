//! Replicas that share evaluation keys by Redis: as much of one as they need, and some that fail.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spirea_engine::Engine;
use spirea_server::{KeyOptions, Limits, ServerConfig, key_registry};
use spirea_specimens::no_hook;
use tempfile::tempdir;

use crate::fixture::{Running, serve_engine};
use crate::keys::{KEYS, ask, database, first, hash, unknown, upload};

/// What is stored, and for how many seconds.
type Stored = Arc<Mutex<HashMap<Vec<u8>, (u64, Vec<u8>)>>>;

/// A server that speaks enough of Redis' protocol.
struct Redis {
    address: SocketAddr,
    stored: Stored,
}

impl Redis {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, stored) = (listener.local_addr().unwrap(), Stored::default());
        let all = Arc::clone(&stored);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stored = Arc::clone(&all);
                std::thread::spawn(move || answer(stream.unwrap(), &stored));
            }
        });
        Self { address, stored }
    }

    /// The only set of keys that is there.
    fn only(&self) -> (Vec<u8>, (u64, Vec<u8>)) {
        let stored = self.stored.lock().unwrap();
        assert_eq!(stored.len(), 1);
        stored.iter().map(|(name, value)| (name.clone(), value.clone())).next().unwrap()
    }
}

fn answer(stream: TcpStream, stored: &Stored) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(command) = command(&mut reader) {
        let number = |i: usize| std::str::from_utf8(&command[i]).unwrap().parse::<u64>().unwrap();
        let reply = match command[0].to_ascii_uppercase().as_slice() {
            b"SETEX" => {
                let value = (number(2), command[3].clone());
                stored.lock().unwrap().insert(command[1].clone(), value);
                b"+OK\r\n".to_vec()
            }
            b"GETRANGE" => {
                let value = stored.lock().unwrap().get(&command[1]).cloned().unwrap_or_default().1;
                let end = value.len().min(number(3) as usize + 1);
                [format!("${end}\r\n").as_bytes(), &value[..end], b"\r\n"].concat()
            }
            _ => b"+OK\r\n".to_vec(),
        };
        if writer.write_all(&reply).is_err() {
            return;
        }
    }
}

/// The words of the next command; `None` at the end.
fn command(reader: &mut BufReader<TcpStream>) -> Option<Vec<Vec<u8>>> {
    let mut count = |sign: char| {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&bytes| bytes > 0)?;
        let count = line.trim_end().strip_prefix(sign).unwrap().parse::<usize>().unwrap();
        let mut word = vec![0; if sign == '$' { count + 2 } else { 0 }];
        reader.read_exact(&mut word).ok()?;
        word.truncate(count);
        Some((count, word))
    };
    let (words, _) = count('*')?;
    (0..words).map(|_| count('$').map(|(_, word)| word)).collect()
}

fn replica(redis: SocketAddr, keys: KeyOptions) -> Running {
    let url = format!("redis://{redis}");
    let config = ServerConfig { keys, redis: Some(url.into()), ..ServerConfig::default() };
    let engine = Arc::new(Engine::new(8, key_registry(&config).unwrap()).unwrap());
    engine.publish(database(no_hook()));
    serve_engine(&engine, Limits::default())
}

fn lookups(server: &Running, place: &str) -> f64 {
    server.metric(&format!("spirea_key_lookups_total{{place=\"{place}\"}}")).unwrap()
}

#[test]
fn keys_that_are_registered_at_one_replica_are_known_at_the_others() {
    let (redis, folder) = (Redis::start(), tempdir().unwrap());
    let on_disk = KeyOptions { folder: Some(folder.path().into()), ..KeyOptions::default() };
    let expiry = Duration::from_secs(77 * 60);
    let one = replica(redis.address, KeyOptions { expiry, ..KeyOptions::default() });
    let other = replica(redis.address, on_disk.clone());
    let keys = upload(3);
    unknown(&ask(&other, hash(&keys)));
    assert_eq!(one.post(KEYS, &keys.encode()).status, 200);
    let (_, (seconds, bytes)) = redis.only();
    assert_eq!((seconds, &bytes[..]), (expiry.as_secs(), &keys.keys[..]));
    for _ in 0..2 {
        assert_eq!(first(ask(&other, hash(&keys))), 3);
    }
    assert_eq!(["unknown", "shared", "memory"].map(|place| lookups(&other, place)), [1.0; 3]);
    // They are its own from then on.
    redis.stored.lock().unwrap().clear();
    drop(other);
    let other = replica(redis.address, on_disk);
    assert_eq!((first(ask(&other, hash(&keys))), lookups(&other, "disk")), (3, 1.0));
}

#[test]
fn shared_bytes_that_are_no_keys_of_the_client_are_not_used() {
    let redis = Redis::start();
    let [one, other] = [(); 2].map(|()| replica(redis.address, KeyOptions::default()));
    let keys = upload(3);
    assert_eq!(one.post(KEYS, &keys.encode()).status, 200);
    let (name, (_, right)) = redis.only();
    let damages: [fn(&mut Vec<u8>); 4] =
        [|bytes| bytes[9] ^= 1, |bytes| bytes.truncate(50), |bytes| bytes.push(0), Vec::clear];
    for damage in damages {
        let mut bytes = right.clone();
        damage(&mut bytes);
        redis.stored.lock().unwrap().insert(name.clone(), (1, bytes));
        unknown(&ask(&other, hash(&keys)));
    }
    redis.stored.lock().unwrap().insert(name, (1, right));
    assert_eq!(first(ask(&other, hash(&keys))), 3);
}

#[test]
fn a_redis_that_fails_is_no_error_to_clients() {
    // Nobody listens; and somebody listens and never says a word.
    let started = Instant::now();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for redis in [nobody, silent.local_addr().unwrap()] {
        let server = replica(redis, KeyOptions::default());
        unknown(&ask(&server, [9; 32]));
        assert_eq!(server.post(KEYS, &upload(1).encode()).status, 200);
        assert_eq!(first(ask(&server, hash(&upload(1)))), 1);
    }
    // It is left alone for a while, which a machine that stands still may let pass.
    silent.set_nonblocking(true).unwrap();
    let asked = std::iter::from_fn(|| silent.accept().ok()).count();
    assert!(asked == 1 || started.elapsed() > Duration::from_secs(5), "{asked}");
}

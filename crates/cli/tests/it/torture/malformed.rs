//! Malformed requests at all endpoints of both ports, and very slow clients, beside clients that
//! must be answered.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use spirea_client::{ClientOptions, HttpClient};
use tempfile::tempdir;

use crate::torture::mutate::{Port, Sent, WellFormed, corpus, malformed, right};
use crate::torture::scale::{Dice, Scale};
use crate::torture::service::{Http, Service, serve};
use crate::torture::slow::crawl;
use crate::torture::table::{ROWS, archive, edition_of, editions, key, options, repository, snapshot};

/// A database that receives publications, and a database that never changes and needs keys.
const NAMES: [&str; 2] = ["table", "keyed"];
const THREADS: usize = 4;
/// Far longer than an answer takes.
const PATIENCE: Duration = Duration::from_secs(60);
const KEYS_MEMORY: &str = "8MiB";
/// Additional memory that the allocator may keep, in KiB.
const ROOM_KIB: u64 = 16 << 10;

fn address(url: &str) -> &str {
    url.strip_prefix("http://").unwrap()
}

/// Sends bytes, and returns the status of the response, if there is one.
fn send(service: &Service, port: Port, sent: &Sent) -> Option<u16> {
    let url = if port == Port::Data { &service.url } else { &service.admin };
    let mut stream = TcpStream::connect(address(url)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A server that refuses early does not read the whole request.
    let _ = stream.write_all(&sent.bytes);
    if !sent.answered {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut head = [0; 12];
    match stream.read_exact(&mut head) {
        Ok(()) => {
            let mut rest = Vec::new();
            // The reading ends when the server has sent everything, or when the server resets the
            // connection because it did not read the whole request.
            let _ = stream.read_to_end(&mut rest);
            let text = std::str::from_utf8(&head).ok()?.strip_prefix("HTTP/1.")?.get(2..)?;
            Some(text.parse().unwrap())
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            panic!(
                "the server is silent: {:?}",
                String::from_utf8_lossy(&sent.bytes[..sent.bytes.len().min(300)])
            )
        }
        Err(_) => None,
    }
}

/// Sends `count` malformed requests; returns the number of responses with each status.
fn storm(
    service: &Service,
    right: &[WellFormed],
    corpus: &[Vec<u8>],
    count: usize,
    part: u64,
) -> BTreeMap<u16, usize> {
    let mut statuses = BTreeMap::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut dice = Dice::new(part + thread as u64);
                    let one = |_| {
                        let (port, sent) = malformed(right, corpus, &mut dice);
                        let status = send(service, port, &sent);
                        let shown = String::from_utf8_lossy(&sent.bytes[..sent.bytes.len().min(300)]);
                        assert!(status.is_some() || !sent.answered, "no answer to {shown:?}");
                        let failed = status.is_some_and(|status| status >= 500 && status != 503);
                        assert!(!failed, "status {status:?} for {shown:?}");
                        status.unwrap_or(0)
                    };
                    (0..count / THREADS).map(one).collect::<Vec<u16>>()
                })
            })
            .collect();
        for status in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
            *statuses.entry(status).or_default() += 1;
        }
    });
    statuses
}

/// Returns the 99th percentile of the times of `count` look-ups. Each must be answered rightly.
pub fn p99(url: &str, options: ClientOptions, count: usize) -> Duration {
    let mut client = HttpClient::connect_with(&[url], NAMES[0], options).unwrap();
    let mut times: Vec<Duration> = (0..count)
        .map(|i| {
            let (row, started) = (i % ROWS, Instant::now());
            let values = client.get_keys(&[key(row).as_bytes()]).unwrap();
            assert_eq!(edition_of(row, values[0].as_ref()), 1);
            started.elapsed()
        })
        .collect();
    times.sort();
    times[(count * 99).div_ceil(100) - 1]
}

#[test]
fn nonsense_is_refused_and_slow_clients_are_borne() {
    let scale = Scale::chosen();
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let first = snapshot(folder, NAMES[0], "simple", 1);
    let upload = archive(&first);
    let second = snapshot(folder, NAMES[1], "exppack-simple", 1);
    let paths = [repository(folder, &first), repository(folder, &second)];
    // The server cannot tell random keys from those of clients, so it keeps them, up to a bound
    // that is soon reached.
    let folders = [paths[0].as_path(), paths[1].as_path()];
    let service = Service::started(serve(&folders, &["--keys-memory", KEYS_MEMORY]), &folder.join("log"));
    let http = Http::new();
    let right = right(&service, &http, NAMES, &upload);

    let alone = p99(&service.url, options(&folder.join("cache")), scale.beside);
    let query = right.iter().find(|request| request.is_query()).expect("there is a query");
    let query = query.bytes(query.length());
    let (stop, stopped) = mpsc::channel();
    let beside = thread::scope(|scope| {
        let (service, query) = (&service, &query);
        scope.spawn(move || crawl(address(&service.url), query, scale.slow, &stopped));
        let beside = p99(&service.url, options(&folder.join("cache")), scale.beside);
        drop(stop);
        beside
    });
    println!(
        "p99 of {} look-ups: {alone:?}; beside {} slow and as many half-open connections: {beside:?}",
        scale.beside, scale.slow
    );

    let mut bodies = Vec::new();
    corpus(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors"), &mut bodies);
    // Working memory grows to the need of the largest batch, so a largest batch is sent first.
    for name in NAMES {
        assert_eq!(editions(&service.url, name, &folder.join("cache")).unwrap(), vec![1; ROWS]);
    }
    let warm = scale.malformed / 5;
    storm(&service, &right, &bodies, warm, 400);
    let before = service.memory_kib();
    let statuses = storm(&service, &right, &bodies, scale.malformed - warm, 500);
    let after = service.memory_kib();
    println!("{} malformed requests: statuses {statuses:?} (0: none)", scale.malformed - warm);
    println!("memory: {before} KiB after {warm} of them, {after} KiB after all");
    assert!(service.runs());
    assert!(after <= before + before / 20 + ROOM_KIB, "{before} KiB became {after} KiB");
    service.ready().unwrap();
    assert_eq!(editions(&service.url, NAMES[1], &folder.join("cache")).unwrap(), vec![1; ROWS]);
}

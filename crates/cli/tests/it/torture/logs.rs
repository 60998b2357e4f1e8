//! A log that cannot be written: a full disk, a pipe whose reader has gone, a pipe that nobody
//! reads.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::tempdir;

use crate::torture::service::{Http, Service, serve};
use crate::torture::table::{ROWS, changes, editions, repository, snapshot};

const NAME: &str = "table";
/// Number of requests whose log lines exceed a pipe's capacity, 64 KiB by default.
const REQUESTS: usize = 2000;
/// Number of requests whose methods have [`METHOD_BYTES`] bytes. If the server kept all methods,
/// they would take 80 MB.
const LONG_REQUESTS: usize = 200;
const METHOD_BYTES: usize = 400_000;
/// Memory that the lines in a queue and the allocator may take, in KiB.
const ROOM_KIB: u64 = 48 << 10;
/// Far longer than a server without requests takes to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Destination of a server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    FullDisk,
    ReaderGone,
    NobodyReads,
}

#[test]
fn a_log_that_cannot_be_written_harms_nothing() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let first = snapshot(folder, NAME, "simple", 1);
    for sink in [Sink::FullDisk, Sink::ReaderGone, Sink::NobodyReads] {
        let base = folder.join(format!("{sink:?}"));
        std::fs::create_dir(&base).unwrap();
        let path = repository(&base, &first);
        let (reader, writer) = std::io::pipe().unwrap();
        let (stderr, reader) = match sink {
            Sink::FullDisk => (OpenOptions::new().write(true).open("/dev/full").unwrap().into(), None),
            Sink::ReaderGone => {
                drop(reader);
                (Stdio::from(writer), None)
            }
            Sink::NobodyReads => (Stdio::from(writer), Some(reader)),
        };
        let service = Service::start_with(serve(&[&path], &[]), stderr).unwrap();
        service.ready().unwrap();
        let http = Http::new();
        let before = service.memory_kib();
        for _ in 0..LONG_REQUESTS {
            send_long_method(service.url.strip_prefix("http://").unwrap());
        }
        for _ in 0..REQUESTS {
            assert_eq!(http.get(&format!("{}/v1/databases", service.url)).unwrap().status, 200, "{sink:?}");
        }
        let after = service.memory_kib();
        assert!(after <= before + ROOM_KIB, "{sink:?}: {before} KiB became {after} KiB");
        service.published(&http, NAME, "changes", &changes([3], 2));
        let mut expected = vec![1; ROWS];
        expected[3] = 2;
        assert_eq!(editions(&service.url, NAME, &base.join("cache")).unwrap(), expected, "{sink:?}");
        assert_eq!(http.get(&format!("{}/healthz", service.admin)).unwrap().status, 200, "{sink:?}");
        if sink != Sink::NobodyReads {
            let metrics = http.get(&format!("{}/metrics", service.url)).unwrap().body;
            let metrics = String::from_utf8(metrics.to_vec()).unwrap();
            let lost = metrics
                .lines()
                .find_map(|line| line.strip_prefix("spirea_log_lines_lost_total{cause=\"failed\"} "));
            assert!(lost.unwrap().parse::<f64>().unwrap() >= REQUESTS as f64 / 2.0, "{sink:?}: {lost:?}");
        }
        let asked = Instant::now();
        let status = Command::new("kill").arg(service.id().to_string()).status().unwrap();
        assert!(status.success());
        assert_eq!(service.ended(PATIENCE), Some(0), "{sink:?}: SIGTERM ends it");
        println!(
            "{sink:?}: {REQUESTS} requests, {LONG_REQUESTS} with a long method, and a publication; memory \
             {before} KiB before the requests, {after} KiB after them; ended {:?} after SIGTERM",
            asked.elapsed()
        );
        drop(reader);
    }
}

/// Sends a request with a long method, and waits until the server has answered or closed.
fn send_long_method(address: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("{} / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "M".repeat(METHOD_BYTES));
    // The server may close before it has read everything.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.read_to_end(&mut Vec::new());
}

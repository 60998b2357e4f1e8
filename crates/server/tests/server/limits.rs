//! Limits for concurrent requests, and for idle time of connections.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use spirea_server::{Limits, ServerConfig};
use spirea_specimens::{gate, no_hook};
use spirea_wire::Code;
use tempfile::tempdir;

use crate::fixture::{
    PATIENCE, Reply, begin_slowly, dial, dial_from, eventually, read, request, serve_config, serve_urls, urls,
};

const QUERY: &str = "/v1/databases/urls/query";
/// A timeout that is short enough to wait for in these tests.
const SHORT: Duration = Duration::from_secs(1);

fn send(server: &crate::fixture::Running, connection: &str, body: &[u8]) -> TcpStream {
    let mut stream = dial(server.address);
    let length = body.len();
    let head = format!(
        "POST {QUERY} HTTP/1.1\r\nhost: x\r\n{connection}content-type: application/x-protobuf\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    stream
}

#[test]
fn requests_above_the_limit_are_refused_and_a_client_that_goes_frees_its_place() {
    let folder = tempdir().unwrap();
    let (hook, begins, go) = gate();
    let limits = Limits { requests: 2, ..Limits::default() };
    let server = serve_config(&urls(folder.path(), hook), ServerConfig { limits, ..ServerConfig::default() });
    let body = request(&server, 1).encode();
    let close = "connection: close\r\n";
    let mut running = send(&server, close, &body);
    begins.recv().unwrap();
    let waiting = send(&server, close, &body);
    eventually("the queue", || server.metric("spirea_queue_requests") == Some(1.0));
    for reply in [server.post(QUERY, &body), server.get("/v1/databases")] {
        assert_eq!(
            (reply.status, reply.refusal().code, reply.refusal().accepted),
            (429, Code::Overloaded, false)
        );
        assert!(reply.header("retry-after").is_some());
    }
    assert_eq!(server.metric("spirea_refusals_total{code=\"overloaded\"}"), Some(2.0));
    // Probes are answered under any load.
    assert_eq!(server.get("/readyz").status, 200);

    drop(waiting);
    eventually("the place", || server.get("/v1/databases").status == 200);
    go.send(()).unwrap();
    assert_eq!(read(&mut running).status, 200);
}

#[test]
fn idle_connections_are_closed_and_computing_ones_are_not() {
    let folder = tempdir().unwrap();
    let (hook, begins, go) = gate();
    let limits =
        Limits { idle_timeout: SHORT, write_timeout: SHORT, read_timeout: SHORT, ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, hook);
    // A keep-alive connection, which the server closes when it stays idle.
    let mut idle = dial(server.address);
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut busy = send(&server, "", &request(&server, 1).encode());
    begins.recv().unwrap();
    let started = Instant::now();
    assert_eq!(read(&mut idle).status, 200);
    assert!(started.elapsed() < PATIENCE);
    // By now the busy connection has waited longer than any of the timeouts.
    std::thread::sleep(2 * SHORT);
    go.send(()).unwrap();
    let mut head = [0; 12];
    busy.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
}

#[test]
fn a_client_that_takes_nothing_of_its_responses_is_cut_off() {
    let folder = tempdir().unwrap();
    let limits = Limits { write_timeout: SHORT, ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, no_hook());
    let hint = server.get("/v1/databases/urls/hint").body.len();
    // Together the responses are far longer than the system's buffers.
    let count = (64 << 20) / hint + 1;
    let mut stream = dial(server.address);
    let get = "GET /v1/databases/urls/hint HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(get.repeat(count).as_bytes()).unwrap();
    eventually("the connection", || server.metric("spirea_connections") >= Some(2.0));
    eventually("the client is cut off", || server.metric("spirea_connections") == Some(1.0));
    // The bytes sent before the cut-off arrive, and nothing else.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < count * hint);
    assert_eq!(Reply::parse(&rest).status, 200);
    server.assert_serving();
}

/// Address of another client.
const ELSEWHERE: [u8; 4] = [127, 0, 0, 2];
const PROBE: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

/// Returns the lifetime of a connection on which these bytes are sent, one every tenth of a second.
fn lifetime(server: &crate::fixture::Running, dripped: &[u8]) -> Duration {
    let (mut stream, started) = (dial(server.address), Instant::now());
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut bytes = dripped.iter();
    loop {
        assert!(started.elapsed() < PATIENCE, "the connection is still open");
        if let Some(byte) = bytes.next()
            && stream.write_all(&[*byte]).is_err()
        {
            return started.elapsed();
        }
        match stream.read(&mut [0; 512]) {
            Ok(0) => return started.elapsed(),
            Ok(_) => (),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => (),
            Err(_) => return started.elapsed(),
        }
    }
}

#[test]
fn a_first_byte_and_a_whole_head_have_the_time_to_read_and_no_more() {
    let folder = tempdir().unwrap();
    let read_timeout = 6 * SHORT;
    let limits = Limits { read_timeout, idle_timeout: 4 * PATIENCE, ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, no_hook());
    std::thread::scope(|scope| {
        for dripped in [&b""[..], &[b'G'; 1000]] {
            let server = &server;
            scope.spawn(move || {
                let lived = lifetime(server, dripped);
                // An earlier implementation allowed twice the time.
                assert!(lived < 2 * read_timeout, "{} bytes: {lived:?}", dripped.len());
            });
        }
    });
    server.assert_serving();
}

#[test]
fn connections_that_say_nothing_make_room_for_those_that_do() {
    let folder = tempdir().unwrap();
    let read_timeout = Duration::from_secs(600);
    let limits = Limits { connections: 4, read_timeout, ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, no_hook());
    let idle: Vec<_> = (0..4).map(|_| dial(server.address)).collect();
    let started = Instant::now();
    assert_eq!(server.get("/healthz").status, 200);
    // The response comes well before the time that is allowed for a first byte.
    assert!(started.elapsed() < read_timeout / 2, "{:?}", started.elapsed());
    drop(idle);
    server.assert_serving();
}

#[test]
fn an_address_has_a_part_of_the_connections() {
    let folder = tempdir().unwrap();
    let limits = Limits { client_connections: 3, ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, no_hook());
    let held: Vec<_> = (0..3).map(|_| dial(server.address)).collect();
    eventually("the connections", || {
        let mut other = dial_from(ELSEWHERE, server.address);
        other.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        read(&mut other).text().contains("\nspirea_connections 4\n")
    });
    let mut more = dial(server.address);
    // The server may close the connection before or during the write.
    let _ = more.write_all(PROBE);
    assert!(matches!(more.read(&mut [0; 12]), Ok(0) | Err(_)), "a fourth connection is closed");
    let mut other = dial_from(ELSEWHERE, server.address);
    other.write_all(PROBE).unwrap();
    assert_eq!(read(&mut other).status, 200);
    drop(held);
    eventually("a place", || {
        let mut stream = dial(server.address);
        let mut head = [0; 12];
        stream.write_all(PROBE).is_ok() && stream.read_exact(&mut head).is_ok()
    });
    assert!(server.metric("spirea_connections_turned_away_total") >= Some(1.0));
}

#[test]
fn slow_bodies_of_one_client_leave_others_their_places() {
    let folder = tempdir().unwrap();
    let limits = Limits { requests: 4, client_requests: 2, ..Limits::default() };
    let server =
        serve_config(&urls(folder.path(), no_hook()), ServerConfig { limits, ..ServerConfig::default() });
    let body = request(&server, 1).encode();
    let headers = format!("content-type: application/x-protobuf\r\ncontent-length: {}\r\n", body.len());
    let slow = [(); 2].map(|()| {
        let mut stream = begin_slowly(server.address, QUERY, &headers);
        stream.write_all(&body[..10]).unwrap();
        stream
    });
    assert_eq!(server.get("/v1/databases").status, 429);
    let mut other = dial_from(ELSEWHERE, server.address);
    other.write_all(b"GET /v1/databases HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(read(&mut other).status, 200);
    drop(slow);
    eventually("its places again", || server.get("/v1/databases").status == 200);
}

#[test]
fn a_head_without_end_takes_little_memory() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let mut stream = dial(server.address);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n").unwrap();
    let field = format!("x: {}\r\n", "y".repeat((8 << 10) - 5));
    // 96 KiB, then the end of the head.
    let _ =
        (0..12).try_for_each(|_| stream.write_all(field.as_bytes())).and_then(|()| stream.write_all(b"\r\n"));
    let mut said = [0; 12];
    let refused = stream.read_exact(&mut said).is_err() || &said == b"HTTP/1.1 431";
    assert!(refused, "{}", String::from_utf8_lossy(&said));
    server.assert_serving();
}

//! Misbehaving clients, failing batches, and a full queue.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spirea_server::Limits;
use spirea_specimens::snapshots::key;
use spirea_specimens::{gate, no_hook};
use spirea_wire::Code;
use tempfile::tempdir;

use crate::fixture::{
    PATIENCE, Running, begin_slowly, config, connect, dial, eventually, read, request, serve_urls,
};

const QUERY: &str = "/v1/databases/urls/query";

fn head(length: usize) -> String {
    format!(
        "POST {QUERY} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/x-protobuf\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// A timeout that is short enough to wait for in these tests, but longer than a thread with data to
/// send waits to be scheduled.
const SHORT: Duration = Duration::from_secs(2);

#[test]
fn a_slow_body_gets_408_and_others_are_served_meanwhile() {
    let folder = tempdir().unwrap();
    let limits = Limits { read_timeout: SHORT, idle_timeout: SHORT, ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, no_hook());
    let body = request(&server, 2).encode();
    let mut stalled = dial(server.address);
    stalled.write_all(head(body.len()).as_bytes()).unwrap();
    stalled.write_all(&body[..body.len() / 2]).unwrap();
    server.assert_serving();
    let reply = read(&mut stalled);
    assert_eq!((reply.status, reply.refusal().code, reply.refusal().accepted), (408, Code::SlowBody, false));

    // Headers that never end, and a connection that stays silent.
    for beginning in [&b"POST /v1"[..], b""] {
        let mut stalled = dial(server.address);
        stalled.write_all(beginning).unwrap();
        let started = Instant::now();
        let mut rest = Vec::new();
        // The server may answer 408 or just close the connection.
        let _ = stalled.read_to_end(&mut rest);
        assert!(started.elapsed() < PATIENCE);
    }
    server.assert_serving();
}

#[test]
fn a_trickle_is_not_waited_for_forever() {
    let folder = tempdir().unwrap();
    let limits = Limits { read_timeout: SHORT, ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, no_hook());
    let mut stream = dial(server.address);
    stream.write_all(head(1000).as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let started = Instant::now();
    let mut first = [0; 12];
    // A byte every tenth of a second: never a pause, but below the minimum rate.
    loop {
        let _ = stream.write_all(b"x");
        match stream.read(&mut first) {
            Ok(count) => break assert_eq!(&first[..count], b"HTTP/1.1 408"),
            Err(_) => assert!(started.elapsed() < PATIENCE),
        }
    }
}

#[test]
fn clients_that_vanish_in_the_middle_of_a_body_leave_nothing_behind() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let body = request(&server, 2).encode();
    for cut in [0, 1, 40, body.len() / 2, body.len() - 1] {
        let mut stream = dial(server.address);
        stream.write_all(head(body.len()).as_bytes()).unwrap();
        stream.write_all(&body[..cut]).unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
    }
    eventually("requests stay open", || server.metric("spirea_in_flight_requests") == Some(1.0));
    server.assert_serving();
}

#[test]
fn a_full_queue_gets_429_and_clients_that_gave_up_free_their_places() {
    let folder = tempdir().unwrap();
    let (hook, begins, go) = gate();
    let server = serve_urls(folder.path(), Limits::default(), 2, hook);
    let body = request(&server, 1).encode();
    let send = || {
        let mut stream = dial(server.address);
        stream.write_all(&[head(body.len()).as_bytes(), &body].concat()).unwrap();
        stream
    };
    let waiting = |count: f64| {
        eventually("the queue", || server.metric("spirea_queue_requests") == Some(count));
    };
    let mut running = send();
    begins.recv().unwrap();
    let mut patient = send();
    waiting(1.0);
    let impatient = send();
    waiting(2.0);
    let reply = server.post(QUERY, &body);
    assert_eq!(
        (reply.status, reply.refusal().code, reply.refusal().accepted),
        (429, Code::Overloaded, false)
    );
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));

    drop(impatient);
    waiting(1.0);
    let mut late = send();
    waiting(2.0);
    for _ in 0..2 {
        go.send(()).unwrap();
    }
    for stream in [&mut running, &mut patient, &mut late] {
        assert_eq!(read(stream).status, 200);
    }
    // The waiting requests were computed together, without the cancelled one.
    assert_eq!(begins.try_iter().count(), 1);
    assert_eq!(server.metric("spirea_batch_queries_sum{database=\"urls\"}"), Some(3.0));
}

#[test]
fn memory_for_bodies_is_bounded() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits { body_memory: 1, ..Limits::default() }, 8, no_hook());
    let body = request(&server, 1).encode();
    let mut first = dial(server.address);
    first.write_all(&[head(body.len()).as_bytes(), &body[..10]].concat()).unwrap();
    // The first body exceeds the budget, so it takes the whole budget.
    eventually("the first body", || server.metric("spirea_body_memory_bytes") == Some(1024.0));
    let reply = server.post(QUERY, &body);
    assert_eq!((reply.status, reply.refusal().code), (429, Code::Overloaded));
    assert!(reply.header("retry-after").is_some());
    first.write_all(&body[10..]).unwrap();
    assert_eq!(read(&mut first).status, 200);
    assert_eq!(server.metric("spirea_body_memory_bytes"), Some(0.0));
    assert_eq!(server.post(QUERY, &body).status, 200);
}

#[test]
fn a_refusal_reaches_a_client_that_is_still_sending() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    // The body is far longer than the system's buffers, so the client is still sending when the
    // refusal comes.
    let body = vec![0; 24 << 20];
    for _ in 0..3 {
        let reply = server.post("/v1/databases/other/query", &body);
        assert_eq!((reply.status, reply.refusal().code), (404, Code::UnknownDatabase));
    }
    let reply = server.post_with(QUERY, "", &body);
    assert_eq!((reply.status, reply.refusal().code), (415, Code::WrongContentType));
    // A path that this port does not have.
    let reply = server.post("/v1/admin/databases/urls/snapshot", &body);
    assert_eq!((reply.status, reply.refusal().code), (404, Code::NoSuchEndpoint));
}

#[test]
fn a_refusal_reaches_a_client_that_waited_for_consent() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let headers =
        "connection: close\r\ncontent-type: application/x-protobuf\r\ntransfer-encoding: chunked\r\n";
    let mut stream = begin_slowly(server.address, QUERY, headers);
    // The server refuses while the client still sends the body that the server has asked for.
    let chunk = [b"100000\r\n".to_vec(), vec![0; 1 << 20], b"\r\n".to_vec()].concat();
    for _ in 0..24 {
        stream.write_all(&chunk).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let reply = read(&mut stream);
    assert_eq!((reply.status, reply.refusal().code), (413, Code::TooLarge));
}

#[test]
fn a_panic_gets_500_and_the_next_query_is_answered() {
    let folder = tempdir().unwrap();
    let batches = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&batches);
    let hook = move || {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            panic!("a defect in a backend");
        }
    };
    let server = serve_urls(folder.path(), Limits::default(), 8, Box::new(hook));
    let reply = server.post(QUERY, &request(&server, 1).encode());
    assert_eq!((reply.status, reply.refusal().code, reply.refusal().accepted), (500, Code::Internal, true));
    assert!(!String::from_utf8_lossy(&reply.body).contains("defect in a backend"));
    server.assert_serving();
}

#[test]
fn a_thousand_random_bodies_do_no_harm() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let good = request(&server, 2).encode();
    let mut random = spirea_math::random::SecretRng::deterministic_for_tests(1);
    let mut below = move |bound: usize| (random.next_u64() % bound as u64) as usize;
    let mut answered = 0;
    for case in 0..1000 {
        let mut body = good.clone();
        match case % 4 {
            // Noise of any length.
            0 => body = (0..below(300)).map(|_| below(256) as u8).collect(),
            // Truncated anywhere.
            1 => body.truncate(below(good.len())),
            // A few bytes of the envelope changed.
            2 => (0..1 + below(4)).for_each(|_| body[below(42)] = below(256) as u8),
            // A piece duplicated or moved.
            _ => {
                let (from, to) = (below(good.len()), below(good.len()));
                let piece = body[from..(from + below(200)).min(good.len())].to_vec();
                body.splice(to..to, piece);
            }
        }
        let reply = server.post(QUERY, &body);
        match reply.status {
            200 => answered += 1,
            400 | 409 | 413 => assert!(!reply.refusal().accepted),
            status => panic!("{status} for case {case}"),
        }
    }
    assert!(answered < 200, "{answered} of 1000 random bodies were taken for queries");
    server.assert_serving();
}

#[test]
fn stopping_finishes_what_was_accepted() {
    let folder = tempdir().unwrap();
    let (hook, begins, go) = gate();
    let mut server = serve_urls(folder.path(), Limits::default(), 8, hook);
    let body = request(&server, 1).encode();
    let mut stream = dial(server.address);
    // A keep-alive connection, which the server must close itself.
    let head = head(body.len()).replace("connection: close\r\n", "");
    stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    begins.recv().unwrap();
    let idle = dial(server.address);
    server.stopper.stop();
    eventually("the port stays open", || std::net::TcpStream::connect(server.address).is_err());
    go.send(()).unwrap();
    assert_eq!(read(&mut stream).status, 200);
    server.wait();
    drop(idle);
}

#[test]
fn stopping_does_not_wait_longer_than_the_drain_timeout() {
    let folder = tempdir().unwrap();
    let (hook, begins, go) = gate();
    let limits = Limits { drain_timeout: Duration::from_millis(200), ..Limits::default() };
    let mut server = serve_urls(folder.path(), limits, 8, hook);
    let body = request(&server, 1).encode();
    let mut stream = dial(server.address);
    stream.write_all(&[head(body.len()).as_bytes(), &body].concat()).unwrap();
    begins.recv().unwrap();
    let started = Instant::now();
    server.stopper.stop();
    server.wait();
    assert!(started.elapsed() < PATIENCE);
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    assert!(response.is_empty());
    go.send(()).unwrap();
}

#[test]
fn many_clients_at_once_get_their_own_values() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 64, no_hook());
    let (url, cache) = (server.url(), folder.path().join("cache"));
    assert_eq!(config(&server).name, "urls");
    thread::scope(|scope| {
        for worker in 0..8u64 {
            let (url, cache) = (&url, &cache);
            scope.spawn(move || {
                let mut client = connect(url, "urls", cache).unwrap();
                for row in (worker * 30)..(worker * 30 + 10) {
                    let values = client.get_keys(&[&key(row)]).unwrap();
                    assert_eq!(
                        crate::fixture::texts(values),
                        [Some(spirea_specimens::snapshots::value(row, 1))]
                    );
                }
            });
        }
    });
    assert_running(&server);
}

fn assert_running(server: &Running) {
    assert_eq!(server.metric("spirea_queue_requests"), Some(0.0));
    assert_eq!(server.metric("spirea_answering_requests"), Some(0.0));
}

//! Memory that the server reserves for connections: endless heads, and hints that nobody reads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use spirea_server::{Limits, ServerConfig};
use spirea_specimens::hooked::database;
use spirea_specimens::snapshots::{options, try_build, write_file};
use spirea_specimens::{Hook, gate, no_hook};
use spirea_wire::Code;
use tempfile::tempdir;

use crate::fixture::{
    Reply, Running, dial, dial_from, engine, eventually, read, request, serve_config, serve_engine,
    serve_urls, urls,
};
use crate::stalls::{Stalled, get};
use crate::tls::{Authority, files};

/// Address of an observing client.
const ELSEWHERE: [u8; 4] = [127, 0, 0, 2];
const METRICS: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
/// Reservation of a connection that requests the metrics.
const OWN: u64 = (256 + 256) << 10;

fn reserved(mut stream: impl Read + Write) -> u64 {
    stream.write_all(METRICS).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    let text = Reply::parse(&response).text();
    let line = text.lines().find_map(|line| line.strip_prefix("spirea_connection_memory_bytes "));
    line.unwrap().parse::<u64>().unwrap()
}

/// Returns the bytes reserved for all connections except the observer's.
fn reserved_for_others(server: &Running) -> u64 {
    reserved(dial_from(ELSEWHERE, server.address)) - OWN
}

#[test]
fn heads_without_end_take_no_more_than_a_clients_memory() {
    let folder = tempdir().unwrap();
    let client_connection_memory = 2 << 20;
    let limits = Limits { connection_memory: 4 << 20, client_connection_memory, ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, no_hook());
    let head = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}", "y".repeat(60 << 10));
    let begin = |_| {
        let mut stream = dial(server.address);
        // A closed connection accepts no head.
        let _ = stream.write_all(head.as_bytes());
        stream
    };
    let stalled: Vec<TcpStream> = (0..64).map(begin).collect();
    eventually("all connections are seen", || {
        let taken = reserved_for_others(&server);
        assert!(taken <= client_connection_memory, "{taken}");
        taken == client_connection_memory
    });
    drop(stalled);
    eventually("the memory is given back", || reserved_for_others(&server) == 0);
    assert!(server.metric("spirea_connections_turned_away_total") >= Some(56.0));
    server.assert_serving();
}

#[test]
fn connections_above_all_memory_wait_and_those_without_a_request_make_room() {
    let folder = tempdir().unwrap();
    let limits = Limits { connection_memory: 1 << 20, ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, no_hook());
    let idle: Vec<_> = (0..4).map(|_| dial(server.address)).collect();
    // A connection may get a place while its request is still refused, until more of the others are
    // closed.
    eventually("room", || server.get("/healthz").status == 200);
    drop(idle);
    server.assert_serving();
}

#[test]
fn a_request_above_a_clients_memory_is_refused() {
    let folder = tempdir().unwrap();
    let limits = Limits { client_connection_memory: 300 << 10, ..Limits::default() };
    let server = serve_urls(folder.path(), limits, 8, no_hook());
    let reply = server.get("/v1/databases");
    assert_eq!(
        (reply.status, reply.refusal().code, reply.refusal().accepted),
        (429, Code::Overloaded, false)
    );
    assert!(reply.header("retry-after").is_some());
}

const QUERY: &str = "/v1/databases/urls/query";

/// Starts a server of a table whose answers are longer than a request's own reservation. Each
/// client may have one answer at a time. Also returns the bytes of a request.
fn serve_long_answers(folder: &Path, hook: Hook) -> (Running, Vec<u8>) {
    let value = "v".repeat(700 << 10);
    let input = write_file(folder, "table.csv", format!("k,v\na,{value}\nb,{value}\n"));
    let mut built = options(&input, Some("k"), &["v"]);
    built.out = folder.join("urls");
    try_build(&built).unwrap();
    let engine = engine(8);
    engine.publish(database(&built.out, hook));
    let answer_bytes = engine.version("urls", None).unwrap().base().sizes().answer_bytes as u64;
    assert!(answer_bytes > 512 << 10, "{answer_bytes}");
    // There is room for two connections with their requests, and for one and a half answers.
    let client_connection_memory = 2 * OWN + answer_bytes * 3 / 2;
    let server = serve_engine(&engine, Limits { client_connection_memory, ..Limits::default() });
    let body = request(&server, 1).encode();
    (server, body.to_vec())
}

fn send(server: &Running, body: &[u8]) -> TcpStream {
    let mut stream = dial(server.address);
    let head = format!(
        "POST {QUERY} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    stream
}

#[test]
fn an_answer_without_memory_is_refused_before_it_is_computed() {
    let folder = tempdir().unwrap();
    let (hook, begins, go) = gate();
    let (server, body) = serve_long_answers(folder.path(), hook);
    let mut first = send(&server, &body);
    begins.recv().unwrap();
    // The memory of the first answer is taken while it is computed.
    let reply = server.post(QUERY, &body);
    assert_eq!(
        (reply.status, reply.refusal().code, reply.refusal().accepted),
        (429, Code::Overloaded, false)
    );
    assert!(reply.header("retry-after").is_some());
    go.send(()).unwrap();
    let answer = read(&mut first);
    assert_eq!(answer.status, 200);
    eventually("the memory is given back", || reserved_for_others(&server) == 0);
    // The refused request was not computed.
    assert_eq!(server.metric("spirea_batch_queries_sum{database=\"urls\"}"), Some(1.0));
    go.send(()).unwrap();
    assert_eq!(server.post(QUERY, &body).status, 200);
    assert_eq!(begins.try_iter().count(), 1);
}

#[test]
fn memory_for_an_answer_is_given_back_when_its_client_goes() {
    let folder = tempdir().unwrap();
    let (hook, begins, go) = gate();
    let (server, body) = serve_long_answers(folder.path(), hook);
    let client = send(&server, &body);
    begins.recv().unwrap();
    assert!(reserved_for_others(&server) > OWN);
    drop(client);
    eventually("the memory is given back", || reserved_for_others(&server) == 0);
    go.send(()).unwrap();
}

#[test]
fn memory_for_an_answer_is_given_back_when_its_computation_fails() {
    let folder = tempdir().unwrap();
    let (server, body) = serve_long_answers(folder.path(), Box::new(|| panic!("a defect in a backend")));
    assert_eq!(server.post(QUERY, &body).status, 500);
    eventually("the memory is given back", || reserved_for_others(&server) == 0);
}

#[test]
fn hints_that_nobody_takes_hold_no_more_than_a_clients_memory() {
    let folder = tempdir().unwrap();
    let (authority, tls) = (Authority::new(), files(folder.path()));
    authority.issue(&tls, 2100);
    let client_connection_memory = 4 << 20;
    let limits = Limits { connection_memory: 8 << 20, client_connection_memory, ..Limits::default() };
    let config = ServerConfig { limits, tls: Some(tls), ..ServerConfig::default() };
    let server = serve_config(&urls(folder.path(), no_hook()), config);
    let observe = || {
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(authority.client(&[]), name).unwrap();
        reserved(StreamOwned::new(tls, dial_from(ELSEWHERE, server.address))) - OWN
    };
    let mut client = Stalled::new(&authority, &server);
    for stream in 1..60 {
        client.send(&get(2 * stream + 1, "/v1/databases/urls/hint"));
    }
    eventually("the hints begin", || {
        let taken = observe();
        assert!(taken <= client_connection_memory, "{taken}");
        // A further hint would need 256 KiB.
        taken > client_connection_memory - (256 << 10)
    });
    drop(client);
    eventually("the memory is given back", || observe() == 0);
}

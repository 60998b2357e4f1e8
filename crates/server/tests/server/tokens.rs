//! Tokens: scopes, quotas, and concurrency.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use spirea_client::{ClientError, ClientOptions, HttpClient};
use spirea_engine::Engine;
use spirea_protocols::Version;
use spirea_server::{Secret, ServeError, Server, ServerConfig};
use spirea_specimens::snapshots::{key, value};
use spirea_specimens::{gate, no_hook};
use spirea_wire::{Code, Queries};
use tempfile::tempdir;

use crate::fixture::{Running, config, dial, eventually, options, read, serve_config, texts, urls};
use crate::proxy::Proxy;

const QUERY: &str = "/v1/databases/urls/query";

/// Writes a file of tokens. Each token is given by its name, its secret, and its further lines.
pub fn write(path: &Path, tokens: &[(&str, &Secret, &str)]) {
    let entry = |(name, token, rest): &(&str, &Secret, &str)| {
        format!("[[token]]\nname = \"{name}\"\nblake3 = \"{}\"\n{rest}\n", token.hash().to_hex())
    };
    std::fs::write(path, tokens.iter().map(entry).collect::<String>()).unwrap();
}

fn serve(engine: &Arc<Engine>, file: &Path) -> Running {
    serve_config(engine, ServerConfig { tokens: Some(file.into()), ..ServerConfig::default() })
}

pub fn bearer(token: &Secret) -> String {
    format!("authorization: Bearer {}\r\n", token.expose())
}

pub fn secret() -> Secret {
    Secret::new().unwrap()
}

/// Returns a request with one query to `urls`, for a caller that may read the configuration.
fn body(server: &Running, token: &Secret) -> spirea_wire::Request {
    let reply = server.get_with("/v1/databases/urls/config", &bearer(token));
    let config = spirea_wire::Config::decode(reply.body.into()).unwrap();
    let queries = vec![vec![0xab; config.base.lengths.query_bytes].into()];
    spirea_wire::Request { version: config.version, base: Queries { keys: None, queries }, delta: None }
}

fn post(server: &Running, token: &Secret, id: &str, body: &[u8]) -> crate::fixture::Reply {
    let id = if id.is_empty() { String::new() } else { format!("spirea-request-id: {id}\r\n") };
    server.post_with(QUERY, &format!("{}{id}content-type: application/x-protobuf\r\n", bearer(token)), body)
}

#[test]
fn each_endpoint_wants_its_scope_and_probes_want_none() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let (query, publish, admin, unknown) = (secret(), secret(), secret(), secret());
    write(
        &file,
        &[
            ("phones", &query, "scopes = [\"query\"]"),
            ("builder", &publish, "scopes = [\"publish\"]"),
            ("operator", &admin, "scopes = [\"admin\"]"),
        ],
    );
    let server = serve(&urls(folder.path(), no_hook()), &file);
    for path in ["/healthz", "/livez", "/readyz", "/metrics"] {
        assert_eq!((server.get(path).status, server.get_admin(path, "").status), (200, 200), "{path}");
    }
    let data = |headers: &str| {
        let gets = ["/v1/databases", "/v1/databases/urls/config", "/v1/databases/urls/hint"];
        let mut statuses: Vec<u16> = gets.iter().map(|path| server.get_with(path, headers).status).collect();
        for path in ["/v1/databases/urls/query", "/v1/databases/urls/keys"] {
            let headers = format!("{headers}content-type: application/x-protobuf\r\n");
            statuses.push(server.post_with(path, &headers, b"").status);
        }
        statuses
    };
    let operators = |headers: &str| {
        ["/v1/admin/databases", "/v1/admin/status"].map(|path| server.get_admin(path, headers).status)
    };
    // Admitted: the empty query is malformed, and the database needs no keys.
    assert_eq!(data(&bearer(&query)), [200, 200, 200, 400, 404]);
    assert_eq!(operators(&bearer(&admin)), [200; 2]);
    for token in [&publish, &admin] {
        assert_eq!(data(&bearer(token)), [403; 5]);
    }
    for token in [&publish, &query] {
        assert_eq!(operators(&bearer(token)), [403; 2]);
    }
    let plain = query.expose();
    for wrong in [
        String::new(),
        bearer(&unknown),
        "authorization: Bearer \r\n".into(),
        format!("authorization: Basic {plain}\r\n"),
        format!("authorization: Bearer {}\r\n", &plain[..plain.len() - 1]),
        format!("authorization: {plain}\r\n"),
        format!("x-token: {plain}\r\n"),
    ] {
        assert_eq!(data(&wrong), [401; 5], "{wrong}");
        assert_eq!(operators(&wrong), [401; 2], "{wrong}");
    }
    assert_eq!(server.get_with("/v1/databases", &format!("authorization: bearer {plain}\r\n")).status, 200);

    let reply = server.get("/v1/databases");
    assert_eq!(
        (reply.refusal().code, reply.header("www-authenticate")),
        (Code::Unauthenticated, Some("bearer"))
    );
    assert!(reply.refusal().remedy.contains("spirea token new") && !reply.refusal().accepted);
    let reply = server.get_with("/v1/databases", &bearer(&admin));
    assert_eq!(reply.refusal().code, Code::Forbidden);
    assert!(reply.refusal().message.contains("query"));
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("spirea_refusals_total{code=\"forbidden\"}"));
    assert!(!metrics.contains("spirea_token") && !metrics.contains("phones"));
    // A refusal reaches a client that is still sending.
    let reply = server.post_with(QUERY, "content-type: application/x-protobuf\r\n", &vec![0; 24 << 20]);
    assert_eq!((reply.status, reply.refusal().code), (401, Code::Unauthenticated));
}

#[test]
fn a_quota_is_charged_once_for_each_accepted_request() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let (token, other) = (secret(), secret());
    write(
        &file,
        &[("a", &token, "scopes = [\"query\"]\nquota = \"4/day\""), ("b", &other, "scopes = [\"query\"]")],
    );
    let server = serve(&urls(folder.path(), no_hook()), &file);
    let good = body(&server, &token);
    let different = |mark: u8| {
        let mut request = good.clone();
        request.base.queries[0] = vec![mark; request.base.queries[0].len()].into();
        request.encode()
    };
    let (one, two) = ("11".repeat(16), "22".repeat(16));
    // A request that is not accepted costs nothing.
    let stale = spirea_wire::Request { version: Version::new([9; 32]), ..good.clone() }.encode();
    for _ in 0..5 {
        assert_eq!(post(&server, &token, &one, b"malformed").status, 400);
        assert_eq!(post(&server, &token, &one, &stale).status, 409);
    }
    for id in ["1", "zz", &"g".repeat(32), &"1".repeat(33)] {
        let reply = post(&server, &token, id, &different(0));
        assert_eq!((reply.status, reply.refusal().code), (400, Code::Malformed), "{id}");
    }
    // A retry costs nothing either.
    for _ in 0..5 {
        assert_eq!(post(&server, &token, &one, &different(1)).status, 200);
    }
    assert_eq!(post(&server, &token, &two, &different(2)).status, 200);
    // A different request under an old id is charged, and so is every request without an id.
    assert_eq!(post(&server, &token, &one, &different(3)).status, 200);
    assert_eq!(post(&server, &token, "", &different(1)).status, 200);
    let reply = post(&server, &token, "", &different(1));
    assert_eq!(
        (reply.status, reply.refusal().code, reply.refusal().accepted),
        (429, Code::QuotaExceeded, false)
    );
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((80_000..=86_400).contains(&seconds), "{seconds}");
    assert_eq!(post(&server, &token, &two, &different(2)).status, 200, "a retry of what was charged");
    // A request that exceeds a whole period is refused without a Retry-After.
    let mut many = good.clone();
    many.base.queries = vec![many.base.queries[0].clone(); 5];
    let reply = post(&server, &token, "", &many.encode());
    assert_eq!((reply.status, reply.header("retry-after")), (429, None));
    assert_eq!(reply.refusal().code, Code::QuotaExceeded);
    // Each token has its own quota, and requests other than queries are free.
    assert_eq!(post(&server, &other, &one, &different(1)).status, 200);
    assert_eq!(server.get_with("/v1/databases/urls/hint", &bearer(&token)).status, 200);
}

#[test]
fn a_client_with_a_token_is_let_in_and_its_retries_are_free() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let token = secret();
    write(&file, &[("a", &token, "scopes = [\"query\"]\nquota = \"2/day\"")]);
    let server = serve(&urls(folder.path(), no_hook()), &file);
    // The server answers, but its answers are lost on the way.
    let proxy = Proxy::start(server.address, |seen, before, response| {
        let lost = seen.path().ends_with("/query") && before % 3 < 2;
        if lost { Vec::new() } else { response }
    });
    let with = |token: &str| {
        let options = ClientOptions { token: Some(token.into()), ..options(folder.path()) };
        HttpClient::connect_with(&[&proxy.url()], "urls", options)
    };
    let mut client = with(token.expose()).unwrap();
    for row in 0..2 {
        assert_eq!(texts(client.get_keys(&[&key(row)]).unwrap()), [Some(value(row, 1))]);
    }
    assert_eq!(proxy.seen("/query").len(), 6);
    assert!(proxy.seen("").iter().all(|seen| seen.header("authorization").is_some()));
    let error = client.get_keys(&[&key(2)]).unwrap_err();
    assert!(
        matches!(&error, ClientError::Refused { status: 429, refusal } if refusal.code == Code::QuotaExceeded)
    );
    let error = with("spirea_wrong").map(drop).unwrap_err();
    assert!(matches!(&error, ClientError::Refused { status: 401, .. }));
    assert!(!error.to_string().contains("spirea_wrong"));
}

#[test]
fn a_token_is_not_sent_where_others_would_see_it() {
    let options = |replica: &str| ClientOptions {
        token: Some("spirea_secret".into()),
        replicas: vec![vec![replica.into()]],
        attempts: 1,
        ..ClientOptions::default()
    };
    let here = "http://127.0.0.1:9";
    for there in
        ["http://pir.example.org", "http://127.0.0.1:80@pir.example.org/", "http://localhost.example.org"]
    {
        for (first, second) in [(there, here), (here, there)] {
            let error = HttpClient::connect_with(&[first], "urls", options(second)).map(drop).unwrap_err();
            assert!(matches!(error, ClientError::BadOption(_) | ClientError::BadAddress(_)), "{error}");
            assert!(!error.to_string().contains("spirea_secret"));
        }
    }
    let error = HttpClient::connect_with(&["http://[::1]:9"], "urls", options("http://localhost:9"));
    assert!(!matches!(error, Err(ClientError::BadOption(_))));
}

#[test]
fn a_token_has_so_many_requests_at_once_and_a_client_that_goes_frees_its_place() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let (token, other) = (secret(), secret());
    let rest = "scopes = [\"query\"]\nconcurrency = 2";
    write(&file, &[("a", &token, rest), ("b", &other, "scopes = [\"query\"]")]);
    let (hook, begins, go) = gate();
    let server = serve(&urls(folder.path(), hook), &file);
    let request = body(&server, &token).encode();
    let send = || {
        let mut stream = dial(server.address);
        let head = format!(
            "POST {QUERY} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{}content-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
            bearer(&token),
            request.len()
        );
        stream.write_all(&[head.as_bytes(), &request].concat()).unwrap();
        stream
    };
    let mut running = send();
    begins.recv().unwrap();
    let waiting = send();
    eventually("the queue", || server.metric("spirea_queue_requests") == Some(1.0));
    let reply = server.get_with("/v1/databases", &bearer(&token));
    assert_eq!((reply.status, reply.refusal().code), (429, Code::Overloaded));
    assert!(reply.header("retry-after").is_some());
    assert_eq!(server.get_with("/v1/databases", &bearer(&other)).status, 200);
    drop(waiting);
    eventually("the place", || server.get_with("/v1/databases", &bearer(&token)).status == 200);
    go.send(()).unwrap();
    assert_eq!(read(&mut running).status, 200);
    eventually("all places", || server.get_with("/v1/databases", &bearer(&token)).status == 200);
}

#[test]
fn tokens_change_while_the_server_runs_and_a_wrong_file_changes_nothing() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let (old, new) = (secret(), secret());
    write(&file, &[("a", &old, "scopes = [\"query\"]")]);
    let server = serve(&urls(folder.path(), no_hook()), &file);
    let status = |token: &Secret| server.get_with("/v1/databases", &bearer(token)).status;
    assert_eq!((status(&old), status(&new)), (200, 401));
    // The change is noticed without a request to reload.
    write(&file, &[("a", &old, "scopes = [\"query\"]"), ("b", &new, "scopes = [\"query\"]")]);
    eventually("the new token", || status(&new) == 200);
    std::fs::write(&file, "[[token]]\nname = \"a\"").unwrap();
    let kept = "spirea_reloads_total{outcome=\"kept the old\",what=\"tokens\"}";
    eventually("the wrong file", || server.metric(kept) >= Some(1.0));
    assert_eq!((status(&old), status(&new)), (200, 200));
    write(&file, &[("b", &new, "scopes = [\"query\"]")]);
    server.reloader.reload();
    eventually("the revoked token", || status(&old) == 401);
    assert_eq!(status(&new), 200);
}

#[test]
fn a_change_that_comes_before_the_server_serves_is_seen() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let (old, new) = (secret(), secret());
    let with_new = bearer(&new);
    write(&file, &[("a", &old, "scopes = [\"query\"]")]);
    let engine = urls(folder.path(), no_hook());
    let listen = ([127, 0, 0, 1], 0).into();
    let config = ServerConfig { listen, tokens: Some(file.clone()), ..ServerConfig::default() };
    let server = Running::start(async move {
        let server = Server::bind_with(&config, engine).await?;
        write(&file, &[("b", &new, "scopes = [\"query\"]")]);
        Ok(server)
    });
    eventually("the new token", || server.get_with("/v1/databases", &with_new).status == 200);
}

#[test]
fn a_server_without_tokens_is_not_for_other_machines() {
    let folder = tempdir().unwrap();
    let engine = urls(folder.path(), no_hook());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bind = |config: ServerConfig| runtime.block_on(Server::bind_with(&config, Arc::clone(&engine)));
    let here = ([127, 0, 0, 1], 0).into();
    let everywhere = ([0, 0, 0, 0], 0).into();
    for (listen, admin) in [(everywhere, None), (here, Some(everywhere))] {
        let config = ServerConfig { listen, admin_listen: admin, ..ServerConfig::default() };
        let error = bind(config.clone()).map(drop).unwrap_err();
        assert!(
            matches!(&error, ServeError::Setting(_)) && error.to_string().contains("--tokens"),
            "{error}"
        );
        bind(ServerConfig { development: true, ..config }).unwrap();
    }
    // In development everything is open to everyone.
    let server = serve_config(&engine, ServerConfig::default());
    assert_eq!(config(&server).name, "urls");
    assert_eq!(server.get_admin("/v1/admin/status", "").status, 200);
}

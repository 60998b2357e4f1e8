//! The endpoints for Apple's clients: statuses, malformed messages, and admission without the
//! server's tokens. `tests/system/test_apple_service.py` looks numbers up.

use std::path::{Path, PathBuf};

use prost::Message;
use spirea_apple::Set;
use spirea_apple::messages::{
    Config, ConfigRequest, ConfigResponse, EncryptedIndices, EvaluationKeyMetadata, EvaluationKeys,
    PirRequest, Request, Requests, SerializedEvaluationKey, UploadedKey,
};
use spirea_math::random::SecretRng;
use spirea_server::{AppleConfig, ServerConfig};
use spirea_specimens::inputs;
use spirea_specimens::snapshots::{columns, csv_options, try_build};
use spirea_store::{AppleOptions, BuildOptions, Overwrite};
use tempfile::tempdir;

use crate::fixture::{Reply, Running};
use crate::publish::{config, serve_with};
use crate::tokens;

pub const BLOCK: &str = "net.example.block";
pub const CLIENT: &str = "user-identifier: 1\r\nuser-agent: lookup iOS/18.0\r\n";

/// Builds a table of `rows` numbers, which replaces any existing table.
pub fn build(folder: &Path, rows: usize) -> PathBuf {
    let out = folder.join("numbers");
    let lines: String = (0..rows).map(|row| format!("+41446680{row:03},{}\n", row % 2)).collect();
    let selection = columns(Some("number"), &["block"]);
    let options = csv_options(&out, "simple", selection, &format!("number,block\n{lines}"));
    let apple = Some(AppleOptions { bundle: "net.example".into(), set: Set::Logt5, shards: 1 });
    try_build(&BuildOptions { apple, overwrite: Overwrite::Replace, ..options }).unwrap();
    out
}

fn post(server: &Running, path: &str, message: &impl Message) -> Reply {
    server.post_with(path, CLIENT, &message.encode_to_vec())
}

pub fn refused(reply: &Reply, status: u16, cause: &str) {
    assert_eq!(reply.header("content-type"), Some("application/json"), "{reply:?}");
    let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    let message = body["error"]["message"].as_str().unwrap();
    assert!(reply.status == status && message.contains(cause), "{}: {message}", reply.status);
}

fn fetch(server: &Running, request: &ConfigRequest) -> ConfigResponse {
    let reply = post(server, "/config", request);
    assert_eq!(reply.status, 200, "{reply:?}");
    ConfigResponse::decode(&reply.body[..]).unwrap()
}

pub fn query(config: &Config) -> PirRequest {
    PirRequest {
        query: Some(EncryptedIndices::default()),
        configuration_hash: config.config_id.clone(),
        ..PirRequest::default()
    }
}

pub fn asked(usecase: &str, pir_request: Option<PirRequest>) -> Requests {
    Requests { requests: vec![Request { usecase: usecase.into(), pir_request }] }
}

#[test]
fn requests_that_cannot_be_answered_get_the_status_of_their_reason() {
    let folder = tempdir().unwrap();
    let server = serve_with(config(&build(folder.path(), 20)));
    let known = fetch(&server, &ConfigRequest::default());
    let (name, newest) = known.configs.first_key_value().unwrap();
    assert_eq!((name.as_str(), known.key_info[0].timestamp), (BLOCK, 0));

    for headers in ["user-agent: a\r\n", "user-identifier: a\r\n", "user-identifier: \r\nuser-agent: a\r\n"] {
        refused(&server.post_with("/config", headers, b""), 400, "header User-");
    }
    let one = |usecase: &str, ids: &[&[u8]]| ConfigRequest {
        usecases: vec![usecase.into()],
        existing_config_ids: ids.iter().map(|id| id.to_vec().into()).collect(),
    };
    refused(&post(&server, "/config", &one("other", &[])), 404, "no use case \"other\"");
    refused(&post(&server, "/config", &one(BLOCK, &[b"a", b"b"])), 400, "as many");
    let reused = fetch(&server, &one(BLOCK, &[&newest.config_id]));
    assert_eq!(reused.configs[BLOCK], Config { reuse_existing_config: true, ..Config::default() });
    assert_eq!(fetch(&server, &one(BLOCK, &[b"former"])).configs[BLOCK], *newest);

    let queries = |message: Requests| post(&server, "/queries", &message);
    let good = query(newest);
    refused(&queries(asked("other", Some(good.clone()))), 400, "no use case");
    refused(&queries(asked(BLOCK, None)), 501, "not supported");
    let changed = |change: fn(&mut PirRequest)| {
        let mut request = good.clone();
        change(&mut request);
        queries(asked(BLOCK, Some(request)))
    };
    refused(&changed(|request| request.shard_id = Some("a".into())), 501, "not supported");
    refused(&changed(|request| request.configuration_hash = vec![1; 32].into()), 410, "not the current one");
    refused(&changed(|request| request.shard_index = 9), 400, "no shard 9");
    refused(&changed(|request| request.query = None), 400, "no query");
    refused(&changed(|_| ()), 400, "Evaluation key not found");
    assert_eq!(queries(Requests::default()).status, 200);

    let upload = |metadata, evaluation_key| {
        post(&server, "/key", &EvaluationKeys { keys: vec![UploadedKey { metadata, evaluation_key }] })
    };
    let metadata = |identifier: &[u8]| {
        Some(EvaluationKeyMetadata { timestamp: 5, identifier: identifier.to_vec().into() })
    };
    let key = Some(SerializedEvaluationKey::default());
    refused(&upload(None, key.clone()), 400, "lacks");
    refused(&upload(metadata(b"a"), None), 400, "lacks");
    refused(&upload(metadata(b"a"), key.clone()), 400, "no use case asks");
    let pir = newest.pir_config.as_ref().unwrap();
    refused(&upload(metadata(&pir.evaluation_key_config_hash), key), 400, "Galois elements");
    assert_eq!(server.metric("spirea_keys{place=\"apple\"}"), Some(0.0));
}

#[test]
fn bodies_of_any_bytes_and_any_length_are_refused_and_the_server_goes_on() {
    let folder = tempdir().unwrap();
    let server = serve_with(config(&build(folder.path(), 20)));
    let known = fetch(&server, &ConfigRequest::default());
    let good = asked(BLOCK, Some(query(&known.configs[BLOCK]))).encode_to_vec();
    let mut rng = SecretRng::deterministic_for_tests(3);
    for path in ["/config", "/key", "/queries"] {
        for round in 0..inputs(60) {
            let mut body = good.clone();
            body.truncate((rng.next_u64() % good.len() as u64) as usize + 1);
            let at = (rng.next_u64() % body.len() as u64) as usize;
            body[at] ^= (rng.next_u64() % 255 + 1) as u8;
            let reply = server.post_with(path, CLIENT, &body);
            assert!(reply.status < 500 || reply.status == 501, "{path}, {round}: {reply:?}");
        }
        refused(&server.post_with(path, CLIENT, &vec![0; 11 << 20]), 413, "longer");
        assert_eq!(server.get(path).status, 405);
    }
    assert_eq!(fetch(&server, &ConfigRequest::default()), known);
}

#[test]
fn they_need_no_token_and_have_a_quota_of_their_own() {
    let folder = tempdir().unwrap();
    let (file, token) = (folder.path().join("tokens.toml"), tokens::secret());
    tokens::write(&file, &[("client", &token, "scopes = [\"query\"]")]);
    let apple = AppleConfig { quota: Some("2/day".parse().unwrap()), ..AppleConfig::default() };
    let config = config(&build(folder.path(), 20));
    let server = serve_with(ServerConfig { tokens: Some(file), apple, ..config });
    assert_eq!(server.get("/v1/databases").status, 401);
    let known = fetch(&server, &ConfigRequest::default());
    let request = asked(BLOCK, Some(query(&known.configs[BLOCK])));
    for _ in 0..2 {
        refused(&post(&server, "/queries", &request), 400, "Evaluation key not found");
    }
    let reply = post(&server, "/queries", &request);
    refused(&reply, 429, "quota of 2/day");
    assert!(reply.header("retry-after").is_some());
}

#[test]
fn a_server_without_such_tables_knows_no_use_case() {
    let folder = tempdir().unwrap();
    let selection = columns(Some("key"), &["value"]);
    let options = csv_options(&folder.path().join("plain"), "simple", selection, "key,value\na,b\n");
    let server = serve_with(config(try_build(&options).unwrap().folder()));
    assert_eq!(fetch(&server, &ConfigRequest::default()), ConfigResponse::default());
    refused(&post(&server, "/queries", &asked(BLOCK, Some(PirRequest::default()))), 400, "no use case");
}

#[test]
fn a_version_takes_over_and_the_one_before_it_is_kept() {
    let folder = tempdir().unwrap();
    let out = build(folder.path(), 20);
    let server = serve_with(config(&out));
    let newest = || fetch(&server, &ConfigRequest::default()).configs[BLOCK].clone();
    let status = |config: &Config| post(&server, "/queries", &asked(BLOCK, Some(query(config)))).status;
    let mut configs = vec![newest()];
    for rows in [300, 900] {
        build(folder.path(), rows);
        let reply = server.post_admin("/v1/admin/reload", b"");
        assert_eq!(reply.status, 200, "{reply:?}");
        configs.push(newest());
    }
    // With a known configuration, a request fails only because the evaluation key is missing.
    assert_eq!(configs.iter().map(status).collect::<Vec<_>>(), [410, 400, 400]);
}

//! The OHTTP gateway for Apple's clients: where it leads, what it refuses, and which limits hold.
//! `tests/system/test_apple_gateway.py` looks numbers up through it.

use std::io::{Cursor, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bhttp::{Message, Mode};
use hpke::aead::AesGcm128;
use hpke::inout::InOutBuf;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::rand_core::UnwrapErr;
use hpke::{Deserializable as _, Kem, OpModeS, Serializable as _, setup_sender_with_rng};
use prost::Message as _;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use spirea_apple::messages::{ConfigRequest, ConfigResponse};
use spirea_apple::ohttp::GatewayKey;
use spirea_math::random::SecretRng;
use spirea_server::{AppleConfig, Limits, ServerConfig};
use spirea_specimens::inputs;
use tempfile::tempdir;

use crate::apple::{BLOCK, CLIENT, asked, build, query, refused};
use crate::apple_tokens::{self, Issuer};
use crate::fixture::{Reply, Running, begin_slowly, eventually};
use crate::publish::{config, serve_with};

pub const PATH: &str = "/.well-known/ohttp-gateway";
pub const TYPE: &str = "content-type: message/ohttp-req\r\n";
const KEY_PROBLEM: &str = "https://iana.org/assignments/http-problem-types#ohttp-key";
const PHONE: [(&str, &str); 2] = [("user-agent", "lookup iOS/18.0"), ("user-identifier", "1")];

/// Writes a file of these keys that its owner alone can read.
pub fn write(folder: &Path, keys: &[&GatewayKey]) -> PathBuf {
    let path = folder.join("gateway.key");
    let text: String = keys.iter().map(|key| key.to_pem().to_string()).collect();
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    path
}

/// Makes keys whose ids differ.
fn keys<const N: usize>() -> [GatewayKey; N] {
    loop {
        let keys = std::array::from_fn(|_| GatewayKey::generate().unwrap());
        let mut ids: Vec<u8> = keys.iter().map(GatewayKey::id).collect();
        ids.sort();
        ids.dedup();
        if ids.len() == N {
            return keys;
        }
    }
}

fn settings(folder: &Path, keys: &[&GatewayKey]) -> ServerConfig {
    let gateway = Some(write(folder, keys));
    let apple = AppleConfig { gateway, ..AppleConfig::default() };
    ServerConfig { apple, ..config(&build(folder, 20)) }
}

/// Secrets of a request, which decrypt its response.
struct Opener {
    secret: [u8; 16],
    encapsulated: Vec<u8>,
}

/// Encrypts a message under a key configuration.
fn encapsulate(config: &[u8], message: &[u8]) -> (Vec<u8>, Opener) {
    let header = [&config[..3], &config[37..41]].concat();
    let info = [b"message/bhttp request\0", &header[..]].concat();
    let public = <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(&config[3..35]).unwrap();
    let rng = &mut UnwrapErr(getrandom::SysRng);
    let sender =
        setup_sender_with_rng::<AesGcm128, HkdfSha256, X25519HkdfSha256>(&OpModeS::Base, &public, &info, rng);
    let (encapsulated, mut context) = sender.unwrap();
    let mut ciphertext = message.to_vec();
    let tag = context.seal_inout_detached(InOutBuf::from(&mut ciphertext[..]), b"").unwrap();
    let mut secret = [0; 16];
    context.export(b"message/bhttp response", &mut secret).unwrap();
    let encapsulated = encapsulated.to_bytes().to_vec();
    let sealed = [&header[..], &encapsulated, &ciphertext, &tag.to_bytes()].concat();
    (sealed, Opener { secret, encapsulated })
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Opener {
    /// Returns the response inside, as if it had come without the gateway.
    fn open(&self, reply: &Reply) -> Reply {
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, Some("message/ohttp-res")),
            "{reply:?}"
        );
        assert_eq!(reply.header("cache-control"), Some("private, no-store"));
        let (nonce, ciphertext) = reply.body.split_at(16);
        let random = Salt::new(HKDF_SHA256, &[&self.encapsulated[..], nonce].concat()).extract(&self.secret);
        let key = UnboundKey::from(random.expand(&[b"key"], &AES_128_GCM).unwrap());
        let mut iv = [0; 12];
        random.expand(&[b"nonce"], Length(12)).unwrap().fill(&mut iv).unwrap();
        let mut message = ciphertext.to_vec();
        let iv = Nonce::assume_unique_for_key(iv);
        let message = LessSafeKey::new(key).open_in_place(iv, Aad::empty(), &mut message).unwrap();
        let message = Message::read_bhttp(&mut Cursor::new(&*message)).unwrap();
        let fields = message.header().fields().iter();
        let fields = fields.map(|field| {
            [String::from_utf8_lossy(field.name()), String::from_utf8_lossy(field.value())].join(": ")
        });
        let head = ["HTTP/1.1".to_owned()].into_iter().chain(fields).collect::<Vec<_>>().join("\r\n");
        Reply {
            status: message.control().status().unwrap().code(),
            head: head.to_ascii_lowercase(),
            body: message.content().to_vec(),
        }
    }
}

fn message(method: &str, path: &str, fields: &[(&str, &str)], body: &[u8], mode: Mode) -> Vec<u8> {
    let mut message =
        Message::request(method.into(), b"https".to_vec(), b"service.example.net".to_vec(), path.into());
    fields.iter().for_each(|(name, value)| message.put_header(*name, *value));
    message.write_content(body);
    let mut bytes = Vec::new();
    message.write_bhttp(mode, &mut bytes).unwrap();
    bytes
}

/// Sends a message through the gateway; returns the response inside.
fn through(server: &Running, key: &GatewayKey, message: &[u8]) -> Reply {
    let (sealed, opener) = encapsulate(&key.config(), message);
    opener.open(&server.post_with(PATH, TYPE, &sealed))
}

fn post(server: &Running, key: &GatewayKey, path: &str, body: &[u8]) -> Reply {
    through(server, key, &message("POST", path, &PHONE, body, Mode::KnownLength))
}

fn count(server: &Running, outcome: &str) -> f64 {
    server.metric(&format!("spirea_gateway_requests_total{{outcome=\"{outcome}\"}}")).unwrap_or(0.0)
}

fn problem(reply: &Reply, kind: Option<&str>, cause: &str) {
    assert_eq!((reply.status, reply.header("content-type")), (400, Some("application/problem+json")));
    let problem: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(problem["type"].as_str(), kind, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains(cause), "{problem}");
}

#[test]
fn it_leads_to_the_endpoints_of_apples_clients_and_nowhere_else() {
    let folder = tempdir().unwrap();
    let [key] = keys();
    let server = serve_with(settings(folder.path(), &[&key]));
    let reply = server.get(PATH);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/ohttp-keys")));
    assert_eq!(reply.body, [&[0, 41][..], &key.config()].concat());

    let direct = server.post_with("/config", CLIENT, b"");
    let known = ConfigResponse::decode(&direct.body[..]).unwrap();
    for mode in [Mode::KnownLength, Mode::IndeterminateLength] {
        for padding in [0, 1000] {
            let mut request = message("POST", "/config", &PHONE, b"", mode);
            request.resize(request.len() + padding, 0);
            let reply = through(&server, &key, &request);
            assert_eq!((reply.status, &reply.body), (200, &direct.body));
            assert_eq!(reply.header("content-type"), Some("application/x-protobuf"));
        }
    }
    let request = asked(BLOCK, Some(query(&known.configs[BLOCK]))).encode_to_vec();
    refused(&post(&server, &key, "/queries", &request), 400, "Evaluation key not found");
    refused(&post(&server, &key, "/key", b"\x0a\xff"), 400, "malformed");
    refused(&post(&server, &key, "/config", &vec![0; 300 << 10]), 413, "longer");
    assert_eq!(
        server.metric("spirea_requests_total{database=\"\",endpoint=\"/queries\",status=\"400\"}"),
        Some(1.0)
    );

    for path in [
        "/",
        "/config/",
        "//config",
        "/v1/databases",
        "/v1/databases/numbers/query",
        "/v1/admin/databases",
        "/v1/admin/reload",
        "/metrics",
        "/issue",
        "/token-key-for-user-token",
        PATH,
        "*",
    ] {
        refused(&post(&server, &key, path, b""), 404, "alone");
        let got = through(&server, &key, &message("GET", path, &PHONE, b"", Mode::KnownLength));
        refused(&got, 404, "alone");
    }
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "CONNECT", "MADEUP"] {
        let reply = through(&server, &key, &message(method, "/config", &PHONE, b"", Mode::KnownLength));
        assert_eq!((reply.status, reply.header("allow")), (405, Some("post")));
    }
    for (method, path) in
        [("P OST", "/config"), ("", "/config"), ("POST", ""), ("POST", "/con fig"), ("POST", "\u{7f}")]
    {
        let reply = through(&server, &key, &message(method, path, &PHONE, b"", Mode::KnownLength));
        refused(&reply, 400, "inside is not one of HTTP");
    }
    assert_eq!(server.get(PATH).body, [&[0, 41][..], &key.config()].concat());
    assert_eq!(server.post_with(PATH, "", b"").status, 415);
    let options = format!("OPTIONS {PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let reply = crate::fixture::exchange(server.address, options.as_bytes());
    assert_eq!(reply.header("allow"), Some("get, post, head, options"));
}

#[test]
fn a_request_inside_has_its_own_headers_and_none_of_those_around_it() {
    let folder = tempdir().unwrap();
    let [key] = keys();
    let server = serve_with(settings(folder.path(), &[&key]));
    let (sealed, opener) =
        encapsulate(&key.config(), &message("POST", "/config", &[], b"", Mode::KnownLength));
    let reply = opener.open(&server.post_with(PATH, &format!("{TYPE}{CLIENT}"), &sealed));
    refused(&reply, 400, "User-Agent is missing");
    // Names must be in lower case; other names are not valid HTTP fields.
    let fields = [("User-Agent", "a"), ("user-identifier", "1")];
    let reply = through(&server, &key, &message("POST", "/config", &fields, b"", Mode::KnownLength));
    refused(&reply, 400, "User-Agent is missing");
    for value in ["a\r\nb", "a\0", "a\n"] {
        let fields = [("user-agent", value), ("user-identifier", "1")];
        let reply = through(&server, &key, &message("POST", "/config", &fields, b"", Mode::KnownLength));
        refused(&reply, 400, "user-agent inside");
    }
    // Fields that no endpoint reads are dropped, whatever they are.
    let others = [("host", "other.example"), ("content-length", "7"), ("transfer-encoding", "chunked")];
    let fields = [&PHONE[..], &others, &[(":path", "/metrics"), ("x\r\ny", "\0")]].concat();
    let reply = through(&server, &key, &message("POST", "/config", &fields, b"", Mode::KnownLength));
    assert_eq!(reply.status, 200);
    let many = vec![("x", "y"); 65];
    let reply = through(&server, &key, &message("POST", "/config", &many, b"", Mode::KnownLength));
    refused(&reply, 400, "more than 64 fields");
    let long = "v".repeat(20_000);
    let reply = through(&server, &key, &message("POST", "/config", &[("x", &long)], b"", Mode::KnownLength));
    refused(&reply, 400, "more than 64 fields, or more than 16384 bytes");
    assert_eq!(count(&server, "unreadable"), 5.0);
}

#[test]
fn what_cannot_be_opened_is_refused_outside() {
    let folder = tempdir().unwrap();
    let [key, other] = keys();
    let server = serve_with(settings(folder.path(), &[&key]));
    let request = message("POST", "/config", &PHONE, b"", Mode::KnownLength);
    let (good, _) = encapsulate(&key.config(), &request);
    let send = |body: &[u8]| server.post_with(PATH, TYPE, body);
    problem(&send(&encapsulate(&other.config(), &request).0), Some(KEY_PROBLEM), "no key with the id");
    problem(&send(&[&good[..6], &[3], &good[7..]].concat()), Some(KEY_PROBLEM), "AES-128-GCM");
    problem(&send(&[&good[..60], &[good[60] ^ 1], &good[61..]].concat()), Some(KEY_PROBLEM), "decrypted");
    for length in [0, 7, 54] {
        problem(&send(&good[..length]), None, "shorter");
    }
    for (outcome, expected) in [
        ("unknown_key", 1.0),
        ("other_algorithms", 1.0),
        ("undecryptable", 1.0),
        ("truncated", 3.0),
        ("answered", 0.0),
    ] {
        assert_eq!(count(&server, outcome), expected, "{outcome}");
    }
    refused(
        &server.post_with(PATH, "content-type: message/ohttp-chunked-req\r\n", &good),
        415,
        "content type",
    );
    refused(&send(&vec![0; 11 << 20]), 413, "longer");
    // The request is refused by its declared length, before its body arrives.
    let declared = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\n{TYPE}content-length: 99999999999\r\n\r\n");
    refused(&crate::fixture::exchange(server.address, declared.as_bytes()), 413, "longer");
    for inside in [&b""[..], b"\x01\x40\xc8", b"\x07", b"\x00\x04POST", &[0xff; 100], &[0; 10]] {
        let reply = through(&server, &key, inside);
        assert!((400..500).contains(&reply.status), "{inside:?}: {reply:?}");
    }
    assert_eq!(post(&server, &key, "/config", b"").status, 200);
}

#[test]
fn any_bytes_are_refused_and_the_server_goes_on() {
    let folder = tempdir().unwrap();
    let [key] = keys();
    let server = serve_with(settings(folder.path(), &[&key]));
    let mut rng = SecretRng::deterministic_for_tests(5);
    let mut below = |bound: usize| (rng.next_u64() % bound as u64) as usize;
    for round in 0..inputs(150) {
        let mode = [Mode::KnownLength, Mode::IndeterminateLength][round % 2];
        let mut inside = message("POST", ["/config", "/key", "/queries"][round % 3], &PHONE, &[7; 50], mode);
        inside.truncate(below(inside.len()) + 1);
        let at = below(inside.len());
        inside[at] ^= below(256) as u8;
        let reply = through(&server, &key, &inside);
        assert!(reply.status < 500 || reply.status == 501, "{inside:?}: {reply:?}");
        let (mut sealed, _) = encapsulate(&key.config(), &inside);
        sealed.truncate(below(sealed.len()) + 1);
        let at = below(sealed.len());
        sealed[at] ^= below(255) as u8 + 1;
        assert_eq!(server.post_with(PATH, TYPE, &sealed).status, 400);
    }
    assert_eq!(post(&server, &key, "/config", b"").status, 200);
}

#[test]
fn a_private_token_is_inside_and_a_replay_cannot_spend_it_again() {
    let folder = tempdir().unwrap();
    let [key] = keys();
    let issuer = Issuer::new();
    let file = apple_tokens::write(folder.path(), "", &[(&issuer, "")]);
    let settings = settings(folder.path(), &[&key]);
    // A quota of the address has no effect.
    let quota = Some("1/day".parse().unwrap());
    let apple = AppleConfig { tokens: Some(file), quota, ..settings.apple.clone() };
    let server = serve_with(ServerConfig { apple, ..settings });
    refused(&post(&server, &key, "/config", b""), 401, "no private token");
    let paid = |path: &str, body: &[u8], nonce| {
        let token = format!("PrivateToken token={}", URL_SAFE.encode(issuer.good(nonce)));
        let fields = [&PHONE[..], &[("authorization", &token)]].concat();
        message("POST", path, &fields, body, Mode::KnownLength)
    };
    // A token in the encapsulating request does not count.
    let (sealed, opener) =
        encapsulate(&key.config(), &message("POST", "/config", &PHONE, b"", Mode::KnownLength));
    let outside = format!("{TYPE}authorization: PrivateToken token={}\r\n", URL_SAFE.encode(issuer.good(9)));
    refused(&opener.open(&server.post_with(PATH, &outside, &sealed)), 401, "no private token");

    let (sealed, opener) = encapsulate(&key.config(), &paid("/config", b"", 1));
    let replies = [(); 2].map(|()| server.post_with(PATH, TYPE, &sealed));
    assert_ne!(replies[0].body[..16], replies[1].body[..16], "each response has a nonce of its own");
    let first = opener.open(&replies[0]);
    assert_eq!(first.status, 200);
    let replayed = opener.open(&replies[1]);
    refused(&replayed, 401, "spent already");
    assert!(replayed.header("www-authenticate").unwrap().starts_with("privatetoken challenge="));

    let known = ConfigResponse::decode(&first.body[..]).unwrap();
    let request = asked(BLOCK, Some(query(&known.configs[BLOCK]))).encode_to_vec();
    for nonce in [2, 3, 4] {
        refused(&through(&server, &key, &paid("/queries", &request, nonce)), 400, "Evaluation key not found");
    }
    // The body is too long for the endpoint, so the token stays unspent.
    refused(&through(&server, &key, &paid("/config", &vec![0; 300 << 10], 5)), 413, "longer");
    assert_eq!(
        through(&server, &key, &paid("/config", &ConfigRequest::default().encode_to_vec(), 5)).status,
        200
    );
    assert_eq!(server.metric("spirea_spent_tokens{tier=\"tier0\"}"), Some(5.0));
}

#[test]
fn limits_of_the_address_are_those_of_the_relay_and_count_a_request_once() {
    let folder = tempdir().unwrap();
    let [key] = keys();
    let settings = settings(folder.path(), &[&key]);
    let apple = AppleConfig { quota: Some("2/day".parse().unwrap()), ..settings.apple.clone() };
    // One request at a time, with 400 KiB: too little to reserve memory for both a request and the
    // request inside it.
    let limits = Limits { client_requests: 1, requests: 1, body_memory: 400 << 10, ..Limits::default() };
    let server = serve_with(ServerConfig { apple, limits, ..settings });
    let reply = post(&server, &key, "/config", b"");
    let known = ConfigResponse::decode(&reply.body[..]).unwrap();
    refused(&post(&server, &key, "/key", &vec![0xff; 390 << 10]), 400, "malformed");
    let request = asked(BLOCK, Some(query(&known.configs[BLOCK]))).encode_to_vec();
    refused(&post(&server, &key, "/queries", &request), 400, "Evaluation key not found");
    refused(&server.post_with("/queries", CLIENT, &request), 400, "Evaluation key not found");
    let reply = post(&server, &key, "/queries", &request);
    refused(&reply, 429, "quota of 2/day");
    assert!(reply.header("retry-after").is_some());
    // While one request arrives, the relay's other requests are refused before they are decrypted.
    let slow = begin_slowly(server.address, PATH, &format!("{TYPE}content-length: 100\r\n"));
    refused(&server.post_with(PATH, TYPE, b""), 429, "");
    drop(slow);
    eventually("the place is free again", || server.post_with(PATH, TYPE, b"").status == 400);
    // All memory has been released.
    refused(&post(&server, &key, "/key", &vec![0xff; 390 << 10]), 400, "malformed");
    assert_eq!(server.metric("spirea_body_memory_bytes"), Some(0.0));
}

#[test]
fn requests_at_once_get_their_own_responses() {
    let folder = tempdir().unwrap();
    let [key] = keys();
    let server = serve_with(settings(folder.path(), &[&key]));
    let (server, key) = (&server, &key);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for round in 0..10 {
                    let name = format!("use-case-{thread}-{round}");
                    let request = ConfigRequest { usecases: vec![name.clone()], ..ConfigRequest::default() };
                    refused(&post(server, key, "/config", &request.encode_to_vec()), 404, &name);
                }
            });
        }
    });
    assert_eq!(count(server, "answered"), 80.0);
}

#[test]
fn a_key_is_replaced_while_the_server_runs() {
    let folder = tempdir().unwrap();
    let [old, new] = keys();
    let server = serve_with(settings(folder.path(), &[&old]));
    let listed = |keys: &[&GatewayKey]| -> Vec<u8> {
        keys.iter().flat_map(|key| [&[0, 41][..], &key.config()].concat()).collect()
    };
    let reload = |expected: &[u8]| {
        server.reloader.reload();
        eventually("the keys", || server.get(PATH).body == expected);
    };
    write(folder.path(), &[&new, &old]);
    reload(&listed(&[&new, &old]));
    for key in [&old, &new] {
        assert_eq!(post(&server, key, "/config", b"").status, 200);
    }
    // A file that is wrong changes nothing.
    std::fs::write(folder.path().join("gateway.key"), "").unwrap();
    let kept = "spirea_reloads_total{what=\"gateway\",outcome=\"kept the old\"}";
    let kept_reversed = "spirea_reloads_total{outcome=\"kept the old\",what=\"gateway\"}";
    server.reloader.reload();
    eventually("the file is refused", || {
        server.metric(kept).or_else(|| server.metric(kept_reversed)).is_some()
    });
    assert_eq!(server.get(PATH).body, listed(&[&new, &old]));
    write(folder.path(), &[&new]);
    reload(&listed(&[&new]));
    assert_eq!(post(&server, &new, "/config", b"").status, 200);
    let request = message("POST", "/config", &PHONE, b"", Mode::KnownLength);
    let reply = server.post_with(PATH, TYPE, &encapsulate(&old.config(), &request).0);
    problem(&reply, Some(KEY_PROBLEM), "no key with the id");
}

#[test]
fn a_server_without_keys_is_no_gateway() {
    let folder = tempdir().unwrap();
    let server = serve_with(config(&build(folder.path(), 20)));
    refused(&server.get(PATH), 404, "no OHTTP gateway");
    refused(&server.post_with(PATH, TYPE, b""), 404, "no OHTTP gateway");
}

#[test]
fn wrong_files_are_explained() {
    let folder = tempdir().unwrap();
    let [key] = keys();
    let settings = settings(folder.path(), &[&key]);
    let path = folder.path().join("gateway.key");
    assert_eq!(settings.check(), Ok(()));
    let check = |cause: &str| {
        let error = settings.check().unwrap_err().to_string();
        assert!(error.starts_with("apple.gateway: ") && error.contains("gateway.key"), "{error}");
        assert!(error.contains(cause), "{error}");
    };
    write(folder.path(), &[&key, &key]);
    check(&format!("two keys have the id {}", key.id()));
    write(folder.path(), &[]);
    check("there is no private key; make a key with `spirea key gateway`");
    std::fs::write(&path, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    check("not PEM");
    std::fs::write(&path, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
    check("X25519");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    check("chmod 600");
    std::fs::remove_file(&path).unwrap();
    check("cannot be read");
}

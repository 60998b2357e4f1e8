//! Private tokens of Apple's clients: what is accepted, what is refused, and that a token is spent
//! once.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use prost::Message;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair;
use ring::signature::RSA_PSS_SHA384;
use spirea_apple::messages::{ConfigRequest, ConfigResponse};
use spirea_apple::privacy_pass::{Challenge, TokenKey};
use spirea_server::{AppleConfig, ServerConfig};
use tempfile::tempdir;

use crate::apple::{BLOCK, CLIENT, asked, build, query, refused};
use crate::fixture::{Reply, Running};
use crate::publish::{config, serve_with};

const ISSUER: &str = "issuer.example.net";

/// An issuer's key, that of RFC 9578 (appendix B.2).
pub struct Issuer {
    pair: KeyPair,
    pub key: TokenKey,
}

impl Issuer {
    pub fn new() -> Self {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../../../../conformance/vectors/privacy_pass.json")).unwrap();
        let field = |name: &str| {
            let hex = vectors[0][name].as_str().unwrap();
            let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(byte).collect::<Vec<u8>>()
        };
        let pem = String::from_utf8(field("skS")).unwrap();
        let der: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let pair = KeyPair::from_pkcs8(&STANDARD.decode(der).unwrap()).unwrap();
        Self { pair, key: TokenKey::from_spki(&field("pkS")).unwrap() }
    }

    /// Returns a token: a signature that was not blinded has the same form.
    fn token(&self, nonce: u64, challenge: [u8; 32]) -> Vec<u8> {
        let nonce = blake3::hash(&nonce.to_le_bytes());
        let mut token = [&[0, 2][..], nonce.as_bytes(), &challenge, self.key.id()].concat();
        let mut signature = [0; 256];
        self.pair.sign(&RSA_PSS_SHA384, &SystemRandom::new(), &token, &mut signature).unwrap();
        token.extend(signature);
        token
    }

    fn good(&self, nonce: u64) -> Vec<u8> {
        self.token(nonce, Challenge::new(ISSUER).unwrap().digest())
    }
}

/// Writes a file of private tokens with these keys and further lines at its beginning.
pub fn write(folder: &Path, lines: &str, keys: &[(&Issuer, &str)]) -> PathBuf {
    let mut text = format!("issuer = \"{ISSUER}\"\nspent = \"spent\"\n{lines}\n");
    for (number, (issuer, lines)) in keys.iter().enumerate() {
        let name = format!("tier{number}.der");
        std::fs::write(folder.join(&name), issuer.key.spki()).unwrap();
        text += &format!("[[key]]\ntier = \"tier{number}\"\npublic = \"{name}\"\n{lines}\n");
    }
    let file = folder.join("apple-tokens.toml");
    std::fs::write(&file, text).unwrap();
    file
}

fn serve(folder: &Path, file: PathBuf) -> Running {
    // A quota of the address has no effect.
    let quota = Some("1/day".parse().unwrap());
    let apple = AppleConfig { tokens: Some(file), quota, ..AppleConfig::default() };
    serve_with(ServerConfig { apple, ..config(&build(folder, 20)) })
}

fn post(server: &Running, path: &str, token: &[u8], message: &impl Message) -> Reply {
    let token = URL_SAFE.encode(token);
    let headers = format!("{CLIENT}authorization: PrivateToken token={token}\r\n");
    server.post_with(path, &headers, &message.encode_to_vec())
}

fn count(server: &Running, outcome: &str) -> f64 {
    server.metric(&format!("spirea_private_tokens_total{{outcome=\"{outcome}\"}}")).unwrap_or(0.0)
}

#[test]
fn each_request_spends_a_token_and_others_are_refused_with_a_challenge() {
    let folder = tempdir().unwrap();
    let issuer = Issuer::new();
    let file = write(folder.path(), "", &[(&issuer, "queries = 1")]);
    let server = serve(folder.path(), file.clone());
    let ask = |token: &[u8]| post(&server, "/config", token, &ConfigRequest::default());

    let no = |reply: &Reply, cause: &str, outcome: &str| {
        refused(reply, 401, cause);
        // The fixture turns heads to lower case.
        let challenge = URL_SAFE.encode(Challenge::new(ISSUER).unwrap().as_bytes()).to_lowercase();
        let asks = format!("privatetoken challenge=\"{challenge}\"");
        assert_eq!(reply.header("www-authenticate"), Some(asks.as_str()));
        assert!(count(&server, outcome) >= 1.0, "{outcome}");
    };
    no(&server.post_with("/config", CLIENT, b""), "no private token", "missing");
    let bearer = format!("{CLIENT}authorization: Bearer AAAA\r\n");
    no(&server.post_with("/queries", &bearer, b""), "no private token", "malformed");
    no(&ask(&[0; 354]), "type 0", "malformed");
    no(&ask(&[0; 12]), "Base64", "malformed");
    let mut unknown = issuer.good(1);
    unknown[66] ^= 1;
    no(&ask(&unknown), "key id", "unknown_key");
    no(
        &ask(&issuer.token(1, Challenge::new("other.example.net").unwrap().digest())),
        "another issuer",
        "other_challenge",
    );
    let mut forged = issuer.good(1);
    forged[300] ^= 1;
    no(&ask(&forged), "signature", "forged");
    assert_eq!(server.metric("spirea_spent_tokens{tier=\"tier0\"}"), Some(0.0));

    let reply = ask(&issuer.good(1));
    assert_eq!(reply.status, 200, "{reply:?}");
    // Another signature of the same nonce is the same token.
    no(&ask(&issuer.good(1)), "spent already", "spent_before");
    no(&post(&server, "/key", &issuer.good(1), &ConfigRequest::default()), "spent already", "spent_before");

    let known = ConfigResponse::decode(&reply.body[..]).unwrap();
    let mut requests = asked(BLOCK, Some(query(&known.configs[BLOCK])));
    for nonce in [2, 3] {
        let reply = post(&server, "/queries", &issuer.good(nonce), &requests);
        refused(&reply, 400, "Evaluation key not found");
    }
    requests.requests.push(requests.requests[0].clone());
    refused(&post(&server, "/queries", &issuer.good(4), &requests), 400, "more look-ups than its token");
    assert_eq!(server.metric("spirea_spent_tokens{tier=\"tier0\"}"), Some(4.0));
    assert_eq!(count(&server, "spent"), 4.0);
    drop(server);

    let server = serve(folder.path(), file);
    refused(&post(&server, "/config", &issuer.good(1), &ConfigRequest::default()), 401, "spent already");
    assert_eq!(post(&server, "/config", &issuer.good(5), &ConfigRequest::default()).status, 200);
}

#[test]
fn any_challenge_is_taken_if_the_file_says_so_and_a_full_store_refuses() {
    let folder = tempdir().unwrap();
    let issuer = Issuer::new();
    let file = write(folder.path(), "challenge = \"any\"\nmost_spent = 2", &[(&issuer, "")]);
    let server = serve(folder.path(), file);
    let ask = |token: &[u8]| post(&server, "/config", token, &ConfigRequest::default());
    assert_eq!(ask(&issuer.token(1, [7; 32])).status, 200);
    assert_eq!(ask(&issuer.token(2, [8; 32])).status, 200);
    refused(&ask(&issuer.good(3)), 503, "no room");
    refused(&ask(&issuer.good(2)), 401, "spent already");
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn a_body_that_does_not_arrive_costs_no_token() {
    let folder = tempdir().unwrap();
    let issuer = Issuer::new();
    let file = write(folder.path(), "", &[(&issuer, "")]);
    let server = serve(folder.path(), file);
    let token = URL_SAFE.encode(issuer.good(1));
    let headers = format!("{CLIENT}authorization: PrivateToken token={token}\r\n");
    refused(&server.post_with("/config", &headers, &vec![0; 1 << 20]), 413, "longer");
    assert_eq!(post(&server, "/config", &issuer.good(1), &ConfigRequest::default()).status, 200);
}

#[test]
fn wrong_files_are_explained_with_their_line() {
    let folder = tempdir().unwrap();
    let path = build(folder.path(), 20);
    let issuer = Issuer::new();
    let check = |lines: &str, keys: &[(&Issuer, &str)]| {
        let file = write(folder.path(), lines, keys);
        let apple = AppleConfig { tokens: Some(file), ..AppleConfig::default() };
        ServerConfig { apple, ..config(&path) }.check().unwrap_err().to_string()
    };
    for (lines, keys, place, cause) in [
        ("challenge = \"some\"", &[(&issuer, "")][..], "apple-tokens.toml:3: challenge", "issuer"),
        ("colour = 1", &[(&issuer, "")], "apple-tokens.toml:3: colour", "unknown key"),
        ("", &[], "apple-tokens.toml: key", "add [[key]]"),
        ("", &[(&issuer, "queries = 0")], "apple-tokens.toml:7: key.0.queries", "at least 1"),
        ("", &[(&issuer, ""), (&issuer, "")], "apple-tokens.toml:10: key.1.public", "last byte"),
    ] {
        let error = check(lines, keys);
        assert!(
            error.contains("apple.tokens: ") && error.contains(place) && error.contains(cause),
            "{error}"
        );
    }
    let file = write(folder.path(), "", &[(&issuer, ""), (&issuer, "")]);
    std::fs::write(folder.path().join("tier1.der"), b"-----BEGIN PUBLIC KEY-----\n").unwrap();
    let apple = AppleConfig { tokens: Some(file), ..AppleConfig::default() };
    let error = ServerConfig { apple, ..config(&path) }.check().unwrap_err().to_string();
    assert!(error.contains("key.1.public") && error.contains("openssl rsa"), "{error}");
}

//! Private tokens of Apple's clients: what is accepted, what is refused, and that a token is spent
//! once.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use prost::Message;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair;
use ring::signature::RSA_PSS_SHA384;
use spirea_apple::messages::{ConfigRequest, ConfigResponse};
use spirea_apple::privacy_pass::{Challenge, IssuerKey, TokenKey};
use spirea_server::{AppleConfig, ServerConfig};
use tempfile::tempdir;

use crate::apple::{BLOCK, CLIENT, asked, build, query, refused};
use crate::fixture::{Reply, Running, eventually};
use crate::publish::{config, serve_with};

const ISSUER: &str = "issuer.example.net";

/// Returns a field of a vector of RFC 9578.
fn vector(number: usize, name: &str) -> Vec<u8> {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../../conformance/vectors/privacy_pass.json")).unwrap();
    let hex = vectors[number][name].as_str().unwrap();
    let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// An issuer's key.
pub struct Issuer {
    pair: KeyPair,
    pub key: TokenKey,
}

impl Issuer {
    /// Returns the key of RFC 9578 (appendix B.2).
    pub fn new() -> Self {
        let pem = String::from_utf8(vector(0, "skS")).unwrap();
        Self::from_pem(&pem, TokenKey::from_spki(&vector(0, "pkS")).unwrap())
    }

    /// Returns a new key that may be in a file with `other`.
    fn beside(other: &Self) -> Self {
        let keys = std::iter::repeat_with(|| IssuerKey::generate().unwrap());
        let fits = |key: &IssuerKey| key.public().truncated_id() != other.key.truncated_id();
        let key = keys.into_iter().find(fits).unwrap();
        Self::from_pem(&key.to_pem().unwrap(), key.public().clone())
    }

    fn from_pem(pem: &str, key: TokenKey) -> Self {
        let der: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        Self { pair: KeyPair::from_pkcs8(&STANDARD.decode(der).unwrap()).unwrap(), key }
    }

    /// Returns a token. The token is signed without blinding, which gives a signature of the same
    /// form.
    fn token(&self, nonce: u64, challenge: [u8; 32]) -> Vec<u8> {
        let nonce = blake3::hash(&nonce.to_le_bytes());
        let mut token = [&[0, 2][..], nonce.as_bytes(), &challenge, self.key.id()].concat();
        let mut signature = [0; 256];
        self.pair.sign(&RSA_PSS_SHA384, &SystemRandom::new(), &token, &mut signature).unwrap();
        token.extend(signature);
        token
    }

    pub fn good(&self, nonce: u64) -> Vec<u8> {
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
    // A token with the same nonce and another signature counts as the same token.
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
fn keys_are_replaced_while_the_server_runs() {
    let folder = tempdir().unwrap();
    let old = Issuer::new();
    let new = Issuer::beside(&old);
    let file = write(folder.path(), "", &[(&old, "")]);
    let server = serve(folder.path(), file.clone());
    let ask = |token: &[u8]| post(&server, "/config", token, &ConfigRequest::default());
    let spent = |tier| server.metric(&format!("spirea_spent_tokens{{tier=\"{tier}\"}}"));
    let kept = || {
        server.metric("spirea_reloads_total{outcome=\"kept the old\",what=\"private_tokens\"}").unwrap_or(0.0)
    };
    assert_eq!(ask(&old.good(1)).status, 200);
    refused(&ask(&new.good(1)), 401, "key id");

    // Tokens of both keys are accepted, and each of them once.
    write(folder.path(), "", &[(&old, ""), (&new, "")]);
    server.reloader.reload();
    eventually("the new key", || ask(&new.good(1)).status == 200);
    refused(&ask(&new.good(1)), 401, "spent already");
    refused(&ask(&old.good(1)), 401, "spent already");
    assert_eq!(ask(&old.good(2)).status, 200);
    assert_eq!((spent("tier0"), spent("tier1")), (Some(2.0), Some(1.0)));

    // A wrong file changes nothing, and neither does another folder for the tokens that are spent.
    let text = std::fs::read_to_string(&file).unwrap();
    for (i, wrong) in ["", &text.replace("spent = \"spent\"", "spent = \"other\"")].into_iter().enumerate() {
        std::fs::write(&file, wrong).unwrap();
        server.reloader.reload();
        eventually("the file is refused", || kept() >= i as f64 + 1.0);
        refused(&ask(&old.good(1)), 401, "spent already");
    }
    assert_eq!(ask(&old.good(3)).status, 200);

    write(folder.path(), "", &[(&new, "")]);
    server.reloader.reload();
    eventually("the old key has left", || spent("tier1").is_none());
    refused(&ask(&old.good(4)), 401, "key id");
    refused(&ask(&new.good(1)), 401, "spent already");
    assert_eq!((ask(&new.good(2)).status, spent("tier0")), (200, Some(2.0)));

    // A key that comes back has its spent tokens, and fewer may be spent now. No request to reload.
    write(folder.path(), "most_spent = 3", &[(&new, ""), (&old, "")]);
    eventually("the old key is back", || spent("tier1") == Some(3.0));
    refused(&ask(&old.good(3)), 401, "spent already");
    refused(&ask(&old.good(4)), 503, "no room");
    assert_eq!(ask(&new.good(3)).status, 200);
    refused(&ask(&new.good(4)), 503, "no room");
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

/// Writes the private key of a vector, and a file of private tokens that names it as the signing
/// key.
fn write_issuer(folder: &Path, number: usize, lines: &str, users: &[&str]) -> PathBuf {
    let key = folder.join("issuer.pem");
    // An existing file would keep its permissions, so it is removed.
    let _ = std::fs::remove_file(&key);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&key).unwrap();
    file.write_all(&vector(number, "skS")).unwrap();
    let mut text = format!("issuer = \"{ISSUER}\"\nspent = \"spent\"\nchallenge = \"any\"\n");
    text += &format!("[[key]]\ntier = \"free\"\nprivate = \"issuer.pem\"\n{lines}\n");
    for user in users {
        let hash = blake3::hash(user.as_bytes()).to_hex();
        text += &format!("[[user]]\ntier = \"free\"\nblake3 = \"{hash}\"\n");
    }
    let file = folder.join("apple-tokens.toml");
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn an_issuer_signs_the_vectors_of_the_rfc_and_its_tokens_are_redeemed() {
    let folder = tempdir().unwrap();
    let file = write_issuer(folder.path(), 3, "issues = \"2/day\"", &["QUJD", "REVG"]);
    let server = serve(folder.path(), file);
    let key = vector(3, "pkS");

    let reply = server.get("/.well-known/private-token-issuer-directory");
    assert_eq!(reply.header("content-type"), Some("application/private-token-issuer-directory"));
    let directory: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    let listed = serde_json::json!({ "token-type": 2, "token-key": URL_SAFE.encode(&key) });
    assert_eq!(directory, serde_json::json!({ "issuer-request-uri": "/issue", "token-keys": [listed] }));

    let get = |user: &str| {
        server.get_with("/token-key-for-user-token", &format!("authorization: Bearer {user}\r\n"))
    };
    assert_eq!(get("QUJD").body, key);
    refused(&get("QUJE"), 401, "no user's token");
    let issue = |user: &str, body: &[u8]| {
        server.post_with("/issue", &format!("authorization: Bearer {user}\r\n"), body)
    };
    let request = vector(3, "token_request");
    refused(&issue("other", &request), 401, "no user's token");
    refused(&server.post_with("/issue", "", &request), 401, "no user's token");
    // Refused requests do not reduce the allowance.
    for _ in 0..3 {
        refused(&issue("QUJD", &request[1..]), 422, "has 259 bytes");
        refused(&issue("QUJD", &[&[0, 1], &request[2..]].concat()), 422, "type 1");
        refused(
            &issue("QUJD", &[&request[..2], &[request[2] ^ 1], &request[3..]].concat()),
            422,
            "another key",
        );
        refused(&issue("QUJD", &[&request[..3], &[255; 256]].concat()), 422, "not below");
        refused(&issue("QUJD", &[&request[..], &[0]].concat()), 413, "longer");
    }
    for _ in 0..2 {
        let reply = issue("QUJD", &request);
        assert_eq!((reply.status, &reply.body), (200, &vector(3, "token_response")));
        assert_eq!(reply.header("content-type"), Some("application/private-token-response"));
    }
    let reply = issue("QUJD", &request);
    refused(&reply, 429, "the user has used up its quota of 2/day");
    assert!(reply.header("retry-after").is_some());
    assert_eq!(issue("REVG", &request).status, 200);
    assert_eq!((count(&server, "issued"), count(&server, "used_up")), (3.0, 1.0));

    let token = vector(3, "token");
    assert_eq!(post(&server, "/config", &token, &ConfigRequest::default()).status, 200);
    refused(&post(&server, "/config", &token, &ConfigRequest::default()), 401, "spent already");
}

#[test]
fn users_come_while_the_server_runs_and_others_keep_what_they_have_used() {
    let folder = tempdir().unwrap();
    write_issuer(folder.path(), 3, "issues = \"2/day\"", &["QUJD"]);
    let server = serve(folder.path(), folder.path().join("apple-tokens.toml"));
    let request = vector(3, "token_request");
    let issue = |user: &str| {
        server.post_with("/issue", &format!("authorization: Bearer {user}\r\n"), &request).status
    };
    assert_eq!([issue("QUJD"), issue("REVG")], [200, 401]);
    write_issuer(folder.path(), 3, "issues = \"2/day\"", &["REVG", "QUJD"]);
    server.reloader.reload();
    eventually("the new user", || issue("REVG") == 200);
    assert_eq!([issue("QUJD"), issue("QUJD"), issue("REVG"), issue("REVG")], [200, 429, 200, 429]);

    // Without private keys the server issues nothing any more.
    write(folder.path(), "", &[(&Issuer::new(), "")]);
    server.reloader.reload();
    eventually("the issuer has left", || issue("REVG") == 404);
}

#[test]
fn a_server_without_private_keys_issues_nothing() {
    let folder = tempdir().unwrap();
    let issuer = Issuer::new();
    let server = serve(folder.path(), write(folder.path(), "", &[(&issuer, "")]));
    refused(&server.get("/.well-known/private-token-issuer-directory"), 404, "issues no private tokens");
    refused(&server.post_with("/issue", "", b""), 404, "issues no private tokens");
}

#[test]
fn wrong_issuers_are_explained_with_their_line() {
    let folder = tempdir().unwrap();
    let path = build(folder.path(), 20);
    let check = |file: PathBuf| {
        let apple = AppleConfig { tokens: Some(file), ..AppleConfig::default() };
        ServerConfig { apple, ..config(&path) }.check().unwrap_err().to_string()
    };
    let key = folder.path().join("issuer.pem");
    let write = |lines, users: &[&str]| write_issuer(folder.path(), 0, lines, users);
    let error = check(write("public = \"a\"", &[]));
    assert!(error.contains("apple-tokens.toml:5: key.0.tier") && error.contains("either public"), "{error}");
    let error = check(write("", &["a", "a"]));
    assert!(error.contains(":13: user.1.blake3") && error.contains("spirea token user"), "{error}");
    let file = write("", &["a"]);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("[[user]]\ntier = \"free\"", "[[user]]\ntier = \"paid\"")).unwrap();
    let error = check(file);
    assert!(error.contains("user.0.tier") && error.contains("no private key signs"), "{error}");
    let file = write("", &[]);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = check(file);
    assert!(error.contains("key.0.private") && error.contains("chmod 600"), "{error}");
    let file = write("", &[]);
    std::fs::write(&key, "no key").unwrap();
    let error = check(file);
    assert!(error.contains("issuer.pem: ") && error.contains("spirea token issuer"), "{error}");
}

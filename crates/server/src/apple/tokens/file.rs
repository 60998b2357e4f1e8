//! The file of the keys whose private tokens are accepted.

use std::path::{Path, PathBuf};

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use spirea_apple::privacy_pass::{Challenge, TokenKey, TokenKeyError};

use super::PrivateTokensError;
use crate::settings::Document;

/// Default number of spent tokens of a key that are kept: 64 MiB on disk.
const MOST_SPENT: usize = 4 << 20;

/// Challenges whose tokens are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Accepts {
    /// The challenge that names the issuer alone.
    #[default]
    Issuer,
    /// Any challenge: the signature decides.
    Any,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    issuer: String,
    #[serde(default)]
    challenge: Accepts,
    spent: PathBuf,
    most_spent: Option<usize>,
    #[serde(default)]
    key: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    tier: String,
    public: PathBuf,
    queries: Option<u64>,
}

/// Content of the file.
pub(super) struct Rules {
    pub challenge: Challenge,
    pub accepts: Accepts,
    /// Folder of the spent tokens.
    pub spent: PathBuf,
    /// Maximum number of spent tokens of a key.
    pub most_spent: usize,
    pub keys: Vec<Rule>,
}

/// A key whose tokens are accepted.
pub(super) struct Rule {
    pub tier: String,
    pub key: TokenKey,
    /// Maximum number of look-ups that a token pays for.
    pub queries: Option<u64>,
}

/// Reads the file and the keys that it names.
pub(super) fn read(path: &Path) -> Result<Rules, PrivateTokensError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| PrivateTokensError::Read { path: path.into(), source })?;
    let document = Document::new(path, &text);
    let file: File = document.read().map_err(|error| PrivateTokensError::Wrong(error.to_string()))?;
    let wrong = |key: &str, cause: &str| PrivateTokensError::Wrong(document.locate(key, cause));
    let folder = path.parent().unwrap_or(Path::new(""));
    let challenge = Challenge::new(&file.issuer).map_err(|error| wrong("issuer", &error.to_string()))?;
    let mut keys: Vec<Rule> = Vec::with_capacity(file.key.len());
    for (i, Entry { tier, public, queries }) in file.key.into_iter().enumerate() {
        let wrong = |key: &str, cause: &str| wrong(&format!("key.{i}.{key}"), cause);
        if tier.is_empty() || !tier.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        {
            return Err(wrong("tier", "a tier's name has letters, digits, - and _; choose another"));
        }
        if queries == Some(0) {
            return Err(wrong(
                "queries",
                "a token that pays for no look-up is worth nothing; give at least 1",
            ));
        }
        let key = public_key(&folder.join(&public)).map_err(|cause| wrong("public", &cause))?;
        if keys.iter().any(|known| known.key.truncated_id() == key.truncated_id()) {
            let cause = "another key has an id with the same last byte, by which requests for tokens name it; make a new key";
            return Err(wrong("public", cause));
        }
        keys.push(Rule { tier, key, queries });
    }
    if keys.is_empty() {
        return Err(wrong("key", "no key's tokens would be accepted; add [[key]] with tier and public"));
    }
    Ok(Rules {
        challenge,
        accepts: file.challenge,
        spent: folder.join(file.spent),
        most_spent: file.most_spent.unwrap_or(MOST_SPENT),
        keys,
    })
}

/// Reads a public key as PEM or DER.
fn public_key(path: &Path) -> Result<TokenKey, String> {
    let bytes = std::fs::read(path).map_err(|error| {
        format!("{} cannot be read: {error}; name an issuer's public key", path.display())
    })?;
    let spki = SubjectPublicKeyInfoDer::from_pem_slice(&bytes);
    let der = spki.as_ref().map_or(&bytes[..], |spki| spki.as_ref());
    TokenKey::from_spki(der).map_err(|error: TokenKeyError| {
        format!("{}: {error}; `openssl rsa -in KEY -pubout` writes it", path.display())
    })
}

//! The file of the keys whose private tokens are accepted, and of the users to whom private tokens
//! are issued.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use spirea_apple::privacy_pass::{Challenge, IssuerKey, TokenKey, TokenKeyError};

use super::private_file;
use crate::access::{Quota, hash};
use crate::settings::Document;

/// Default maximum number of spent tokens that are kept for a key: 64 MiB on disk.
const MOST_SPENT: usize = 4 << 20;

/// Reason why private tokens cannot be accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateTokensError {
    /// The file cannot be read.
    #[error("{}: the file of private tokens cannot be read: {source}; docs/apple.md shows one", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The content is wrong.
    #[error("{0}")]
    Wrong(String),
    /// The spent tokens cannot be kept.
    #[error("{}: the spent tokens cannot be kept here: {source}", .path.display())]
    Spent {
        /// The folder, or a file in it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Challenges whose tokens are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Accepts {
    /// The challenge that names the issuer alone.
    #[default]
    Issuer,
    /// Any challenge: a valid signature suffices.
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
    #[serde(default)]
    user: Vec<UserEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    tier: String,
    public: Option<PathBuf>,
    private: Option<PathBuf>,
    queries: Option<u64>,
    issues: Option<Quota>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserEntry {
    tier: String,
    #[serde(deserialize_with = "hash")]
    blake3: [u8; 32],
}

/// Key that signs the tokens of a tier.
pub(crate) struct Signer {
    pub key: IssuerKey,
    /// Tokens that each user of the tier gets in each period; `None` for any number.
    pub issues: Option<Quota>,
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
    /// Private keys of each tier, in the file's order.
    pub signers: BTreeMap<String, Vec<Signer>>,
    /// Tiers of users, by the hash of their token.
    pub users: HashMap<[u8; 32], String>,
}

/// A key whose tokens are accepted.
pub(super) struct Rule {
    pub tier: String,
    pub key: TokenKey,
    /// Maximum number of look-ups that a token pays for.
    pub queries: Option<u64>,
}

/// Parses the name of a tier: ASCII letters, digits, `-` and `_`.
///
/// # Errors
/// A text with the cause and the remedy.
pub fn parse_tier(name: &str) -> Result<String, &'static str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.is_empty() && name.bytes().all(fits) {
        Ok(name.into())
    } else {
        Err("a tier's name has letters, digits, - and _; choose another")
    }
}

/// Checks the file and the keys that it names.
///
/// # Errors
/// [`PrivateTokensError::Read`] and [`PrivateTokensError::Wrong`].
pub(crate) fn check(path: &Path) -> Result<(), PrivateTokensError> {
    read(path).map(drop)
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
    let mut signers: BTreeMap<String, Vec<Signer>> = BTreeMap::new();
    for (i, Entry { tier, public, private, queries, issues }) in file.key.into_iter().enumerate() {
        let wrong = |key: &str, cause: &str| wrong(&format!("key.{i}.{key}"), cause);
        let tier = parse_tier(&tier).map_err(|cause| wrong("tier", cause))?;
        if queries == Some(0) {
            return Err(wrong(
                "queries",
                "a token that pays for no look-up is worth nothing; give at least 1",
            ));
        }
        let (name, key, signer) = match (public, private) {
            (Some(public), None) => {
                let key = public_key(&folder.join(&public)).map_err(|cause| wrong("public", &cause))?;
                ("public", key, None)
            }
            (None, Some(private)) => {
                let signer = private_key(&folder.join(&private)).map_err(|cause| wrong("private", &cause))?;
                ("private", signer.public().clone(), Some(signer))
            }
            _ => {
                let cause =
                    "a key has either public, whose tokens are accepted, or private, which signs tokens too";
                return Err(wrong("tier", cause));
            }
        };
        if issues.is_some() && signer.is_none() {
            return Err(wrong("issues", "a public key signs no tokens; name a private key, or remove this"));
        }
        if keys.iter().any(|known| known.key.truncated_id() == key.truncated_id()) {
            let cause = "another key has an id with the same last byte, by which requests for tokens name it; make a new key";
            return Err(wrong(name, cause));
        }
        if let Some(key) = signer {
            signers.entry(tier.clone()).or_default().push(Signer { key, issues });
        }
        keys.push(Rule { tier, key, queries });
    }
    if keys.is_empty() {
        return Err(wrong("key", "no key's tokens would be accepted; add [[key]] with tier and public"));
    }
    let mut users = HashMap::with_capacity(file.user.len());
    for (i, UserEntry { tier, blake3 }) in file.user.into_iter().enumerate() {
        if !signers.contains_key(&tier) {
            let cause = "no private key signs tokens of this tier; add [[key]] with tier and private";
            return Err(wrong(&format!("user.{i}.tier"), cause));
        }
        if users.insert(blake3, tier).is_some() {
            let cause = "another user has the same hash; make a token with `spirea token user`";
            return Err(wrong(&format!("user.{i}.blake3"), cause));
        }
    }
    Ok(Rules {
        challenge,
        accepts: file.challenge,
        spent: folder.join(file.spent),
        most_spent: file.most_spent.unwrap_or(MOST_SPENT),
        keys,
        signers,
        users,
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

/// Reads a private key, which only its owner may be able to read.
fn private_key(path: &Path) -> Result<IssuerKey, String> {
    let text = private_file::read(path, "spirea token issuer")?;
    IssuerKey::from_pem(&text)
        .map_err(|error| format!("{}: {error}; make one with `spirea token issuer`", path.display()))
}

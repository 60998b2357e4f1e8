//! The file of tokens, which holds their hashes.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};
use tokio::sync::Semaphore;

use super::quota::{Quota, Window};
use crate::settings::Document;

/// Permission of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Looking records up, with the configurations, hints and keys that this needs.
    Query,
    /// Publishing versions of databases.
    Publish,
    /// Reading the state of the server.
    Admin,
    /// Copying the versions of databases to a server that follows this one.
    Follow,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Query, Self::Publish, Self::Admin, Self::Follow];

    /// Returns the scope's name in the file of tokens.
    pub fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Publish => "publish",
            Self::Admin => "admin",
            Self::Follow => "follow",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reason why a file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The file cannot be read.
    #[error("{}: the file of tokens cannot be read: {source}; name a file that `spirea token new` made lines for", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The content is wrong.
    #[error("{0}")]
    Wrong(String),
}

/// Form of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(deserialize_with = "hash")]
    blake3: [u8; 32],
    scopes: Vec<Scope>,
    quota: Option<Quota>,
    concurrency: Option<usize>,
}

/// Reads a token's hash.
pub(crate) fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    blake3::Hash::from_hex(&text).map(Into::into).map_err(|_| {
        D::Error::custom("a token's hash has 64 hexadecimal digits, as `spirea token new` prints")
    })
}

/// Usage of a token, kept when the file changes.
pub(crate) struct Usage {
    pub quota: Option<Quota>,
    pub(super) window: Mutex<Window>,
    concurrency: Option<usize>,
    /// One permit for each request that the token may have at once.
    pub permits: Option<Arc<Semaphore>>,
}

impl Usage {
    fn new(quota: Option<Quota>, concurrency: Option<usize>) -> Self {
        let permits = concurrency.map(|count| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS))));
        Self { quota, window: Mutex::default(), concurrency, permits }
    }
}

/// A token of the file.
#[derive(Clone)]
pub(crate) struct Token {
    pub name: Arc<str>,
    pub scopes: Arc<[Scope]>,
    pub usage: Arc<Usage>,
    hash: [u8; 32],
}

/// The tokens of a file, as of its last successful reading.
pub(crate) struct Tokens {
    path: PathBuf,
    known: RwLock<Arc<[Token]>>,
}

impl Tokens {
    /// Reads the file.
    pub fn open(path: &Path) -> Result<Self, TokensError> {
        let known = read(path, &[])?;
        Ok(Self { path: path.into(), known: RwLock::new(known) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file again. If it is wrong, the tokens stay unchanged.
    pub fn reload(&self) -> Result<(), TokensError> {
        let known = read(&self.path, &self.known())?;
        *self.known.write() = known;
        Ok(())
    }

    /// Returns the token with the presented text. Compares all hashes, each in constant time, so
    /// that the time reveals neither the hashes nor the token's position.
    pub fn find(&self, presented: &[u8]) -> Option<Token> {
        let known = self.known();
        let hash = *blake3::hash(presented).as_bytes();
        let mut place = known.len() as u64;
        for (i, token) in known.iter().enumerate() {
            place.conditional_assign(&(i as u64), token.hash.ct_eq(&hash));
        }
        known.get(place as usize).cloned()
    }

    fn known(&self) -> Arc<[Token]> {
        Arc::clone(&self.known.read())
    }
}

/// Reads the tokens of a file. A token of `before` with the same name and limits keeps its usage.
fn read(path: &Path, before: &[Token]) -> Result<Arc<[Token]>, TokensError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| TokensError::Read { path: path.into(), source })?;
    let document = Document::new(path, &text);
    let file: File = document.read().map_err(|error| TokensError::Wrong(error.to_string()))?;
    let before: HashMap<&str, &Token> = before.iter().map(|token| (&*token.name, token)).collect();
    let mut known: Vec<Token> = Vec::with_capacity(file.token.len());
    for (i, entry) in file.token.into_iter().enumerate() {
        let wrong = |key: &str, cause: String| {
            TokensError::Wrong(document.locate(&format!("token.{i}.{key}"), &cause))
        };
        if entry.name.is_empty() || known.iter().any(|token| *token.name == *entry.name) {
            return Err(wrong("name", "each token has a name of its own; choose another".into()));
        }
        if known.iter().any(|token| token.hash == entry.blake3) {
            return Err(wrong(
                "blake3",
                "another token has the same hash; make a new one with `spirea token new`".into(),
            ));
        }
        if entry.scopes.is_empty() {
            return Err(wrong(
                "scopes",
                "a token without scopes allows nothing; give query, publish, admin or follow".into(),
            ));
        }
        if entry.concurrency == Some(0) {
            return Err(wrong(
                "concurrency",
                "a token that may have no request allows nothing; give at least 1".into(),
            ));
        }
        let usage = before
            .get(&*entry.name)
            .map(|token| &token.usage)
            .filter(|usage| (usage.quota, usage.concurrency) == (entry.quota, entry.concurrency))
            .cloned()
            .unwrap_or_else(|| Arc::new(Usage::new(entry.quota, entry.concurrency)));
        known.push(Token { name: entry.name.into(), scopes: entry.scopes.into(), usage, hash: entry.blake3 });
    }
    Ok(known.into())
}

#[cfg(test)]
pub(super) fn token_for_tests(name: &str, scopes: &[Scope], quota: Option<Quota>) -> Token {
    Token {
        name: name.into(),
        scopes: scopes.into(),
        usage: Arc::new(Usage::new(quota, None)),
        hash: [0; 32],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, token: &str, rest: &str) -> String {
        format!(
            "[[token]]\nname = \"{name}\"\nblake3 = \"{}\"\n{rest}\n",
            blake3::hash(token.as_bytes()).to_hex()
        )
    }

    fn open(text: &str) -> Result<(tempfile::TempDir, Tokens), TokensError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        std::fs::write(&path, text).unwrap();
        Tokens::open(&path).map(|tokens| (folder, tokens))
    }

    #[test]
    fn a_token_is_found_wherever_it_stands() {
        let text: String =
            ["a", "b", "c"].iter().map(|name| entry(name, name, "scopes = [\"query\"]")).collect();
        let (_folder, tokens) = open(&text).unwrap();
        for name in ["a", "b", "c"] {
            assert_eq!(&*tokens.find(name.as_bytes()).unwrap().name, name);
        }
        for unknown in ["", "d", "aa", "A"] {
            assert!(tokens.find(unknown.as_bytes()).is_none());
        }
        assert!(open("").unwrap().1.find(b"").is_none());
    }

    #[test]
    fn a_change_keeps_what_was_used_and_a_wrong_file_changes_nothing() {
        let rest = "scopes = [\"query\"]\nquota = \"5/day\"";
        let (_folder, tokens) = open(&entry("a", "one", rest)).unwrap();
        let usage = tokens.find(b"one").unwrap().usage;
        std::fs::write(&tokens.path, "[[token]]\nname = 3").unwrap();
        assert!(tokens.reload().is_err());
        assert!(tokens.find(b"one").is_some());
        // A new secret under the same name keeps the old secret's remaining quota.
        std::fs::write(&tokens.path, entry("a", "two", rest)).unwrap();
        tokens.reload().unwrap();
        assert!(tokens.find(b"one").is_none());
        assert!(Arc::ptr_eq(&tokens.find(b"two").unwrap().usage, &usage));
        std::fs::write(&tokens.path, entry("a", "two", "scopes = [\"query\"]\nquota = \"6/day\"")).unwrap();
        tokens.reload().unwrap();
        assert!(!Arc::ptr_eq(&tokens.find(b"two").unwrap().usage, &usage));
    }

    #[test]
    fn a_wrong_file_is_explained_with_its_line() {
        let good = entry("a", "one", "scopes = [\"query\"]");
        for (text, line, words) in [
            (good.clone() + "colour = 1\n", ":5: token.0.colour", "unknown key"),
            (good.clone() + "quota = \"5\"\n", ":5: token.0.quota", "1000/day"),
            (good.clone() + "concurrency = 0\n", ":5: token.0.concurrency", "at least 1"),
            (
                good.clone() + &entry("a", "two", "scopes = [\"query\"]"),
                ":6: token.1.name",
                "a name of its own",
            ),
            (
                good.clone() + &entry("b", "one", "scopes = [\"query\"]"),
                ":7: token.1.blake3",
                "spirea token new",
            ),
            (entry("a", "one", "scopes = []"), ":4: token.0.scopes", "query, publish, admin or follow"),
            (entry("a", "one", "scopes = [\"all\"]"), ":4: token.0.scopes", "publish"),
            (
                "[[token]]\nname = \"a\"\nblake3 = \"12\"\nscopes = []\n".into(),
                ":3: token.0.blake3",
                "64 hexadecimal",
            ),
        ] {
            let error = open(&text).map(drop).unwrap_err().to_string();
            assert!(error.contains(line) && error.contains(words), "{error}");
        }
    }
}

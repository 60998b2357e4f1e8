//! Evaluation keys that replicas share by a Redis server.
//!
//! A server without Redis, or whose Redis fails, is a server of its own: clients upload their keys again. So nothing
//! here is an error to a client, and a Redis that does not answer costs little time: after a failure it is left alone
//! for a while.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{Client, Connection, RedisError, cmd};
use spirea_engine::keys::SharedKeys;

/// The longest time to connect, and for a command to be answered.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a Redis server is left alone after it failed.
const PAUSE: Duration = Duration::from_secs(5);
/// Code of the reply to a command that would need more memory than the server may use.
const OUT_OF_MEMORY: &str = "OOM";
/// What the names of keys begin with there.
const PREFIX: &[u8] = b"spirea:keys:";

/// The address of a Redis server, such as `redis://127.0.0.1:6379/0`. It may hold a password, so that nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

impl From<String> for RedisUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisUrl")
    }
}

impl RedisUrl {
    /// A client for it, which does not connect yet.
    fn client(&self) -> Result<Client, String> {
        // The library's words may repeat the address, and its password.
        Client::open(self.0.as_str()).map_err(|_| {
            "this is no address of a Redis server; name one such as redis://127.0.0.1:6379/0".into()
        })
    }

    /// Checks its form.
    ///
    /// # Errors
    /// What an address looks like.
    pub fn check(&self) -> Result<(), String> {
        self.client().map(drop)
    }
}

/// A Redis server, asked by one request at a time.
pub(crate) struct RedisKeys {
    client: Client,
    link: Mutex<Link>,
}

#[derive(Default)]
struct Link {
    connection: Option<Connection>,
    /// Until when it is left alone.
    paused: Option<Instant>,
}

impl RedisKeys {
    /// The server at an address; it is connected to when it is needed.
    ///
    /// # Errors
    /// What an address looks like.
    pub fn new(url: &RedisUrl) -> Result<Self, String> {
        Ok(Self { client: url.client()?, link: Mutex::default() })
    }

    /// Runs a command, unless the server failed a short while ago.
    fn ask<T>(&self, ask: impl FnOnce(&mut Connection) -> Result<T, RedisError>) -> Option<T> {
        let mut link = self.lock();
        if link.paused.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let answer = match link.connection.take() {
            Some(connection) => Ok(connection),
            None => self.connect(),
        };
        let answer = answer.map(|mut connection| (ask(&mut connection), connection));
        match answer {
            Ok((Ok(answer), connection)) => {
                *link = Link { connection: Some(connection), paused: None };
                Some(answer)
            }
            // It still answers reads.
            Ok((Err(error), connection)) if error.code() == Some(OUT_OF_MEMORY) => {
                *link = Link { connection: Some(connection), paused: None };
                tracing::warn!("Redis has no memory left; set its maxmemory-policy to allkeys-lru");
                None
            }
            Ok((Err(error), _)) | Err(error) => {
                // What was asked may be half done: the connection is given up.
                *link = Link { connection: None, paused: Some(Instant::now() + PAUSE) };
                tracing::warn!(cause = ?error.kind(), "Redis failed; clients whose keys are not here upload them again");
                None
            }
        }
    }

    fn connect(&self) -> Result<Connection, RedisError> {
        let connection = self.client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    // It is replaced in one step.
    fn lock(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedKeys for RedisKeys {
    fn fetch(&self, name: &[u8; 32], most: usize) -> Option<Vec<u8>> {
        // Asks for a range, so that no more comes than is wanted, whatever is there: all of it, and a byte to tell that
        // it is longer.
        let found = |connection: &mut Connection| -> Result<Vec<u8>, RedisError> {
            cmd("GETRANGE").arg(key(name)).arg(0).arg(most).query(connection)
        };
        self.ask(found).filter(|bytes| !bytes.is_empty())
    }

    fn store(&self, name: &[u8; 32], bytes: &[u8], expiry: Duration) {
        let seconds = expiry.as_secs().max(1);
        self.ask(|connection| cmd("SETEX").arg(key(name)).arg(seconds).arg(bytes).query::<()>(connection));
    }
}

fn key(name: &[u8; 32]) -> Vec<u8> {
    [PREFIX, blake3::Hash::from_bytes(*name).to_hex().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_checked_and_never_shown() {
        for url in ["redis://127.0.0.1:6379", "redis://:secret@keys.test:6379/1", "redis://keys.test"] {
            let url = RedisUrl::from(url.to_owned());
            assert!(url.check().is_ok() && !format!("{url:?}").contains("secret"));
        }
        for wrong in ["", "127.0.0.1:6379", "http://:secret@host", "redis://host:port"] {
            let error = RedisUrl::from(wrong.to_owned()).check().unwrap_err();
            assert!(error.contains("redis://127.0.0.1:6379/0") && !error.contains("secret"), "{error}");
        }
    }
}

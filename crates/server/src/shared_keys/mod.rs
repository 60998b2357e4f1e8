//! Evaluation keys that replicas share through a Redis server.
//!
//! Without Redis, or while Redis fails, a replica works alone: clients upload their keys again. So
//! no failure here is an error for a client. A Redis server that does not respond costs little
//! time: an exchange with it has a deadline, and it is not contacted for a while after a failure.

mod exchange;

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::{Client, Cmd, ConnectionInfo, FromRedisValue, cmd};
use spirea_engine::keys::SharedKeys;

use self::exchange::Connection;

/// Time for which a Redis server is not contacted after a failure.
const PAUSE: Duration = Duration::from_secs(5);
/// Code of the reply to a command that would exceed the server's memory limit.
const OUT_OF_MEMORY: &str = "OOM";
/// Prefix of the keys' names in Redis.
const PREFIX: &[u8] = b"spirea:keys:";

/// Address of a Redis server, such as `redis://127.0.0.1:6379/0`. It may contain a password, so
/// nothing prints it.
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
    /// Returns the parts of the address.
    fn parsed(&self) -> Result<ConnectionInfo, String> {
        // The library's message may repeat the address with its password. Opening a client does not
        // connect it.
        let client = Client::open(self.0.as_str())
            .map_err(|_| "this is no address of a Redis server; name one such as redis://127.0.0.1:6379/0")?;
        Ok(client.get_connection_info().clone())
    }

    /// Checks the form of the address.
    ///
    /// # Errors
    /// A description of the format of addresses.
    pub fn check(&self) -> Result<(), String> {
        self.parsed().map(drop)
    }
}

/// A Redis server, used by one request at a time.
pub(crate) struct RedisKeys {
    server: ConnectionInfo,
    /// Maximum time of an exchange, and of the wait for those of other requests.
    timeout: Duration,
    link: Mutex<Link>,
}

#[derive(Default)]
struct Link {
    connection: Option<Connection>,
    /// End of the pause after a failure.
    paused: Option<Instant>,
}

impl RedisKeys {
    /// Creates a client of the server at an address; it connects on first use. An exchange takes
    /// at most the time `timeout`.
    ///
    /// # Errors
    /// A description of the format of addresses.
    pub fn new(url: &RedisUrl, timeout: Duration) -> Result<Self, String> {
        Ok(Self { server: url.parsed()?, timeout, link: Mutex::default() })
    }

    /// Runs a command whose reply has at most `most` bytes, unless the server failed recently or
    /// other requests occupy the connection for too long.
    fn ask<T: FromRedisValue>(&self, command: &Cmd, most: usize) -> Option<T> {
        let arrived = Instant::now();
        let mut link = self.link.lock();
        let now = Instant::now();
        if now - arrived > self.timeout || link.paused.is_some_and(|until| now < until) {
            return None;
        }
        let deadline = now + self.timeout;
        let answer = match link.connection.take() {
            Some(connection) => Ok(connection),
            None => Connection::open(&self.server, deadline),
        };
        let answer = answer.map(|mut connection| (connection.ask(command, most, deadline), connection));
        match answer {
            Ok((Ok(answer), connection)) => {
                *link = Link { connection: Some(connection), paused: None };
                Some(answer)
            }
            // The server still answers reads.
            Ok((Err(error), connection)) if error.code() == Some(OUT_OF_MEMORY) => {
                *link = Link { connection: Some(connection), paused: None };
                tracing::warn!("Redis has no memory left; set its maxmemory-policy to allkeys-lru");
                None
            }
            Ok((Err(error), _)) | Err(error) => {
                // The command may be half done, so the connection is dropped.
                *link = Link { connection: None, paused: Some(Instant::now() + PAUSE) };
                tracing::warn!(cause = ?error.kind(), "Redis failed; clients whose keys are not here upload them again");
                None
            }
        }
    }
}

impl SharedKeys for RedisKeys {
    fn fetch(&self, name: &[u8; 32], most: usize) -> Option<Vec<u8>> {
        // GETRANGE bounds the reply, whatever is stored. Its end is inclusive: the reply has up to
        // `most + 1` bytes, and the last one tells the caller that the value is too long.
        let found: Option<Vec<u8>> = self.ask(cmd("GETRANGE").arg(key(name)).arg(0).arg(most), most + 1);
        found.filter(|bytes| !bytes.is_empty())
    }

    fn store(&self, name: &[u8; 32], bytes: &[u8], expiry: Duration) {
        let seconds = expiry.as_secs().max(1);
        self.ask::<()>(cmd("SETEX").arg(key(name)).arg(seconds).arg(bytes), 0);
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

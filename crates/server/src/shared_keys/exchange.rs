//! Connection to a Redis server whose exchanges end by a deadline.
//!
//! The library's own connection has a timeout for each read, so a server that sends one byte at a
//! time would hold a request for as long as it likes. Commands and the parser are the library's.

use std::io::{self, Read, Write};
use std::net::ToSocketAddrs as _;
use std::time::{Duration, Instant};

use redis::{Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue, Parser, RedisError, cmd, from_redis_value};
use socket2::{SockAddr, Socket, Type};

/// Maximum bytes of a reply beside its value: type, length, line ends, or the text of an error.
const MAX_HEAD_BYTES: usize = 4 << 10;

/// Connection to a Redis server. After an error, replies may no longer match commands, so the
/// connection must be dropped.
pub(super) struct Connection {
    socket: Socket,
    parser: Parser,
}

impl Connection {
    /// Connects and logs in by `deadline`. Only the resolver may take longer, for a host name.
    ///
    /// # Errors
    /// The system's or the server's error; a timeout.
    pub fn open(info: &ConnectionInfo, deadline: Instant) -> Result<Self, RedisError> {
        let socket = match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                let socket =
                    connect_any((host.as_str(), *port).to_socket_addrs()?.map(Into::into), deadline)?;
                socket.set_tcp_nodelay(true)?;
                socket
            }
            ConnectionAddr::Unix(path) => connect_any([SockAddr::unix(path)?], deadline)?,
            _ => return Err(io::Error::from(io::ErrorKind::Unsupported).into()),
        };
        let mut connection = Self { socket, parser: Parser::new() };
        let settings = info.redis_settings();
        if let Some(password) = settings.password() {
            connection.ask::<()>(cmd("AUTH").arg(settings.username()).arg(password), 0, deadline)?;
        }
        if settings.db() != 0 {
            connection.ask::<()>(cmd("SELECT").arg(settings.db()), 0, deadline)?;
        }
        Ok(connection)
    }

    /// Sends a command and reads its reply, a value of at most `most` bytes, by `deadline`.
    ///
    /// # Errors
    /// The system's or the server's error; a timeout; a reply that is malformed or too long.
    pub fn ask<T: FromRedisValue>(
        &mut self,
        command: &Cmd,
        most: usize,
        deadline: Instant,
    ) -> Result<T, RedisError> {
        let mut bounded = Bounded { socket: &self.socket, deadline, left: MAX_HEAD_BYTES + most };
        bounded.write_all(&command.get_packed_command())?;
        let reply = self.parser.parse_value(&mut bounded)?.extract_error()?;
        Ok(from_redis_value(reply)?)
    }
}

/// Connects to the first of the addresses that accepts.
fn connect_any(addresses: impl IntoIterator<Item = SockAddr>, deadline: Instant) -> io::Result<Socket> {
    let mut error = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        let socket = Socket::new(address.domain(), Type::STREAM, None)?;
        match left_until(deadline).and_then(|left| socket.connect_timeout(&address, left)) {
            Ok(()) => return Ok(socket),
            Err(refused) => error = refused,
        }
    }
    Err(error)
}

/// Returns the time left until a deadline.
///
/// # Errors
/// A timeout if the deadline has passed.
fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Stream of one exchange. Reads and writes end by its deadline, and the number of bytes that it
/// reads is bounded.
struct Bounded<'s> {
    socket: &'s Socket,
    deadline: Instant,
    left: usize,
}

impl Read for Bounded<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !bytes.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the reply is too long"));
        }
        self.socket.set_read_timeout(Some(left_until(self.deadline)?))?;
        let most = bytes.len().min(self.left);
        let read = self.socket.read(&mut bytes[..most])?;
        self.left -= read;
        Ok(read)
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(left_until(self.deadline)?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use socket2::Domain;
    use spirea_specimens::{Inputs, inputs};

    use super::*;

    /// Returns the value that a client reads from a server that sends `reply` and closes the
    /// connection.
    fn heard(reply: &[u8], most: usize) -> Result<Vec<u8>, RedisError> {
        let (socket, server) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        let mut connection = Connection { socket, parser: Parser::new() };
        (&server).write_all(reply).unwrap();
        server.shutdown(std::net::Shutdown::Write).unwrap();
        connection.ask(cmd("GET").arg("a"), most, Instant::now() + Duration::from_secs(60))
    }

    #[test]
    fn a_reply_is_a_value_or_an_error() {
        assert_eq!(heard(b"$3\r\nabc\r\n", 3).unwrap(), b"abc");
        assert_eq!(heard(b"-OOM no memory\r\n", 3).unwrap_err().code(), Some("OOM"));
        let long = [&b"$8192\r\n"[..], &[b'x'; 8192], b"\r\n"].concat();
        assert_eq!(heard(&long, 8192).unwrap().len(), 8192);
        assert!(heard(&long, 3).unwrap_err().to_string().contains("too long"));
        assert!(heard(&[b'+'; 9000], 3).unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn any_bytes_are_a_reply_or_an_error() {
        let corpus: Vec<Vec<u8>> = [
            &b"$3\r\nabc\r\n"[..],
            b"+OK\r\n",
            b"-OOM no memory\r\n",
            b"$99999999999999\r\n",
            b"*2147483647\r\n",
            b"*3\r\n:1\r\n_\r\n,1.5\r\n",
            b"%1\r\n+a\r\n~2\r\n#t\r\n(123456\r\n",
            b"!5\r\nERR x\r\n=7\r\ntxt:abc\r\n",
            b">2\r\n+message\r\n|1\r\n+a\r\n+b\r\n",
            b"$-1\r\n=-7\r\n",
        ]
        .map(<[u8]>::to_vec)
        .into();
        let deep = b"*1\r\n".repeat(900);
        let mut made = Inputs::new(5);
        corpus.iter().chain([&deep]).for_each(|reply| drop(heard(reply, 100)));
        for _ in 0..inputs(2000) {
            if let Ok(value) = heard(&made.changed(&corpus), 100) {
                assert!(value.len() <= MAX_HEAD_BYTES + 100);
            }
        }
    }
}

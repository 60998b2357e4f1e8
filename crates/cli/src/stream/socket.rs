//! A Unix socket as the source of a stream: each connection is a stream of its own.

use std::io::{self, ErrorKind, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use spirea_console::output::{explained, print_error};
use spirea_console::status::Status;
use spirea_store::changes::Grouping;

use super::lines::Lines;
use super::{Bounds, Destination, NO_THREAD, run};

/// Publishes the lines of connections to a socket, one connection after another, for ever. An error
/// ends only the connection on which it occurs.
pub fn publish(path: &Path, destination: &Destination, bounds: &Bounds) -> anyhow::Result<Status> {
    let place = || path.display().to_string();
    let listener = listen(path).with_context(place)?;
    loop {
        let (connection, _) = listener.accept().with_context(place)?;
        if let Err(error) = take(&connection, &place(), destination, bounds) {
            let text = explained(&error);
            print_error(&format!("spirea: {text}"));
            // The producer may have left already.
            let _ = reply(&connection, &json!({ "error": text }));
        }
        // The reading thread also holds the connection, so dropping it here would not close it.
        let _ = connection.shutdown(Shutdown::Both);
    }
}

/// Listens on a socket. A socket on which nobody listens is replaced.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let is_socket = path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

/// Publishes the lines of a connection until it ends.
fn take(
    connection: &UnixStream,
    name: &str,
    destination: &Destination,
    bounds: &Bounds,
) -> anyhow::Result<()> {
    let (table, before) = destination.position()?;
    reply(connection, &json!({ "cursor": before }))?;
    let lines = Lines::read(connection.try_clone()?, name).context(NO_THREAD)?;
    let grouping = Grouping::new(table.clone(), before, name);
    run(lines, None, grouping, bounds, |changes| reply(connection, &destination.publish(changes, &table)?))
}

fn reply(mut connection: &UnixStream, line: &Value) -> anyhow::Result<()> {
    connection.write_all(format!("{line}\n").as_bytes()).context("the producer has left")
}

//! Programs as a person runs them: real processes and files, and plain requests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs a program in a folder, which also contains the program's cache, and waits for its end.
pub fn run(program: &str, folder: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .output()
        .expect("the command runs")
}

/// Runs a program and returns its output. Panics if the status differs from `status`.
pub fn expect(program: &str, folder: &Path, status: i32, arguments: &[&str]) -> Output {
    let output = run(program, folder, arguments);
    assert_eq!(
        output.status.code(),
        Some(status),
        "{program} {arguments:?}\n{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// Returns the text of a program's output.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses a text with one JSON object per line.
pub fn objects(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Makes a temporary folder with these files.
pub fn folder_with(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// Sends a plain GET to a server, and returns the whole response.
pub fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    text(&answer)
}

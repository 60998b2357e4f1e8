//! Proxies that the environment names: used, refused, and named in errors.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use crate::command::{SPIREA, Server, expect, folder_with, text};

/// Variables that name a proxy, or the hosts that are reached without a proxy.
const VARIABLES: [&str; 8] = [
    "ALL_PROXY",
    "all_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
];

/// Runs the command with these variables, and without other variables about proxies.
fn spirea(folder: &std::path::Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(SPIREA);
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command.args(arguments).current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command.envs(variables.iter().copied()).output().unwrap()
}

/// A SOCKS proxy that connects every client to one server, and records the addresses that clients
/// ask for.
struct Socks {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Socks {
    fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for client in listener.incoming() {
                let log = Arc::clone(&log);
                // A client may disconnect before it has named an address.
                thread::spawn(move || carry(client.unwrap(), server, &log).unwrap_or_default());
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }
}

/// Refuses a request without a login. Reads all that the client sends: bytes that nobody has read
/// would reset the connection before the refusal arrives.
fn refuse(mut client: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(take::<1>(&mut client)?);
    }
    let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
    client.write_all(refusal.as_bytes())?;
    client.shutdown(Shutdown::Write)?;
    client.read_to_end(&mut Vec::new()).map(drop)
}

fn take<const N: usize>(stream: &mut TcpStream) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Speaks SOCKS 4 or 5 with a client, then passes bytes on both ways.
fn carry(mut client: TcpStream, server: SocketAddr, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let address = |[a, b, c, d]: [u8; 4]| format!("{a}.{b}.{c}.{d}");
    let asked = match take::<1>(&mut client)? {
        [4] => {
            let [_, _, _, a, b, c, d] = take(&mut client)?;
            while take::<1>(&mut client)? != [0] {}
            client.write_all(&[0, 90, 0, 0, 0, 0, 0, 0])?;
            address([a, b, c, d])
        }
        _ => {
            let [methods] = take(&mut client)?;
            client.read_exact(&mut vec![0; methods.into()])?;
            client.write_all(&[5, 0])?;
            let [_, _, _, kind] = take(&mut client)?;
            let host = if kind == 1 {
                address(take(&mut client)?)
            } else {
                let [length] = take(&mut client)?;
                let mut name = vec![0; length.into()];
                client.read_exact(&mut name)?;
                text(&name)
            };
            take::<2>(&mut client)?;
            client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
            host
        }
    };
    log.lock().push(asked);
    let upstream = TcpStream::connect(server)?;
    let back = (upstream.try_clone()?, client.try_clone()?);
    let pass = |(mut from, mut to): (TcpStream, TcpStream)| {
        let passed = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
        passed
    };
    let returning = thread::spawn(move || pass(back));
    pass((client, upstream))?;
    let _ = returning.join();
    Ok(())
}

#[test]
fn proxies_of_the_environment_are_used_or_refused_and_named() {
    let folder = folder_with(&[("t.csv", "k,v\na,first\n")]);
    let folder = folder.path();
    expect(folder, 0, &["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"]);
    let server = Server::ready(folder, &["t"]);
    let socks = Socks::start(server.address().parse().unwrap());
    let get = |url: &str, variables: &[(&str, &str)]| {
        let output = spirea(folder, &["get", url, "t", "a", "--no-cache"], variables);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };

    // No server has these addresses, so only the proxy can answer.
    for (scheme, url, asked) in [
        ("socks5h", "http://pir.invalid", "pir.invalid"),
        ("socks5", "http://192.0.2.1", "192.0.2.1"),
        ("socks4", "http://192.0.2.1", "192.0.2.1"),
    ] {
        let proxy = format!("{scheme}://{}", socks.address);
        let (status, found, said) = get(url, &[("ALL_PROXY", &proxy)]);
        assert_eq!((status, &*found), (Some(0), "first\n"), "{scheme}: {said}");
        let seen = socks.asked();
        assert!(!seen.is_empty() && seen.iter().all(|seen| seen == asked), "{scheme}: {seen:?}");
    }
    // The doctor opens no connection that bypasses the proxy.
    let proxy = format!("socks5h://{}", socks.address);
    let examined = spirea(folder, &["doctor", "http://pir.invalid"], &[("ALL_PROXY", &proxy)]);
    let (lines, said) = (text(&examined.stdout), text(&examined.stderr));
    assert!(
        examined.status.success() && lines.contains("socks5h://") && !lines.contains("dns"),
        "{lines}{said}"
    );
    // Requests to this machine do not go through the proxy.
    socks.asked();
    assert_eq!(get(&server.url, &[("ALL_PROXY", &proxy)]).0, Some(0));
    assert_eq!(socks.asked(), [""; 0]);

    // A proxy of another kind is refused, and nothing goes out directly.
    let (status, _, said) = get("http://pir.invalid", &[("ALL_PROXY", "socks6://me:secret@127.0.0.1:9")]);
    assert_eq!(status, Some(2));
    assert!(said.contains("ALL_PROXY names no proxy") && !said.contains("secret"), "{said}");

    // The local end of a connection keeps its port in use, and nobody listens on it.
    let taken = TcpStream::connect(server.address()).unwrap();
    let closed = taken.local_addr().unwrap();
    let url = format!("http://me:secret@{closed}");
    let (status, _, said) = get("http://pir.invalid", &[("http_proxy", &url)]);
    assert_eq!(status, Some(2));
    assert!(said.contains(&format!("through the proxy http://{closed} of http_proxy")), "{said}");
    assert!(!said.contains("secret"), "{said}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming() {
            refuse(client.unwrap()).unwrap_or_default();
        }
    });
    let (status, _, said) = get("http://pir.invalid", &[("HTTP_PROXY", &url)]);
    assert_eq!(status, Some(2));
    assert!(said.contains("407") && said.contains(&url) && said.contains("login"), "{said}");
}

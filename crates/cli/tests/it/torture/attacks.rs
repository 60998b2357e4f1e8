//! Clients that occupy a server's resources from their own address, beside an honest client that
//! must be answered.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use spirea_client::{ClientOptions, agent, root_certificates, tls_config};
use tempfile::tempdir;
use ureq::Agent;
use ureq::tls::TlsConfig;

use crate::torture::malformed::p99;
use crate::torture::scale::Scale;
use crate::torture::service::{Service, serve};
use crate::torture::table::{options, snapshot};

/// Address of the attackers, which differs from the honest client's.
const ELSEWHERE: [u8; 4] = [127, 0, 0, 2];
/// Bound on the memory of all connections from one address, in MiB.
const MEMORY_MIB: u64 = 64;
/// Additional memory that the allocator may keep, in KiB.
const ROOM_KIB: u64 = 48 << 10;

#[derive(Clone, Copy, Debug)]
enum Attack {
    /// 64 hints on an HTTP/2 connection whose windows are closed, and a PING each second.
    Pings,
    /// A head of 60 kB without an end.
    Heads,
    /// 16 hints that the client never reads.
    Hints,
    /// A method of 400 kB, again and again.
    Methods,
    /// A request sent at one byte every 5 seconds.
    Drip,
}

impl Attack {
    const ALL: [Self; 5] = [Self::Pings, Self::Heads, Self::Hints, Self::Methods, Self::Drip];

    fn protocol(self) -> &'static [u8] {
        if matches!(self, Self::Pings) { b"h2" } else { b"http/1.1" }
    }

    /// First bytes of a connection.
    fn beginning(self) -> Vec<u8> {
        const HINT: &str = "/v1/databases/table/hint";
        let hint = format!("GET {HINT} HTTP/1.1\r\nhost: x\r\n\r\n");
        match self {
            Self::Pings => {
                let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
                    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
                    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
                };
                let field = |name: u8, value: &str| {
                    [&[name, u8::try_from(value.len()).unwrap()], value.as_bytes()].concat()
                };
                let block = [vec![0x82, 0x87], field(0x04, HINT), field(0x01, "x")].concat();
                let no_window = [0, 4, 0, 0, 0, 0];
                let asked = (0..64).flat_map(|i| frame(1, 0x5, 2 * i + 1, &block));
                let settings = frame(4, 0, 0, &no_window);
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".iter().copied().chain(settings).chain(asked).collect()
            }
            Self::Heads => format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}", "y".repeat(60_000)).into_bytes(),
            Self::Hints => hint.repeat(16).into_bytes(),
            Self::Methods => format!("{} / HTTP/1.1\r\nhost: x\r\n\r\n", "M".repeat(400_000)).into_bytes(),
            Self::Drip => Vec::new(),
        }
    }

    /// Pause between two steps.
    fn pace(self) -> Duration {
        Duration::from_secs(if matches!(self, Self::Drip) { 5 } else { 1 })
    }

    /// Bytes of each further step; `None` for a step that opens a new connection.
    fn step(self) -> Option<&'static [u8]> {
        match self {
            Self::Pings => Some(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            Self::Heads => Some(b"y"),
            Self::Hints | Self::Drip => Some(b"G"),
            Self::Methods => None,
        }
    }

    /// Opens a connection, unless the server has no place for it.
    fn begin(
        self,
        address: SocketAddr,
        tls: &ClientConfig,
    ) -> Option<StreamOwned<ClientConnection, TcpStream>> {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![self.protocol().to_vec()];
        let name = ServerName::from(IpAddr::from([127, 0, 0, 1]));
        let mut stream =
            StreamOwned::new(ClientConnection::new(Arc::new(tls), name).unwrap(), dial(address)?);
        stream.write_all(&self.beginning()).ok()?;
        stream.flush().ok().map(|()| stream)
    }

    /// Holds `count` connections until the other end of `stop` is dropped, and reports when the
    /// first ones are open. Reopens connections that the server ends.
    fn go_on(
        self,
        address: SocketAddr,
        tls: &ClientConfig,
        count: usize,
        begun: &Sender<()>,
        stop: &Receiver<()>,
    ) {
        let mut streams: Vec<_> = (0..count).map(|_| self.begin(address, tls)).collect();
        begun.send(()).unwrap();
        while stop.recv_timeout(self.pace()) == Err(RecvTimeoutError::Timeout) {
            for held in &mut streams {
                let held_on = held
                    .as_mut()
                    .zip(self.step())
                    .is_some_and(|(stream, step)| stream.write_all(step).is_ok() && stream.flush().is_ok());
                if !held_on {
                    *held = self.begin(address, tls);
                }
            }
        }
    }
}

/// Connects from the attackers' address.
fn dial(address: SocketAddr) -> Option<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((ELSEWHERE, 0).into()).unwrap();
        socket.connect(address).await.ok()?.into_std().ok()
    })?;
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    Some(stream)
}

/// Writes a certificate and its key for the server.
fn certify(folder: &Path) {
    let names = ["127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    std::fs::write(folder.join("certificate.pem"), cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), signing_key.serialize_pem()).unwrap();
}

#[test]
fn connections_that_are_held_do_not_stop_others() {
    let scale = Scale::chosen();
    let folder = tempdir().unwrap();
    let folder = folder.path();
    certify(folder);
    let ca = folder.join("certificate.pem");
    let key = folder.join("key.pem");
    let table = snapshot(folder, "table", "simple", 1);
    let files = ["--tls-certificate", ca.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let mut command = serve(&[table.folder()], &files);
    command.env("SPIREA_LIMITS__CLIENT_CONNECTION_MEMORY", format!("{MEMORY_MIB}MiB"));
    let service = Service::start(command, &folder.join("log")).unwrap();
    let address: SocketAddr = service.url.strip_prefix("https://").unwrap().parse().unwrap();
    let trusting = TlsConfig::builder().root_certs(root_certificates(&ca).unwrap()).build();
    let tls = tls_config(&trusting);
    let http = agent(Agent::config_builder().tls_config(trusting).proxy(None).build());
    let reserved_mib = || {
        let mut response = http.get(format!("{}/metrics", service.url)).call().unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        let bytes = text.lines().find_map(|line| line.strip_prefix("spirea_connection_memory_bytes "));
        bytes.unwrap().parse::<u64>().unwrap() >> 20
    };
    let honest = || ClientOptions { ca: Some(ca.clone()), ..options(&folder.join("cache")) };

    let alone = p99(&service.url, honest(), scale.beside);
    let before = service.memory_kib();
    let beside = thread::scope(|scope| {
        let (begun, begins) = mpsc::channel();
        let stops = Attack::ALL.map(|attack| {
            let (stop, stopped) = mpsc::channel();
            let (tls, begun) = (&tls, begun.clone());
            scope.spawn(move || attack.go_on(address, tls, scale.slow, &begun, &stopped));
            stop
        });
        Attack::ALL.iter().for_each(|_| begins.recv().unwrap());
        let beside = p99(&service.url, honest(), scale.beside);
        let (during, reserved) = (service.memory_kib(), reserved_mib());
        println!(
            "memory: {before} KiB before the attacks, {during} KiB beside them, {reserved} MiB reserved"
        );
        // The attackers take their share of memory or slightly less, and the honest client takes a
        // few connections.
        assert!((MEMORY_MIB / 2..=MEMORY_MIB + 2).contains(&reserved), "{reserved} MiB are reserved");
        assert!(during <= before + (MEMORY_MIB << 10) + ROOM_KIB, "{before} KiB became {during} KiB");
        drop(stops);
        beside
    });
    println!(
        "p99 of {} look-ups: {alone:?}; beside {} connections of each of {:?}: {beside:?}",
        scale.beside,
        scale.slow,
        Attack::ALL
    );
    assert!(service.runs());
    p99(&service.url, honest(), 1);
}

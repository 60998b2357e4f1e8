//! A server that makes its clients resume TLS sessions, in order to recognise their earlier
//! connections.

use std::sync::mpsc::{Receiver, channel};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::HandshakeKind::{self, Full, Resumed};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::ServerConnection;
use rustls::{ServerConfig, StreamOwned, SupportedProtocolVersion};
use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use super::*;
use crate::http::agent;

/// Starts a server with tickets; returns its port, its certificate as PEM, and the handshakes of
/// its connections.
fn serving(version: &'static SupportedProtocolVersion) -> (u16, String, Receiver<HandshakeKind>) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    config.ticketer = rustls::crypto::ring::Ticketer::new().unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, handshakes) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").unwrap();
            stream.conn.send_close_notify();
            stream.flush().unwrap();
            seen.send(stream.conn.handshake_kind().unwrap()).unwrap();
        }
    });
    (port, cert.pem(), handshakes)
}

/// Returns the handshakes of two requests of an agent, made from a configuration that trusts the
/// server.
fn handshakes(
    version: &'static SupportedProtocolVersion,
    agent: impl Fn(ureq::config::Config) -> Agent,
) -> [HandshakeKind; 2] {
    let (port, certificate, handshakes) = serving(version);
    let roots: Vec<_> = parse_pem(certificate.as_bytes())
        .map(|item| match item.unwrap() {
            PemItem::Certificate(certificate) => certificate,
            _ => panic!("there is more than a certificate"),
        })
        .collect();
    let tls = TlsConfig::builder().root_certs(RootCerts::from(roots)).build();
    let agent = agent(Agent::config_builder().tls_config(tls).proxy(None).build());
    [(); 2].map(|()| {
        let mut response = agent.get(format!("https://localhost:{port}/")).call().unwrap();
        assert_eq!(response.body_mut().read_to_string().unwrap(), "ok");
        handshakes.recv_timeout(Duration::from_secs(60)).unwrap()
    })
}

#[test]
fn clients_resume_no_tls_session() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        // Without this crate's connector, sessions are resumed.
        assert_eq!(handshakes(version, Agent::from), [Full, Resumed]);
        assert_eq!(handshakes(version, agent), [Full, Full]);
    }
}

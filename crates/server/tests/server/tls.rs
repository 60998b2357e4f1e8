//! TLS: certificates, their replacement, and both versions of HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use spirea_client::{ClientError, ClientOptions, HttpClient};
use spirea_server::{ServeError, Server, ServerConfig, TlsError, TlsFiles};
use spirea_specimens::no_hook;
use spirea_specimens::snapshots::{key, value};
use tempfile::tempdir;

use crate::fixture::{Running, dial, eventually, options, serve_config, texts, urls};

/// Certificate authority of the tests.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a certificate for this machine that expires at the beginning of `year`.
    pub fn issue(&self, files: &TlsFiles, year: i32) {
        self.issue_for(["localhost", "127.0.0.1"], files, year);
    }

    fn issue_for<const N: usize>(&self, names: [&str; N], files: &TlsFiles, year: i32) {
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names.map(String::from)).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&pair, &self.0).unwrap();
        std::fs::write(&files.certificate, certificate.pem() + &self.0.pem()).unwrap();
        std::fs::write(&files.key, pair.serialize_pem()).unwrap();
    }

    /// Writes the authority's certificate into a folder.
    pub fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("ca.pem");
        std::fs::write(&path, self.0.pem()).unwrap();
        path
    }

    /// Returns the TLS configuration of a client that trusts this authority.
    pub fn client(&self, protocols: &[&[u8]]) -> Arc<ClientConfig> {
        self.client_of(rustls::DEFAULT_VERSIONS, protocols)
    }

    /// Returns a client configuration restricted to these versions of TLS.
    fn client_of(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        protocols: &[&[u8]],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.0.der().to_vec())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }

    fn dial(&self, server: &Running) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(self.client(&[]), name).unwrap(), dial(server.address))
    }

    /// True if a new connection to the server gets a certificate of this authority.
    fn is_of(&self, server: &Running) -> bool {
        let mut stream = self.dial(server);
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").is_ok()
            && stream.read_exact(&mut [0; 12]).is_ok()
    }
}

pub fn files(folder: &Path) -> TlsFiles {
    TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") }
}

fn with_tls(files: &TlsFiles) -> ServerConfig {
    ServerConfig { tls: Some(files.clone()), ..ServerConfig::default() }
}

fn connect(server: &Running, ca: Option<PathBuf>, folder: &Path) -> Result<HttpClient, ClientError> {
    let options = ClientOptions { ca, attempts: 1, ..options(folder) };
    HttpClient::connect_with(&[&format!("https://localhost:{}", server.address.port())], "urls", options)
}

#[test]
fn clients_that_trust_the_authority_are_served_and_others_do_not_trust() {
    let folder = tempdir().unwrap();
    let (authority, files) = (Authority::new(), files(folder.path()));
    authority.issue(&files, 2100);
    let server = serve_config(&urls(folder.path(), no_hook()), with_tls(&files));
    let ca = authority.write(folder.path());
    let mut client = connect(&server, Some(ca.clone()), folder.path()).unwrap();
    assert_eq!(texts(client.get_keys(&[&key(7)]).unwrap()), [Some(value(7, 1))]);
    let untrusted = |ca| {
        let error = connect(&server, ca, folder.path()).map(drop).unwrap_err();
        let ClientError::Untrusted(text) = error else { panic!("{error:?}") };
        text
    };
    assert!(untrusted(None).contains("--ca"));
    Authority::new().write(folder.path());
    untrusted(Some(ca));
    for (content, wanted) in [("", "there is none"), ("not a certificate", "there is none")] {
        std::fs::write(folder.path().join("wrong.pem"), content).unwrap();
        let error =
            connect(&server, Some(folder.path().join("wrong.pem")), folder.path()).map(drop).unwrap_err();
        assert!(matches!(&error, ClientError::BadOption(text) if text.contains(wanted)), "{error}");
    }
    // Plain HTTP to a TLS port gets no HTTP response and does no harm.
    let mut plain = dial(server.address);
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"));
    let http = format!("http://localhost:{}", server.address.port());
    let error = HttpClient::connect_with(&[&http], "urls", options(folder.path())).map(drop).unwrap_err();
    assert!(matches!(error, ClientError::Unusable(_)), "{error:?}");
    assert!(authority.is_of(&server));
}

#[test]
fn a_certificate_of_another_name_is_refused_with_what_to_do() {
    let folder = tempdir().unwrap();
    let (authority, files) = (Authority::new(), files(folder.path()));
    let ca = authority.write(folder.path());
    authority.issue_for(["elsewhere.example"], &files, 2100);
    let server = serve_config(&urls(folder.path(), no_hook()), with_tls(&files));
    let error = connect(&server, Some(ca), folder.path()).map(drop).unwrap_err();
    let wanted = "by a name that the certificate has";
    assert!(matches!(&error, ClientError::Untrusted(text) if text.contains(wanted)), "{error:?}");
}

#[test]
fn a_new_certificate_is_for_new_connections_and_a_wrong_one_for_none() {
    let folder = tempdir().unwrap();
    let (old, new, files) = (Authority::new(), Authority::new(), files(folder.path()));
    old.issue(&files, 2100);
    let server = serve_config(&urls(folder.path(), no_hook()), with_tls(&files));
    let mut kept = old.dial(&server);
    let mut ask = move || {
        kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"ok\n") {
            let mut byte = [0];
            kept.read_exact(&mut byte).unwrap();
            response.extend(byte);
        }
        assert!(response.starts_with(b"HTTP/1.1 200"));
    };
    ask();
    // The change is noticed without a request to reload.
    new.issue(&files, 2100);
    eventually("the new certificate", || new.is_of(&server));
    assert!(!old.is_of(&server));
    ask();
    let metric = |name: &str| {
        let mut stream = new.dial(&server);
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        value.unwrap_or_default()
    };
    let kept_old = "spirea_reloads_total{outcome=\"kept the old\",what=\"certificate\"}";
    let before = metric(kept_old);
    std::fs::write(&files.key, "no key").unwrap();
    server.reloader.reload();
    eventually("the wrong key", || metric(kept_old) > before);
    assert!(new.is_of(&server));
    // An expired certificate is refused; the current one stays.
    let before = metric(kept_old);
    new.issue(&files, 2020);
    server.reloader.reload();
    eventually("the old certificate", || metric(kept_old) > before);
    assert!(new.is_of(&server));
    let expiry = metric("spirea_certificate_expiry_timestamp_seconds");
    assert_eq!(expiry, 4_102_444_800.0, "the beginning of 2100");
    ask();
}

#[test]
fn http_2_is_spoken_where_tls_negotiates_it() {
    let folder = tempdir().unwrap();
    let (authority, files) = (Authority::new(), files(folder.path()));
    authority.issue(&files, 2100);
    let server = serve_config(&urls(folder.path(), no_hook()), with_tls(&files));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(authority.client(&[b"h2", b"http/1.1"]));
        let name = ServerName::try_from("localhost").unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let io = hyper_util::rt::TokioIo::new(stream);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
        tokio::spawn(connection);
        let ask = |path: &str| {
            let request = hyper::Request::get(format!("https://localhost{path}"));
            sender.send_request(request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap())
        };
        let (mut ask, paths) = (ask, ["/healthz", "/v1/databases/urls/config", "/v1/databases/urls/hint"]);
        let responses = paths.map(&mut ask);
        for response in responses {
            let response = response.await.unwrap();
            assert_eq!((response.status().as_u16(), response.version()), (200, hyper::Version::HTTP_2));
            let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
            assert!(!body.is_empty());
        }
    });
}

#[test]
fn certificates_that_cannot_be_used_are_refused_with_the_cause() {
    let folder = tempdir().unwrap();
    let engine = urls(folder.path(), no_hook());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused = |files: &TlsFiles| {
        let config = ServerConfig { listen: ([127, 0, 0, 1], 0).into(), ..with_tls(files) };
        match runtime.block_on(Server::bind_with(&config, Arc::clone(&engine))).map(drop).unwrap_err() {
            ServeError::Tls(error) => error,
            error => panic!("{error}"),
        }
    };
    let (authority, good) = (Authority::new(), files(folder.path()));
    authority.issue(&good, 2100);
    let absent = folder.path().join("absent.pem");
    let error = refused(&TlsFiles { certificate: absent.clone(), ..good.clone() });
    assert!(matches!(error, TlsError::Certificate { .. }) && error.to_string().contains("absent.pem"));
    let error = refused(&TlsFiles { key: absent, ..good.clone() });
    assert!(matches!(error, TlsError::Key { .. }), "{error}");
    let swapped = TlsFiles { certificate: good.key.clone(), key: good.certificate.clone() };
    assert!(matches!(refused(&swapped), TlsError::Certificate { .. }));
    let other = TlsFiles { certificate: good.certificate.clone(), key: folder.path().join("other.pem") };
    std::fs::write(&other.key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    assert!(matches!(refused(&other), TlsError::Mismatch { .. }));
    authority.issue(&good, 2020);
    let error = refused(&good);
    assert!(matches!(error, TlsError::Expired { .. }) && error.to_string().contains("renew"));

    // Certificates that clients would reject. A check of the settings also rejects them.
    let made = |names: &[&str], change: fn(&mut CertificateParams)| {
        let pair = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        std::fs::write(&good.certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
        std::fs::write(&good.key, pair.serialize_pem()).unwrap();
        let snapshots = vec![folder.path().join("urls-Keyword-1")];
        let checked = ServerConfig { snapshots, ..with_tls(&good) }.check().unwrap_err();
        let error = refused(&good);
        assert!(checked.key == "tls.certificate" && checked.cause == error.to_string(), "{checked}");
        error
    };
    let error = made(&["localhost"], |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    assert!(matches!(error, TlsError::Authority(_)) && error.to_string().contains("CA:FALSE"), "{error}");
    let error = made(&[], |_| ());
    assert!(
        matches!(error, TlsError::Unnamed(_)) && error.to_string().contains("subjectAltName="),
        "{error}"
    );
    let error = made(&["localhost"], |params| params.not_before = date_time_ymd(2099, 1, 1));
    assert!(matches!(error, TlsError::NotYet { .. }) && error.to_string().contains("clock"), "{error}");
    let purpose = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    };
    assert!(matches!(made(&["localhost"], purpose), TlsError::OtherPurpose(_)));
}

#[test]
fn the_message_tells_a_command_that_makes_a_good_certificate() {
    let folder = tempdir().unwrap();
    let files = files(folder.path());
    let pair = KeyPair::generate().unwrap();
    let unnamed = CertificateParams::default().self_signed(&pair).unwrap();
    std::fs::write(&files.certificate, unnamed.pem()).unwrap();
    std::fs::write(&files.key, pair.serialize_pem()).unwrap();
    let said = spirea_server::Identity::of_server(&files).map(drop).unwrap_err().to_string();
    let command = said.split('`').nth(1).unwrap().replace("pir.example.org", "localhost");
    // Without openssl on this machine, there is nothing to test.
    let Ok(made) = Command::new("sh").args(["-c", &command]).current_dir(folder.path()).output() else {
        return;
    };
    if made.status.code() == Some(127) {
        return;
    }
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let server = serve_config(&urls(folder.path(), no_hook()), with_tls(&files));
    let mut client = connect(&server, Some(files.certificate.clone()), folder.path()).unwrap();
    assert_eq!(texts(client.get_keys(&[&key(7)]).unwrap()), [Some(value(7, 1))]);
}

#[test]
fn sessions_are_not_resumed() {
    let folder = tempdir().unwrap();
    let (authority, files) = (Authority::new(), files(folder.path()));
    authority.issue(&files, 2100);
    let server = serve_config(&urls(folder.path(), no_hook()), with_tls(&files));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        // A client configuration holds the state for resuming its connections.
        let config = authority.client_of(&[version], &[]);
        for _ in 0..2 {
            let name = ServerName::try_from("localhost").unwrap();
            let connection = ClientConnection::new(Arc::clone(&config), name).unwrap();
            let mut stream = StreamOwned::new(connection, dial(server.address));
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
            assert_eq!(stream.conn.handshake_kind(), Some(rustls::HandshakeKind::Full));
        }
    }
}

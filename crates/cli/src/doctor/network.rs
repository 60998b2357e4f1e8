//! Examination of the network: from the address to an encrypted connection.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use spirea_client::{check_address, proxy_for, tls_cause, tls_config, tls_remedy};
use spirea_console::access::tls;
use spirea_console::output::seconds;
use ureq::http::Uri;

use super::report::Report;

const PATIENCE: Duration = Duration::from_secs(10);
/// Remaining validity below which a certificate should have been renewed.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// A server that accepts connections.
pub struct Address {
    /// True if the server is on this machine, where clocks cannot differ.
    pub is_local: bool,
}

/// Examines names, connections and certificates, unless a proxy of the environment makes the
/// connections. Returns `None` if no connection can be made.
pub fn examine(report: &mut Report, url: &str, ca: Option<&Path>) -> anyhow::Result<Option<Address>> {
    if let Err(error) = check_address(url, false) {
        report.fail("address", error.to_string(), "give one such as https://pir.example.org")?;
        return Ok(None);
    }
    let uri = url.parse::<Uri>().ok();
    let parts = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.host()?, uri.port_u16())));
    let Some((scheme @ ("http" | "https"), host, port)) = parts else {
        report.fail("address", format!("{url} is none"), "give one such as https://pir.example.org")?;
        return Ok(None);
    };
    match proxy_for(url) {
        Ok(None) => (),
        // A direct connection would reveal this machine, which the proxy may be meant to hide.
        Ok(Some(through)) => {
            let detail = format!("requests go through {through}, which examines name and connection");
            report.ok("proxy", detail)?;
            return Ok(Some(Address { is_local: false }));
        }
        Err(error) => {
            report.fail("proxy", error.to_string(), "correct the variable")?;
            return Ok(None);
        }
    }
    let port = port.unwrap_or(if scheme == "https" { 443 } else { 80 });
    let host = host.trim_matches(['[', ']']);
    let addresses: Vec<_> = match (host, port).to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => {
            report.fail(
                "dns",
                format!("{host}: {error}"),
                "check the name, and that this machine resolves others",
            )?;
            return Ok(None);
        }
    };
    let all: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
    report.ok("dns", format!("{host} is {}", all.join(", ")))?;

    let started = Instant::now();
    let mut connected = Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    for address in &addresses {
        connected = TcpStream::connect_timeout(address, PATIENCE);
        if connected.is_ok() {
            break;
        }
    }
    let stream = match connected {
        Ok(stream) => stream,
        Err(error) => {
            let remedy = "check that the server runs and listens on this address, and what firewalls allow";
            report.fail("tcp", format!("port {port}: {error}"), remedy)?;
            return Ok(None);
        }
    };
    let is_local = stream.peer_addr()?.ip().is_loopback();
    report.ok("tcp", format!("connected to port {port} in {}", seconds(started.elapsed().as_secs_f64())))?;
    let secure = match scheme {
        "https" => examine_tls(report, host, stream, ca)?,
        _ if is_local => true,
        _ => {
            let detail = "whoever sees the network sees who asks, and could change answers unnoticed in part";
            report.warn(
                "tls",
                format!("not encrypted: {detail}"),
                "serve with a certificate, and give https://",
            )?;
            true
        }
    };
    Ok(secure.then_some(Address { is_local }))
}

fn examine_tls(
    report: &mut Report,
    host: &str,
    mut stream: TcpStream,
    ca: Option<&Path>,
) -> anyhow::Result<bool> {
    let name =
        ServerName::try_from(host.to_owned()).context("the host is no name that a certificate could have")?;
    let mut connection = ClientConnection::new(Arc::new(tls_config(&tls(ca)?)), name)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    while connection.is_handshaking() {
        if let Err(error) = connection.complete_io(&mut stream) {
            report.fail("tls", error.to_string(), tls_remedy(tls_cause(&error)))?;
            return Ok(false);
        }
    }
    let certificate = connection.peer_certificates().and_then(<[_]>::first);
    let version = connection.protocol_version().map(|version| format!("{version:?}")).unwrap_or_default();
    let left = certificate
        .and_then(|certificate| spirea_server::expiry(certificate))
        .map(|expiry| expiry.duration_since(SystemTime::now()).unwrap_or_default());
    let days = left.map_or(0, |left| left.as_secs() / 86_400);
    let detail = format!("{version}, the certificate is for {host} and expires in {days} days");
    match left {
        Some(left) if left < SOON => {
            report.warn("tls", detail, "renew it; the server reads the new one by itself")?
        }
        _ => report.ok("tls", detail)?,
    }
    Ok(true)
}

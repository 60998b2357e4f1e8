//! Connections of clients, as `ureq` makes them except for TLS, which never resumes a session. With
//! a resumed session, the server could link a client's connections.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use ureq::config::Config;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::time::{Duration, Instant};
use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout,
    SocksConnector, TcpConnector, Transport, TransportAdapter,
};
use ureq::{Agent, Error};

/// Returns an agent whose connections never resume a TLS session. Of the TLS settings in `config`,
/// only the roots are used.
pub fn agent(config: Config) -> Agent {
    let tls = Arc::new(tls_config(config.tls_config()));
    let connector =
        ().chain(SocksConnector::default())
            .chain(ConnectProxyConnector::default())
            .chain(TcpConnector::default())
            .chain(Encrypting(tls));
    Agent::with_parts(config, connector, DefaultResolver::default())
}

/// Returns a TLS configuration with these roots and without resumption.
pub fn tls_config(tls: &TlsConfig) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    match tls.root_certs() {
        RootCerts::Specific(certificates) => {
            // A file of roots may also hold certificates that cannot be used here.
            roots.add_parsable_certificates(certificates.iter().map(|root| CertificateDer::from(root.der())));
        }
        _ => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config
}

/// Encrypts connections to `https://` addresses.
#[derive(Debug)]
struct Encrypting(Arc<ClientConfig>);

impl<In: Transport> Connector<In> for Encrypting {
    type Out = Either<In, Encrypted>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| Error::Tls("the host has no valid name"))?;
        let mut connection = ClientConnection::new(Arc::clone(&self.0), name)?;
        let mut transport = TransportAdapter::new(transport.boxed(), Arc::clone(&details.current_time));
        transport.set_timeout(left(details));
        connection.complete_io(&mut transport)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Either::B(Encrypted { buffers, stream: StreamOwned::new(connection, transport) })))
    }
}

/// Returns the remaining part of the connect timeout.
fn left(details: &ConnectionDetails<'_>) -> NextTimeout {
    let mut timeout = details.timeout;
    if let (Duration::Exact(all), Instant::Exact(now), Instant::Exact(began)) =
        (timeout.after, (details.current_time)(), details.now)
    {
        timeout.after = Duration::Exact(all.saturating_sub(now.saturating_duration_since(began)));
    }
    timeout
}

/// An encrypted connection.
struct Encrypted {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Encrypted").field(&self.stream.sock.inner()).finish()
    }
}

impl Transport for Encrypted {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        let output = &self.buffers.output()[..amount];
        Ok(self.stream.write_all(output)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

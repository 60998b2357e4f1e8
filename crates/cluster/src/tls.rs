//! Mutual TLS between a coordinator and its workers. Certificates are reloaded when their files
//! change, without closing connections.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::client::Resumption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use spirea_server::{Identity, TlsError, TlsFiles};
use tokio_rustls::TlsAcceptor;

use crate::stamp::Stamp;

/// Interval between looks at the files.
const LOOK: Duration = Duration::from_secs(1);
/// ALPN name of HTTP/2, the only protocol between the two.
pub(crate) const HTTP_2: &[u8] = b"h2";

/// Files by which a coordinator and a worker authenticate each other.
#[derive(Clone, Debug, Default)]
pub struct MutualFiles {
    /// This node's certificate and key.
    pub own: TlsFiles,
    /// PEM file with the authorities that sign the other side's certificates; several during a
    /// change of authority. Anyone with a certificate of these authorities is accepted as the other
    /// side, so they must sign for nobody else.
    pub authority: PathBuf,
}

/// Reason why the files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MutualTlsError {
    /// This node's certificate or key cannot be used.
    #[error(transparent)]
    Own(#[from] TlsError),
    /// The other side's authorities cannot be used.
    #[error("{}: no authority's certificate can be read: {cause}; name a PEM file with that of whoever signs the other side's certificates", .path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Error in the file.
        cause: String,
    },
}

/// Contents of the files at the last reading.
struct Current {
    own: Arc<CertifiedKey>,
    verifier: Arc<dyn ClientCertVerifier>,
    client: Arc<ClientConfig>,
}

impl Current {
    fn read(files: &MutualFiles) -> Result<Self, MutualTlsError> {
        let own = Identity::read(&files.own)?.key;
        let unusable = |cause: String| MutualTlsError::Authority { path: files.authority.clone(), cause };
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.authority)
            .and_then(Iterator::collect)
            .map_err(|error| unusable(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(unusable("there is none in the file".into()));
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let verifier = verifier.build().map_err(|error| unusable(error.to_string()))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has ciphers of the versions that it names")
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&own))));
        client.alpn_protocols = vec![HTTP_2.into()];
        // Every connection is verified with the current certificates.
        client.resumption = Resumption::disabled();
        Ok(Self { own, verifier, client: Arc::new(client) })
    }
}

fn stamps(MutualFiles { own, authority }: &MutualFiles) -> [Option<Stamp>; 3] {
    [&own.certificate, &own.key, authority].map(|path| Stamp::of(path))
}

/// Certificates of one side: its own, and the authorities of the other side.
pub struct MutualTls {
    files: MutualFiles,
    /// Stamps of the files before they were first read.
    opened: [Option<Stamp>; 3],
    current: RwLock<Current>,
}

impl MutualTls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`MutualTlsError`].
    pub fn open(files: &MutualFiles) -> Result<Arc<Self>, MutualTlsError> {
        // The stamps are taken before the files are read, so that no later change is missed.
        let opened = stamps(files);
        Ok(Arc::new(Self { files: files.clone(), opened, current: RwLock::new(Current::read(files)?) }))
    }

    /// Returns the configuration for new connections of a coordinator.
    pub fn client(&self) -> Arc<ClientConfig> {
        self.current(|current| Arc::clone(&current.client))
    }

    /// Returns the acceptor for connections to a worker. It accepts only clients with a certificate
    /// of the authority.
    pub fn acceptor(self: &Arc<Self>) -> TlsAcceptor {
        let (verifier, resolver): (Arc<dyn ClientCertVerifier>, Arc<dyn ResolvesServerCert>) =
            (Arc::<Self>::clone(self), Arc::<Self>::clone(self));
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has ciphers of the versions that it names")
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![HTTP_2.into()];
        // Every connection is verified with the current certificates.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        TlsAcceptor::from(Arc::new(config))
    }

    /// Reloads the files when they change, for ever. If a file is wrong, the former contents stay
    /// in force.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut seen = self.opened;
        loop {
            tokio::time::sleep(LOOK).await;
            let now = stamps(&self.files);
            if now == seen {
                continue;
            }
            match Current::read(&self.files) {
                Ok(current) => {
                    *self.current.write() = current;
                    tracing::info!("the certificates were read again; new connections have them");
                    seen = now;
                }
                // The files may be half written; the next look tries again.
                Err(error) => tracing::warn!(%error, "the certificates stay as they were"),
            }
        }
    }

    fn current<T>(&self, read: impl FnOnce(&Current) -> T) -> T {
        read(&self.current.read())
    }
}

impl fmt::Debug for MutualTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutualTls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for MutualTls {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current(|current| Arc::clone(&current.own)))
    }
}

/// Verifies with the authorities that were read last.
impl ClientCertVerifier for MutualTls {
    /// Returns no subjects: the trusted roots may be reloaded before the client's certificate
    /// arrives.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.current(|current| Arc::clone(&current.verifier)).verify_client_cert(
            end_entity,
            intermediates,
            now,
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current(|current| Arc::clone(&current.verifier)).verify_tls12_signature(
            message,
            certificate,
            signed,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current(|current| Arc::clone(&current.verifier)).verify_tls13_signature(
            message,
            certificate,
            signed,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current(|current| current.verifier.supported_verify_schemes())
    }
}

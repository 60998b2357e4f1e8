//! Mutual TLS between a coordinator and its workers: certificates that are read again when their files change, while
//! connections go on.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

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

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// HTTP/2, which alone is spoken between the two.
pub(crate) const HTTP_2: &[u8] = b"h2";

/// The files by which a coordinator and a worker know each other.
#[derive(Clone, Debug, Default)]
pub struct MutualFiles {
    /// The own certificate and its key.
    pub own: TlsFiles,
    /// PEM: who signs the certificates of the other side; several while one takes the place of another. Whoever has a
    /// certificate of these authorities is taken for the other side: they sign for nobody else.
    pub authority: PathBuf,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MutualTlsError {
    /// The own certificate or its key.
    #[error(transparent)]
    Own(#[from] TlsError),
    /// The other side's authority.
    #[error("{}: no authority's certificate can be read: {cause}; name a PEM file with that of whoever signs the other side's certificates", .path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
}

/// What the files held when they were last read.
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
        // Every connection is verified by the certificates of today.
        client.resumption = Resumption::disabled();
        Ok(Self { own, verifier, client: Arc::new(client) })
    }
}

fn stamps(MutualFiles { own, authority }: &MutualFiles) -> [Option<Stamp>; 3] {
    [&own.certificate, &own.key, authority].map(|path| Stamp::of(path))
}

/// The certificates of one side: its own, and what it knows the other side by.
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
        // Before the files are read, so that no later change is missed.
        let opened = stamps(files);
        Ok(Arc::new(Self { files: files.clone(), opened, current: RwLock::new(Current::read(files)?) }))
    }

    /// How a coordinator makes new connections.
    pub fn client(&self) -> Arc<ClientConfig> {
        self.current(|current| Arc::clone(&current.client))
    }

    /// How a worker takes connections: those of clients with a certificate of the authority, and no others.
    pub fn acceptor(self: &Arc<Self>) -> TlsAcceptor {
        let (verifier, resolver): (Arc<dyn ClientCertVerifier>, Arc<dyn ResolvesServerCert>) =
            (Arc::<Self>::clone(self), Arc::<Self>::clone(self));
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has ciphers of the versions that it names")
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![HTTP_2.into()];
        // Every connection is verified by the certificates of today.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        TlsAcceptor::from(Arc::new(config))
    }

    /// Reads the files again when they change, for ever. If they are wrong, all stays as it was.
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
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
                    tracing::info!("the certificates were read again; new connections have them");
                    seen = now;
                }
                // They may be half written: they are looked at again.
                Err(error) => tracing::warn!(%error, "the certificates stay as they were"),
            }
        }
    }

    fn current<T>(&self, read: impl FnOnce(&Current) -> T) -> T {
        read(&self.current.read().unwrap_or_else(PoisonError::into_inner))
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

/// That of the authority whose certificate was read last.
impl ClientCertVerifier for MutualTls {
    /// None: they may be others by the time that the client's certificate comes.
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

//! TLS with a certificate that is reloaded when its files change, while connections continue.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use x509_cert::der::Decode;

/// ALPN name of HTTP/2.
pub(crate) const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// The files of a certificate.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// PEM: the server's certificate, followed by the intermediate certificates up to a root.
    pub certificate: PathBuf,
    /// PEM: the certificate's private key.
    pub key: PathBuf,
}

/// Reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The certificate's file cannot be read.
    #[error("{}: no certificate can be read: {cause}; name a PEM file with the server's certificate and those of its issuers", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Problem with the file.
        cause: String,
    },
    /// The key's file cannot be read.
    #[error("{}: no private key can be read: {cause}; name the PEM file with the certificate's key, readable by this user", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Problem with the file.
        cause: String,
    },
    /// The certificate has expired.
    #[error("{}: the certificate expired {} days ago; renew it", .path.display(), .ago.as_secs() / 86_400)]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// Time since the expiry.
        ago: Duration,
    },
    /// The certificate belongs to another key.
    #[error("{}: the key is not that of {}: {cause}; name the two that were made together", .key.display(), .certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The library's error.
        cause: rustls::Error,
    },
}

/// A certificate with its key, as read from their files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, its intermediates and the key.
    pub key: Arc<CertifiedKey>,
    /// Expiry of the certificate.
    pub expires: SystemTime,
}

impl Identity {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let TlsFiles { certificate, key } = files;
        let unusable = |cause: String| TlsError::Certificate { path: certificate.clone(), cause };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| unusable(error.to_string()))?;
        let first = chain.first().ok_or_else(|| unusable("there is none in the file".into()))?;
        let expires = expiry(first).ok_or_else(|| unusable("it is not in the form X.509".into()))?;
        if let Ok(ago) = SystemTime::now().duration_since(expires) {
            return Err(TlsError::Expired { path: certificate.clone(), ago });
        }
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| TlsError::Key { path: key.clone(), cause: error.to_string() })?;
        let mismatch =
            |cause| TlsError::Mismatch { certificate: certificate.clone(), key: key.clone(), cause };
        let key = CertifiedKey::from_der(chain, private, &ring::default_provider()).map_err(mismatch)?;
        Ok(Self { key: Arc::new(key), expires })
    }
}

/// Returns the expiry of an X.509 certificate in DER; `None` if `certificate` is not one.
pub fn expiry(certificate: &[u8]) -> Option<SystemTime> {
    let certificate = x509_cert::Certificate::from_der(certificate).ok()?;
    Some(UNIX_EPOCH + certificate.tbs_certificate.validity.not_after.to_unix_duration())
}

/// Returns the expiry of the peer's certificate; `None` if the peer has shown none.
pub fn peer_expiry(connection: &rustls::CommonState) -> Option<SystemTime> {
    expiry(connection.peer_certificates()?.first()?)
}

/// Waits until a certificate has expired, by a clock that may be adjusted meanwhile; forever if
/// there is no certificate.
pub async fn expired(expires: Option<SystemTime>) {
    /// Interval between looks at the clock.
    const LOOK: Duration = Duration::from_secs(60);
    let Some(expires) = expires else { return std::future::pending().await };
    while let Ok(left) = expires.duration_since(SystemTime::now())
        && !left.is_zero()
    {
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

/// The certificate for new connections.
pub(crate) struct Certificates {
    files: TlsFiles,
    current: RwLock<Identity>,
}

impl Certificates {
    pub fn open(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self { files: files.clone(), current: RwLock::new(Identity::read(files)?) })
    }

    pub fn paths(&self) -> [&Path; 2] {
        [&self.files.certificate, &self.files.key]
    }

    /// Reloads the files. If they are wrong, the certificate stays unchanged.
    pub fn reload(&self) -> Result<(), TlsError> {
        let loaded = Identity::read(&self.files)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    /// Returns the expiry of the certificate.
    pub fn expires(&self) -> SystemTime {
        self.current.read().unwrap_or_else(PoisonError::into_inner).expires
    }

    /// Returns an acceptor of TLS 1.2 and 1.3 connections.
    pub fn acceptor(self: &Arc<Self>) -> TlsAcceptor {
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Self>::clone(self);
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has ciphers of the versions that it names")
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![HTTP_2.into(), HTTP_1.into()];
        // A resumed session would link two connections to one client, which queries without keys do
        // not.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        TlsAcceptor::from(Arc::new(config))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).key))
    }
}

//! TLS with a certificate that is reloaded when its files change, while connections continue.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::RwLock;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::oid::db::rfc5280::ID_KP_SERVER_AUTH;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, SubjectAltName};
use x509_cert::time::{Time, Validity};

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
    /// The certificate is not valid yet.
    #[error("{}: the certificate is valid only in {} hours; check this machine's clock, or wait", .path.display(), .ahead.as_secs().div_ceil(3600))]
    NotYet {
        /// The certificate's file.
        path: PathBuf,
        /// Time until it is valid.
        ahead: Duration,
    },
    /// The certificate is that of an authority.
    #[error("{}: the certificate is that of an authority (CA:TRUE), as openssl req -x509 makes it by default; clients would reject it (CaUsedAsEndEntity): have the authority sign one for the server, or make one with {MAKE}", .0.display())]
    Authority(PathBuf),
    /// The certificate has no names by which a client could know its server.
    #[error("{}: the certificate has no names or addresses (subjectAltName), and clients do not look at its subject; make one with {MAKE}", .0.display())]
    Unnamed(PathBuf),
    /// The certificate is for other purposes.
    #[error("{}: the certificate's extended key usage leaves out TLS servers (serverAuth), so clients would reject it; make one with {MAKE}", .0.display())]
    OtherPurpose(PathBuf),
    /// The certificate is for another key.
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

/// The command that makes a certificate which clients trust by `--ca`.
const MAKE: &str = "`openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -keyout key.pem \
     -out certificate.pem -subj /CN=pir.example.org -addext subjectAltName=DNS:pir.example.org -addext \
     basicConstraints=critical,CA:FALSE`";

/// A certificate with its key, as read from their files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, its intermediates and the key.
    pub key: Arc<CertifiedKey>,
    /// Expiry of the certificate.
    pub expires: SystemTime,
}

impl Identity {
    /// Reads the files of a server's certificate, which clients know by its names.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn of_server(files: &TlsFiles) -> Result<Self, TlsError> {
        let identity = Self::read(files)?;
        let own = identity.key.cert.first().and_then(|own| parse(own));
        let names = own.as_ref().and_then(extension::<SubjectAltName>);
        let is_name =
            |name: &GeneralName| matches!(name, GeneralName::DnsName(_) | GeneralName::IpAddress(_));
        if !names.is_some_and(|SubjectAltName(names)| names.iter().any(is_name)) {
            return Err(TlsError::Unnamed(files.certificate.clone()));
        }
        match own.as_ref().and_then(extension::<ExtendedKeyUsage>) {
            Some(ExtendedKeyUsage(purposes)) if !purposes.contains(&ID_KP_SERVER_AUTH) => {
                Err(TlsError::OtherPurpose(files.certificate.clone()))
            }
            _ => Ok(identity),
        }
    }

    /// Reads the files of a server's or a client's certificate.
    ///
    /// # Errors
    /// [`TlsError`], except [`TlsError::Unnamed`] and [`TlsError::OtherPurpose`].
    pub fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let TlsFiles { certificate, key } = files;
        let unusable = |cause: String| TlsError::Certificate { path: certificate.clone(), cause };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| unusable(error.to_string()))?;
        let first = chain.first().ok_or_else(|| unusable("there is none in the file".into()))?;
        let own = parse(first).ok_or_else(|| unusable("it is not in the form X.509".into()))?;
        let Validity { not_before, not_after } = &own.tbs_certificate.validity;
        let (begins, expires) = (time(not_before), time(not_after));
        if let Ok(ago) = SystemTime::now().duration_since(expires) {
            return Err(TlsError::Expired { path: certificate.clone(), ago });
        }
        if let Ok(ahead) = begins.duration_since(SystemTime::now())
            && !ahead.is_zero()
        {
            return Err(TlsError::NotYet { path: certificate.clone(), ahead });
        }
        if extension::<BasicConstraints>(&own).is_some_and(|constraints| constraints.ca) {
            return Err(TlsError::Authority(certificate.clone()));
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
    Some(time(&parse(certificate)?.tbs_certificate.validity.not_after))
}

fn parse(certificate: &[u8]) -> Option<Certificate> {
    Certificate::from_der(certificate).ok()
}

fn time(time: &Time) -> SystemTime {
    UNIX_EPOCH + time.to_unix_duration()
}

/// Returns an extension of a certificate; `None` if the certificate does not have it, or it cannot
/// be read.
fn extension<'c, E: Decode<'c> + AssociatedOid>(certificate: &'c Certificate) -> Option<E> {
    certificate.tbs_certificate.get().ok()?.map(|(_, extension)| extension)
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
        Ok(Self { files: files.clone(), current: RwLock::new(Identity::of_server(files)?) })
    }

    pub fn paths(&self) -> [&Path; 2] {
        [&self.files.certificate, &self.files.key]
    }

    /// Reloads the files. If they are wrong, the certificate stays unchanged.
    pub fn reload(&self) -> Result<(), TlsError> {
        let loaded = Identity::of_server(&self.files)?;
        *self.current.write() = loaded;
        Ok(())
    }

    /// Returns the expiry of the certificate.
    pub fn expires(&self) -> SystemTime {
        self.current.read().expires
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
        // A resumed session would show that two connections belong to one client. Queries without
        // keys do not show that.
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
        Some(Arc::clone(&self.current.read().key))
    }
}

//! Conversion of transport errors, with remedies.

use std::io::ErrorKind;

use rustls::{CertificateError, Error as TlsError};

use crate::TransportError;

/// Prefix that the standard library puts before errors of the system's resolver.
const RESOLVER: &str = "failed to lookup address information";

impl From<ureq::Error> for TransportError {
    fn from(error: ureq::Error) -> Self {
        let words = error.to_string();
        match error {
            ureq::Error::HostNotFound => Self::UnknownHost(words),
            ureq::Error::ConnectionFailed | ureq::Error::Timeout(ureq::Timeout::Connect) => {
                Self::Unreachable(words)
            }
            ureq::Error::Timeout(_) => Self::TimedOut(words),
            ureq::Error::Rustls(error) => untrusted(&error),
            ureq::Error::Io(error) => match error.kind() {
                _ if words.contains(RESOLVER) => Self::UnknownHost(words),
                _ if let Some(cause) = tls_cause(&error) => untrusted(cause),
                ErrorKind::TimedOut => Self::TimedOut(words),
                ErrorKind::ConnectionRefused => Self::Unreachable(words),
                _ => Self::Broken(words),
            },
            // A proxy responds with a 5xx status, like a balancer, if it reached the server too
            // late or not at all.
            ureq::Error::ConnectProxyFailed(reason) if reason.contains("responded 5") => {
                Self::Unreachable(words)
            }
            ureq::Error::ConnectProxyFailed(_) => Self::Proxy(words),
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => Self::BadAddress(words),
            _ => Self::Unusable(words),
        }
    }
}

fn untrusted(error: &TlsError) -> TransportError {
    TransportError::Untrusted(format!("{error}; {}", tls_remedy(Some(error))))
}

/// Returns the TLS error inside an I/O error, if there is one.
pub fn tls_cause(error: &std::io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

/// Returns the remedy for a failed TLS connection, given the TLS error, if there is one.
pub fn tls_remedy(cause: Option<&TlsError>) -> &'static str {
    match cause {
        Some(TlsError::InvalidCertificate(wrong)) => match wrong {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "renew the certificate, or set this machine's clock"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "set this machine's clock, or the one that made the certificate"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "give the address by a name that the certificate has, or have the name added"
            }
            CertificateError::UnknownIssuer => {
                "name the authority's certificate with --ca, and have the server send the certificates between (tls.certificate)"
            }
            _ => "have the certificate made anew",
        },
        Some(TlsError::InvalidMessage(_)) => {
            "the port may be for http://, without TLS; or a proxy in between speaks another protocol"
        }
        Some(_) => {
            "check that the port is for https://, and that no proxy in between speaks another protocol"
        }
        None => "check that the port is for https://, and try again",
    }
}

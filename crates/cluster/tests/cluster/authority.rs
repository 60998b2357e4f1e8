//! Certificates.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use spirea_cluster::MutualFiles;
use spirea_server::TlsFiles;

/// Who signs the certificates of workers and coordinators.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes the files of one side: a certificate of this authority for this machine, and `other` as whom it trusts.
    pub fn issue(&self, folder: &Path, name: &str, other: &Self) -> MutualFiles {
        let path = |kind: &str| -> PathBuf { folder.join(format!("{name}.{kind}.pem")) };
        let files = MutualFiles {
            own: TlsFiles { certificate: path("certificate"), key: path("key") },
            authority: path("authority"),
        };
        let pair = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost", "127.0.0.1"].map(String::from)).unwrap();
        let certificate = params.signed_by(&pair, &self.0).unwrap();
        std::fs::write(&files.own.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.own.key, pair.serialize_pem()).unwrap();
        std::fs::write(&files.authority, other.0.pem()).unwrap();
        files
    }
}

//! Certificates.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use spirea_cluster::MutualFiles;
use spirea_server::TlsFiles;

/// Validity of certificates that outlive every test.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Authority that signs the certificates of workers, or those of coordinators.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes the files of one side: a certificate of this authority for this machine, and `others`
    /// as the trusted authorities.
    pub fn issue(&self, folder: &Path, name: &str, others: &[&Self]) -> MutualFiles {
        self.issue_for(folder, name, others, DAY)
    }

    /// Writes the same files as [`Self::issue`], with a certificate that expires after `lasts`.
    pub fn issue_for(&self, folder: &Path, name: &str, others: &[&Self], lasts: Duration) -> MutualFiles {
        let path = |kind: &str| -> PathBuf { folder.join(format!("{name}.{kind}.pem")) };
        let files = MutualFiles {
            own: TlsFiles { certificate: path("certificate"), key: path("key") },
            authority: path("authority"),
        };
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost", "127.0.0.1"].map(String::from)).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        params.not_after = date_time_ymd(1970, 1, 1) + now + lasts;
        let certificate = params.signed_by(&pair, &self.0).unwrap();
        std::fs::write(&files.own.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.own.key, pair.serialize_pem()).unwrap();
        let authorities: String = others.iter().map(|other| other.0.pem()).collect();
        std::fs::write(&files.authority, authorities).unwrap();
        files
    }
}

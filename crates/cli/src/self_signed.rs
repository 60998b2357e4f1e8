//! A certificate that a server signs itself, for TLS without an authority.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use spirea_server::TlsFiles;

/// Folder of the certificate and its key, in the working directory.
const FOLDER: &str = "spirea-tls";
/// File of the system's host name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Returns the files of a self-signed certificate for this machine. Creates the files only if they
/// are missing, so that clients can still trust the certificate after a restart.
///
/// # Errors
/// If the files cannot be written.
pub fn self_signed(listen: IpAddr) -> anyhow::Result<TlsFiles> {
    let folder = std::path::absolute(FOLDER).context("the working directory")?;
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|file| folder.join(file));
    if !certificate.exists() || !key.exists() {
        make(&folder, &certificate, &key, names(listen))
            .with_context(|| format!("{}: no certificate can be made", folder.display()))?;
    }
    Ok(TlsFiles { certificate, key })
}

fn make(folder: &Path, certificate: &PathBuf, key: &PathBuf, names: Vec<String>) -> anyhow::Result<()> {
    let pair = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "Spirea");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let signed = params.self_signed(&pair)?;
    fs::create_dir_all(folder)?;
    // The file of the key is readable by its owner only, from its creation on.
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(key)?;
    file.write_all(pair.serialize_pem().as_bytes())?;
    File::create(certificate)?.write_all(signed.pem().as_bytes())?;
    Ok(())
}

/// Returns the names and addresses by which clients may know this machine.
fn names(listen: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(String::from).into();
    let host = fs::read_to_string(HOST_NAME).unwrap_or_default().trim().to_owned();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    if !host.is_empty() && host.bytes().all(is_name) {
        names.push(host);
    }
    if !listen.is_unspecified() {
        names.push(listen.to_string());
    }
    names.sort();
    names.dedup();
    names
}

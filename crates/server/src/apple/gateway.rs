//! Keys of the OHTTP gateway, through which requests of Apple's clients come from a relay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use spirea_apple::ohttp::{Gateway, GatewayKey};
use zeroize::Zeroize as _;

use super::private_file;

/// Command that makes a key.
const COMMAND: &str = "spirea key gateway";

/// Reason why a gateway has no keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GatewayKeysError(String);

/// The keys of a file, as of its last successful reading.
pub(crate) struct GatewayKeys {
    path: PathBuf,
    gateway: RwLock<Arc<Gateway>>,
}

impl GatewayKeys {
    /// Reads the file: private keys as PEM of PKCS#8, one after the other. Clients choose the first
    /// one.
    ///
    /// # Errors
    /// [`GatewayKeysError`] if the file cannot be read, users other than its owner may read it, or
    /// its keys cannot be used.
    pub fn open(path: &Path) -> Result<Self, GatewayKeysError> {
        Ok(Self { path: path.into(), gateway: RwLock::new(Arc::new(read(path)?)) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file again. If it is wrong, the keys stay unchanged.
    ///
    /// # Errors
    /// Those of [`GatewayKeys::open`].
    pub fn reload(&self) -> Result<(), GatewayKeysError> {
        let gateway = Arc::new(read(&self.path)?);
        *self.gateway.write() = gateway;
        Ok(())
    }

    /// Returns the keys.
    pub fn gateway(&self) -> Arc<Gateway> {
        Arc::clone(&self.gateway.read())
    }
}

fn read(path: &Path) -> Result<Gateway, GatewayKeysError> {
    let wrong = |cause: &dyn std::fmt::Display| {
        GatewayKeysError(format!("{}: {cause}; make a key with `{COMMAND}`", path.display()))
    };
    let text = private_file::read(path, COMMAND).map_err(GatewayKeysError)?;
    let parse = |der: Result<PrivatePkcs8KeyDer<'static>, _>| {
        let mut der = der.map_err(|_| wrong(&"the file is not PEM of private keys"))?;
        let key = GatewayKey::from_pkcs8(der.secret_pkcs8_der()).map_err(|error| wrong(&error));
        der.zeroize();
        key
    };
    let keys = PrivatePkcs8KeyDer::pem_slice_iter(text.as_bytes()).map(parse).collect::<Result<_, _>>()?;
    Gateway::new(keys).map_err(|error| wrong(&error))
}

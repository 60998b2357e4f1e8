//! Access of a client to a server: its token, and the certificates that it trusts.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use spirea_client::{ClientOptions, root_certificates};
use ureq::tls::{RootCerts, TlsConfig};

use crate::input;

/// Environment variable that may hold a token.
const TOKEN_VARIABLE: &str = "SPIREA_TOKEN";

/// Options for a token and for trusted certificates.
#[derive(Args)]
pub struct Access {
    /// File whose first line is the token for the server; by default the token in the variable
    /// SPIREA_TOKEN, if it is set.
    #[arg(help_heading = "Access", long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File of certificates, as PEM, by which the server's certificate is verified; by default the
    /// public certificates of the web.
    #[arg(help_heading = "Access", long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// Returns the trusted certificates: those of a file, or the public ones of the web.
///
/// # Errors
/// If the file cannot be read, or is not PEM.
pub fn tls(ca: Option<&Path>) -> anyhow::Result<TlsConfig> {
    let roots = ca.map(root_certificates).transpose()?.unwrap_or(RootCerts::WebPki);
    Ok(TlsConfig::builder().root_certs(roots).build())
}

impl Access {
    /// Returns the token, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read or its first line is empty, or if the variable is not text.
    pub fn token(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = &self.token_file else {
            return match std::env::var(TOKEN_VARIABLE) {
                Ok(token) => Ok(Some(token.trim().into()).filter(|token: &String| !token.is_empty())),
                Err(std::env::VarError::NotPresent) => Ok(None),
                Err(error) => bail!("{TOKEN_VARIABLE}: {error}"),
            };
        };
        let place = || format!("{}: the token cannot be read", path.display());
        let text = std::io::read_to_string(input::open(path)?).with_context(place)?;
        match text.lines().next().map(str::trim) {
            Some(token) if !token.is_empty() => Ok(Some(token.into())),
            _ => bail!("{}: the first line is empty; put the token there", path.display()),
        }
    }

    /// Returns client options with the token and the certificates.
    ///
    /// # Errors
    /// Those of [`Access::token`].
    pub fn options(&self) -> anyhow::Result<ClientOptions> {
        Ok(ClientOptions { token: self.token()?, ca: self.ca.clone(), ..ClientOptions::default() })
    }
}

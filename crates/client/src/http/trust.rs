//! Trusted addresses and certificates.

use std::net::IpAddr;
use std::path::Path;

use ureq::http::Uri;
use ureq::tls::{PemItem, RootCerts, parse_pem};

use crate::ClientError;

/// Checks the address of a server. With a token, the address must begin with https:// or belong to
/// this machine.
///
/// # Errors
/// [`ClientError::BadAddress`], [`ClientError::BadOption`].
pub fn check_address(url: &str, with_token: bool) -> Result<(), ClientError> {
    let bad = |what: &str| ClientError::BadAddress(format!("{}: {what}", shown(url)));
    let plain = url.starts_with("http://");
    if !plain && !url.starts_with("https://") {
        return Err(bad("the server's address must begin with http:// or https://"));
    }
    // Parsed with the HTTP library's parser, so that this check and the library read the same host.
    let uri: Uri = url.parse().map_err(|error| bad(&format!("it is no address: {error}")))?;
    let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
        return Err(bad("there is no host in it"));
    };
    let Some(port) = authority.as_str().strip_prefix(authority.host()) else {
        return Err(bad("nothing may stand before the host; a token goes into a file (--token-file)"));
    };
    let is_port = |port: &str| port.parse().is_ok_and(|port: u16| port > 0);
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Err(bad("what follows the host is no port; ports are 1 to 65535"));
    }
    if uri.query().is_some() {
        return Err(bad("an address has no ? and what follows it"));
    }
    if with_token && plain && !is_this_machine(&uri) {
        return Err(ClientError::BadOption(format!(
            "{}: whoever sees the network would see the token; give an address that begins with https://",
            shown(url)
        )));
    }
    Ok(())
}

/// Returns an address without its secrets: the part before an @ in front of the host, and the part
/// after a ?.
pub(super) fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}{host}{path}")
}

/// Returns true if an address belongs to this machine.
pub(super) fn is_this_machine(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Reads the certificates of a PEM file.
///
/// # Errors
/// [`ClientError::BadOption`] if the file cannot be read or has none.
pub fn root_certificates(path: &Path) -> Result<RootCerts, ClientError> {
    let unusable = |cause: String| {
        let text = format!("{}: no certificates: {cause}; name a file of them as PEM", path.display());
        ClientError::BadOption(text)
    };
    let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(unusable(error.to_string()))),
    });
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>()?;
    if certificates.is_empty() {
        return Err(unusable("there is none in it".into()));
    }
    Ok(RootCerts::from(certificates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_mask_the_secrets_of_addresses() {
        for (url, host) in [
            ("http://me:secret@pir.example/a", "http://pir.example/a: "),
            ("ftp://me:secret@pir.example", "ftp://pir.example: "),
            ("me:secret@pir.example", "pir.example: "),
            ("https://me:secret@secret@pir.example", "https://pir.example: "),
            ("https://pir.example/a?token=secret", "https://pir.example/a: "),
        ] {
            let error = check_address(url, false).unwrap_err().to_string();
            assert!(error.contains(host) && !error.contains("secret"), "{error}");
        }
    }
}

//! Proxies of the environment, and the requests that go through them.

use ureq::Proxy;
use ureq::http::Uri;

use super::trust::is_this_machine;
use crate::ClientError;

/// Consent to use one proxy for both servers of a pair over `http://`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedProxy {
    /// No consent: the proxy reads both shares, so it can compute what is looked up.
    #[default]
    Refuse,
    /// Consent: the proxy is trusted with what is looked up.
    Accept,
}

/// Returns the environment's proxy for the server at `url`; `None` for this machine, which is
/// always reached directly.
pub fn proxy_for(url: &str) -> Option<Proxy> {
    let uri: Uri = url.parse().ok()?;
    Proxy::try_from_env().filter(|proxy| !is_this_machine(&uri) && !proxy.is_no_proxy(&uri))
}

/// Checks that a proxy of the environment does not read the shares of both servers.
///
/// # Errors
/// [`ClientError::BadOption`].
pub(super) fn check_shared(addresses: &[Vec<String>], shared: SharedProxy) -> Result<(), ClientError> {
    let read = |address: &&String| address.starts_with("http://") && proxy_for(address).is_some();
    let [zero, one] = addresses else { return Ok(()) };
    match (shared, zero.iter().find(read), one.iter().find(read)) {
        (SharedProxy::Refuse, Some(zero), Some(one)) => Err(ClientError::BadOption(format!(
            "{zero} and {one} are asked over http:// through the proxy of the environment, which reads both shares of a query: \
             give addresses that begin with https://, name one in NO_PROXY, or accept it (--accept-shared-proxy, \
             SharedProxy::Accept)"
        ))),
        _ => Ok(()),
    }
}

//! Proxies of the environment, and the requests that go through them.

use std::env;
use std::fmt;
use std::net::IpAddr;

use ureq::Proxy;
use ureq::http::Uri;

use super::trust::{is_this_machine, shown};
use crate::{ClientError, TransportError};

/// Variables that name a proxy, in the order in which they are read, each also in lower case.
const PROXY: [&str; 6] = ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
/// Variables that name servers that are reached directly.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Consent to use one proxy for both servers of a pair over `http://`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedProxy {
    /// No consent: the proxy reads both shares, so it can compute what is looked up.
    #[default]
    Refuse,
    /// Consent: the proxy is trusted with what is looked up.
    Accept,
}

/// The proxy of the environment, and the servers that are reached without it. `Display` names the
/// proxy, without its password, and the variable.
#[derive(Clone, Debug)]
pub struct EnvironmentProxy {
    proxy: Proxy,
    variable: &'static str,
    /// Address of the proxy without its secrets.
    shown: String,
    exceptions: Vec<Exception>,
}

/// Servers that are reached without the proxy: an entry of `NO_PROXY`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exception {
    All,
    /// A name or an address.
    Host(String),
    /// The end of names, such as `.example.org`.
    Suffix(String),
    /// The beginning of names or addresses, such as `10.`.
    Prefix(String),
    /// The addresses with these first bits.
    Network {
        first: IpAddr,
        bits: u32,
    },
}

impl EnvironmentProxy {
    /// Reads the environment; `None` if it names no proxy.
    ///
    /// # Errors
    /// [`ClientError::BadOption`] if it names a proxy that cannot be used: going without it would
    /// show the user's address to servers.
    pub fn read() -> Result<Option<Self>, ClientError> {
        Self::read_from(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn read_from(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, ClientError> {
        let first = |names: &[&'static str]| {
            let value = |name: &&'static str| Some((*name, variable(name)?.trim().to_owned()));
            names.iter().filter_map(value).find(|(_, value)| !value.is_empty())
        };
        let Some((name, value)) = first(&PROXY) else { return Ok(None) };
        let shown = shown(&value);
        let proxy = Proxy::new(&value).map_err(|error| {
            ClientError::BadOption(format!(
                "{name} names no proxy that can be used: {shown}: {error}; an address begins with http://, https://, \
                 socks4://, socks4a://, socks5:// or socks5h://, or unset the variable to connect directly"
            ))
        })?;
        let list = first(&NO_PROXY).map(|(_, list)| list).unwrap_or_default();
        let exceptions = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        Ok(Some(Self {
            proxy,
            variable: name,
            shown,
            exceptions: exceptions.map(Exception::parse).collect(),
        }))
    }

    /// Returns the proxy.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Returns true if the server at `url` is reached through the proxy: it is not this machine,
    /// and `NO_PROXY` does not name it.
    pub(super) fn serves(&self, url: &str) -> bool {
        let Ok(uri) = url.parse::<Uri>() else { return true };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        !is_this_machine(&uri) && !self.exceptions.iter().any(|exception| exception.has(&host))
    }

    /// Names the proxy in an error of a request that went through it.
    pub fn named(&self, error: TransportError) -> TransportError {
        error.map(|words| format!("{words}, through {self}"))
    }
}

impl fmt::Display for EnvironmentProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy {} of {}", self.shown, self.variable)
    }
}

impl Exception {
    fn parse(entry: &str) -> Self {
        let entry = entry.to_ascii_lowercase();
        if let Some(network) = Self::network(&entry) {
            return network;
        }
        match entry.as_str() {
            "*" => Self::All,
            name if name.starts_with('*') => Self::Suffix(name[1..].into()),
            name if name.starts_with('.') => Self::Suffix(name.into()),
            name if name.ends_with('*') => Self::Prefix(name[..name.len() - 1].into()),
            name if name.ends_with('.') => Self::Prefix(name.into()),
            name => Self::Host(name.trim_matches(['[', ']']).into()),
        }
    }

    /// Parses a network such as `10.0.0.0/8` or `fd00::/8`, or a single address.
    fn network(entry: &str) -> Option<Self> {
        let (first, bits) = entry.split_once('/').map_or((entry, None), |(first, bits)| (first, Some(bits)));
        let first: IpAddr = first.trim_matches(['[', ']']).parse().ok()?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
        Some(Self::Network { first, bits })
    }

    fn has(&self, host: &str) -> bool {
        match self {
            Self::All => true,
            Self::Host(name) => host == name,
            Self::Suffix(end) => host.ends_with(end),
            Self::Prefix(start) => host.starts_with(start),
            Self::Network { first, bits } => host.parse().is_ok_and(|address: IpAddr| {
                let (first, address, width) = match (first, address) {
                    (IpAddr::V4(first), IpAddr::V4(address)) => {
                        (u128::from(first.to_bits()), u128::from(address.to_bits()), 32)
                    }
                    (IpAddr::V6(first), IpAddr::V6(address)) => (first.to_bits(), address.to_bits(), 128),
                    _ => return false,
                };
                // A shift by all 128 bits has no result: every address is then in the network.
                (first ^ address).checked_shr(width - bits).unwrap_or_default() == 0
            }),
        }
    }
}

/// Returns the environment's proxy for the server at `url`; `None` for this machine, which is
/// always reached directly, and for servers that `NO_PROXY` names.
///
/// # Errors
/// Those of [`EnvironmentProxy::read`].
pub fn proxy_for(url: &str) -> Result<Option<EnvironmentProxy>, ClientError> {
    Ok(EnvironmentProxy::read()?.filter(|proxy| proxy.serves(url)))
}

/// Checks that a proxy of the environment does not read the shares of both servers.
///
/// # Errors
/// [`ClientError::BadOption`].
pub(super) fn check_shared(addresses: &[Vec<String>], shared: SharedProxy) -> Result<(), ClientError> {
    let Some(proxy) = EnvironmentProxy::read()? else { return Ok(()) };
    let read = |address: &&String| address.starts_with("http://") && proxy.serves(address);
    let [zero, one] = addresses else { return Ok(()) };
    match (shared, zero.iter().find(read), one.iter().find(read)) {
        (SharedProxy::Refuse, Some(zero), Some(one)) => Err(ClientError::BadOption(format!(
            "{zero} and {one} are asked over http:// through {proxy}, which reads both shares of a query: \
             give addresses that begin with https://, name one in NO_PROXY, or accept it (--accept-shared-proxy, \
             SharedProxy::Accept)"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<EnvironmentProxy>, ClientError> {
        EnvironmentProxy::read_from(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn serves(no_proxy: &str, url: &str) -> bool {
        read(&[("ALL_PROXY", "http://proxy.example:3128"), ("NO_PROXY", no_proxy)])
            .unwrap()
            .unwrap()
            .serves(url)
    }

    #[test]
    fn the_first_variable_that_is_set_names_the_proxy() {
        assert!(read(&[]).unwrap().is_none() && read(&[("HTTP_PROXY", " ")]).unwrap().is_none());
        let both = [("http_proxy", "http://second:1"), ("HTTPS_PROXY", "socks5h://me:secret@first:2")];
        let proxy = read(&both).unwrap().unwrap();
        assert_eq!(proxy.to_string(), "the proxy socks5h://first:2 of HTTPS_PROXY");
        assert_eq!((proxy.proxy().host(), proxy.proxy().port()), ("first", 2));
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_refused() {
        for value in ["socks6://me:secret@a:1", "ftp://me:secret@a", "http://", "http://a b"] {
            let said = read(&[("all_proxy", value), ("HTTP_PROXY", "http://b:1")]).unwrap_err().to_string();
            assert!(said.starts_with("all_proxy names no proxy") && !said.contains("secret"), "{said}");
        }
        for scheme in ["http", "https", "socks4", "socks4a", "socks5", "socks5h"] {
            assert!(read(&[("ALL_PROXY", &format!("{scheme}://a:1"))]).unwrap().is_some());
        }
    }

    #[test]
    fn exceptions_are_names_addresses_and_networks() {
        for (no_proxy, url, is_direct) in [
            ("", "http://pir.example", false),
            ("*", "http://pir.example", true),
            ("a.example, PIR.example", "http://pir.EXAMPLE:80/x", true),
            ("example", "http://pir.example", false),
            (".example", "http://pir.example", true),
            ("*.example", "http://pir.example", true),
            ("10.", "http://10.1.2.3", true),
            ("10.*", "http://10.1.2.3", true),
            ("10.0.0.0/8", "http://10.255.0.1:8080", true),
            ("10.0.0.0/8", "http://11.0.0.1", false),
            ("10.0.0.0/8", "http://10.example", false),
            ("10.1.2.3/32", "http://10.1.2.3", true),
            ("10.1.2.3/31", "http://10.1.2.2", true),
            ("10.1.2.3/31", "http://10.1.2.4", false),
            ("192.168.0.0/0", "http://8.8.8.8", true),
            ("10.0.0.0/33", "http://10.0.0.1", false),
            ("10.0.0.0/x", "http://10.0.0.1", false),
            ("fd00::/8", "http://[fd12::1]:80", true),
            ("fd00::/8", "http://[fe00::1]", false),
            ("::/0", "http://[2001:db8::1]", true),
            ("::/0", "http://10.0.0.1", false),
            ("2001:db8:0::1", "http://[2001:db8::1]", true),
            ("[2001:db8::1]", "http://[2001:db8::1]", true),
            // This machine is always reached directly.
            ("", "http://127.0.0.1:80", true),
            ("", "http://localhost", true),
        ] {
            assert_eq!(serves(no_proxy, url), !is_direct, "{no_proxy}: {url}");
        }
    }
}

#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

#[cfg(feature = "build")]
pub mod build;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod record;
#[cfg(feature = "server")]
pub mod server;

#[cfg(feature = "client")]
pub use client::Client;
#[cfg(feature = "client")]
pub use record::Record;
/// # Examples
///
/// An error is never reported as an absent key:
///
/// ```
/// use spirea::{Client, LookUpError};
///
/// match Client::connect("ftp://pir.example.org", "domains") {
///     Err(LookUpError::BadAddress(cause)) => assert!(cause.contains("http")),
///     other => panic!("{other:?}"),
/// }
/// ```
#[cfg(feature = "client")]
#[doc(inline)]
pub use spirea_client::ClientError as LookUpError;
/// # Examples
///
/// A client with a token, whose hints stay in memory:
///
/// ```
/// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
/// use spirea::{Client, ClientOptions, Keep};
///
/// let options =
///     ClientOptions { token: Some("spirea_example".into()), keep: Keep::Memory, ..ClientOptions::default() };
/// let mut client = Client::connect_with(&[&url], "domains", options)?;
/// assert!(client.get("example.net")?.is_some());
/// # Ok::<_, spirea::LookUpError>(())
/// ```
#[cfg(feature = "client")]
#[doc(inline)]
pub use spirea_client::ClientOptions;
/// # Examples
///
/// ```
/// use spirea::{ClientOptions, Keep};
///
/// assert_eq!(ClientOptions::default().keep, Keep::Persistent);
/// ```
#[cfg(feature = "client")]
#[doc(inline)]
pub use spirea_client::Keep;
/// # Examples
///
/// Without consent, one proxy of the environment is not used for two servers over `http://`:
///
/// ```
/// use spirea::{ClientOptions, SharedProxy};
///
/// assert_eq!(ClientOptions::default().shared_proxy, SharedProxy::Refuse);
/// ```
#[cfg(feature = "client")]
#[doc(inline)]
pub use spirea_client::SharedProxy;
/// # Examples
///
/// ```
/// use spirea::{ClientOptions, WeakPrf};
///
/// let options = ClientOptions { weak_prf: WeakPrf::Accept, ..ClientOptions::default() };
/// assert_ne!(options.weak_prf, WeakPrf::default());
/// ```
#[cfg(feature = "client")]
#[doc(inline)]
pub use spirea_client::WeakPrf;
/// # Examples
///
/// A client that refuses versions which this key did not sign:
///
/// ```
/// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
/// use spirea::{Client, ClientOptions, Keep, PublicKey};
///
/// let key: PublicKey = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a".parse().unwrap();
/// let options = ClientOptions { pinned_key: Some(key), keep: Keep::Memory, ..ClientOptions::default() };
/// // The operator of this server has signed nothing.
/// assert!(Client::connect_with(&[&url], "domains", options).is_err());
/// ```
#[cfg(feature = "client")]
#[doc(inline)]
pub use spirea_protocols::signature::PublicKey;

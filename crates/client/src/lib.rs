//! The client: sessions, conversations without I/O, the HTTP transport.
//!
//! [`Session`] makes the bytes of requests and reads those of responses. [`Client`] decides what is
//! sent when: its [`Conversation`]s fetch configurations and hints, upload keys, send queries,
//! follow the database and retry where that is safe. The holder of a conversation carries its
//! requests. [`HttpClient`] is a blocking loop that does so over HTTP, with a cache on disk.
//! Without the feature `http`, this crate needs no sockets, files, threads or 64-bit words.
//!
//! A server learns when a client queries it and how many values are looked up at once, but not
//! which; with two servers, neither learns which as long as they do not collude. A server that
//! changes answers learns, when the next look-up comes, whether all answers of the last one were
//! accepted. That is at most one bit of one key, and a refused answer ends that key ([`LookUp`]).

mod cache;
mod carries;
mod client;
mod clock;
mod conversation;
mod description;
mod error;
mod fetch;
#[cfg(test)]
mod fixture;
mod forms;
#[cfg(feature = "http")]
mod http;
mod kept;
mod keys;
mod known;
mod lender;
mod look_up;
mod manifest;
mod next_keys;
mod policy;
mod session;
mod status;
mod wanted;
mod weak;

pub use cache::{Download, HintCache, MemoryCache};
pub use client::{Aside, Client, Fetches, Lookups, Part, Parts, Timings};
pub use clock::Clock;
pub use conversation::{Conversation, Head, Method, Received, Request, Step, TransportError};
pub use description::{Description, Hint, PartDescription};
pub use error::ClientError;
pub use fetch::{Fetch, PendingFetch};
pub use forms::{KeyInForm, Rules, provide_rules};
#[cfg(feature = "http")]
pub use http::{
    ClientOptions, EnvironmentProxy, HttpClient, Keep, SharedProxy, agent, cache_folder, check_address,
    proxy_for, root_certificates, tls_cause, tls_config, tls_remedy,
};
pub use kept::KeptKeys;
pub use keys::Keys;
pub use known::NextKeys;
pub use lender::Lender;
pub use look_up::LookUp;
pub use policy::{Policy, Progress};
pub use session::{Answered, Pending, Round, Session, Value};
#[cfg(feature = "forms")]
pub use spirea_normalise::DomainKeys;
pub use spirea_protocols::table::Fetched;
pub use spirea_wire::Version;
pub use weak::WeakPrf;

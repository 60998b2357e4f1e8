//! The client: sessions, hint cache, transport and retries.
//!
//! [`Session`] is the client without a transport: it makes requests' bytes and reads responses', and whoever
//! holds it carries them. [`HttpClient`] carries them over HTTP, keeps hints in a cache on disk, and tries
//! again where that is safe.
//!
//! What a server learns: when a client asks, and how many values at once. Not which; of two servers neither does, as
//! long as they do not work together. A server that changes answers learns from a look-up whether all were accepted, when
//! the next one comes: at most one bit of one key, which ends when they were not ([`LookUp`]).

mod clock;
mod description;
mod error;
#[cfg(feature = "http")]
mod http;
mod keys;
mod look_up;
mod manifest;
mod session;
mod weak;

pub use clock::Clock;
pub use description::{Description, Hint, Part};
pub use error::ClientError;
#[cfg(feature = "http")]
pub use http::{ClientOptions, HttpClient, Lookups, Progress, Timings, check_address, root_certificates};
pub use keys::Keys;
pub use look_up::LookUp;
pub use session::{Answered, Pending, Round, Session, Value};
pub use weak::WeakPrf;

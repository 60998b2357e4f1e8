//! The databases of a server: the sources of their versions, and the way of a new version to its
//! first answer.
//!
//! A database is served from a snapshot's folder or from a repository. From a folder, the server
//! adopts a snapshot that takes the served one's place when it is told to. Into a repository,
//! publishers put new versions while the database answers. A version is on disk before it answers,
//! and answers before its publisher is told. The deltas of former versions are opened when a client
//! asks for them. A server that follows another one copies that one's
//! versions into its repositories, and takes no publications.

mod adopt;
mod awake;
mod bring_up;
mod ending;
mod entries;
mod error;
mod folder;
mod follow;
mod followers;
mod former;
mod loader;
mod publish;
mod receive;
mod signer;
mod source;
mod thread;
mod version_files;

pub(crate) use self::adopt::ReloadError;
pub(crate) use self::entries::{FailedCompactions, Library};
pub(crate) use self::error::PublishError;
pub(crate) use self::followers::FollowerId;
pub(crate) use self::loader::{Loader, Loss};
pub(crate) use self::publish::Published;
pub(crate) use self::receive::ReceiveError;
pub use self::signer::SignerError;
pub(crate) use self::source::{OpenError, Source};

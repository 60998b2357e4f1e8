//! The databases of a server: the sources of their versions, and the steps by which a new version
//! begins to answer.
//!
//! A database is served from a snapshot's folder or from a repository. If another snapshot replaces
//! the one in a folder, the server adopts it on request. Publishers put new versions into a
//! repository while the database answers. A version is on disk before it answers, and answers
//! before its publisher gets the response. The deltas of former versions are opened when a client
//! asks for them. A server that follows another server copies its versions into its own
//! repositories, and takes no publications.

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
pub(crate) use self::entries::{FailedCompactions, Library, WAITING_LOOKS};
pub(crate) use self::error::PublishError;
pub(crate) use self::followers::FollowerId;
pub(crate) use self::loader::{Loader, Loss};
pub(crate) use self::publish::Published;
pub(crate) use self::receive::ReceiveError;
pub use self::signer::SignerError;
pub(crate) use self::source::{OpenError, Source};

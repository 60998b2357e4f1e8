//! Databases larger than one machine.
//!
//! A [`Worker`] serves one share of a snapshot to a coordinator alone. A [`Coordinator`] speaks to clients as any server
//! does: its engine's responders ask the workers for what their shares make of a batch, and make the answers of that
//! ([`spirea_protocols::Responder::partial`] and [`combine`](spirea_protocols::Responder::combine), over a network). A
//! [`Placement`] says which workers there are; it may change at any time.
//!
//! A request to a share is [`spirea_wire::ShareRequest`], what it makes of it is
//! [`spirea_protocols::Partial`]; `docs/cluster-wire.md` has all that goes between the two.

mod coordinator;
mod databases;
mod files;
mod group;
mod placement;
mod rate;
mod remote;
mod replica;
mod report;
mod stamp;
mod standing;
mod status;
mod times;
mod tls;
mod worker;

pub use coordinator::{Coordinator, CoordinatorConfig, CoordinatorError};
pub use files::{FilePart, ShareFiles};
pub use placement::{DatabasePlacement, Placement, PlacementError, SnapshotPlacement};
pub use status::{ShareState, ShareStatus};
pub use tls::{MutualFiles, MutualTls, MutualTlsError};
pub use worker::{Worker, WorkerConfig, WorkerError};

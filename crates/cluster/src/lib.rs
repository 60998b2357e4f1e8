//! Databases larger than one machine.
//!
//! A [`Worker`] serves one share of a snapshot, to a coordinator alone. A [`Coordinator`] serves
//! clients as any server does. Its engine's responders ask the workers for their shares' partials
//! of a batch and combine these to the answers ([`spirea_protocols::Responder::partial`] and
//! [`combine`](spirea_protocols::Responder::combine), over a network). A [`Placement`] lists the
//! workers; it may change at any time.
//!
//! A request to a share is a [`spirea_wire::ShareRequest`], and the response is a
//! [`spirea_protocols::Partial`]. `docs/cluster-wire.md` describes all messages between a
//! coordinator and a worker.

mod connection;
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

//! Databases whose answers a test prescribes.

use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use parking_lot::Mutex;
use spirea_engine::{Database, Identity};
use spirea_protocols::{ProtocolError, Query, Responder, Sizes};

use crate::{VERSION, params};

/// Function that makes the answers.
pub type Behaviour = Box<dyn Fn(&[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> + Send + Sync>;

/// A scripted responder, which takes batches of up to 4.
pub struct Scripted {
    /// Sizes that it reports.
    pub sizes: Sizes,
    /// Function that makes its answers.
    pub behaviour: Behaviour,
}

impl Responder for Scripted {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn max_batch(&self) -> usize {
        4
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        (self.behaviour)(queries)
    }
}

/// Returns the identity of a scripted database: protocol `simple`, name `test`.
pub fn identity() -> Identity {
    crate::identity("test", VERSION, &params("simple"))
}

/// Returns the database whose answers come from `behaviour`.
pub fn database(behaviour: Behaviour) -> Database {
    let identity = identity();
    let sizes = identity.params.sizes;
    Database::new(identity, Box::new(Scripted { sizes, behaviour })).expect("its parts belong together")
}

/// Answers each query with its first byte, repeated.
///
/// # Errors
/// None; the type is that of a [`Behaviour`].
pub fn echo(queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let answer_bytes = identity().params.sizes.answer_bytes;
    Ok(queries.iter().map(|query| vec![query.bytes[0]; answer_bytes]).collect())
}

/// Returns a behaviour that reports each batch by its queries' first bytes, blocks until told to
/// continue, and then [echoes](echo) the queries.
pub fn gated() -> (Behaviour, Receiver<Vec<u8>>, Sender<()>) {
    let (begun, begins) = channel();
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let behaviour = move |queries: &[Query<'_>]| {
        begun.send(queries.iter().map(|query| query.bytes[0]).collect()).expect("the test listens");
        gone.lock().recv().expect("the test says when to go on");
        echo(queries)
    };
    (Box::new(behaviour), begins, go)
}

/// Returns queries that begin with these bytes.
pub fn queries(first: &[u8]) -> Vec<Bytes> {
    let query_bytes = identity().params.sizes.query_bytes;
    first.iter().map(|&byte| Bytes::from(vec![byte; query_bytes])).collect()
}

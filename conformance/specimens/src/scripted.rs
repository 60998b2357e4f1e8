//! Databases whose answers a test gives.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use spirea_engine::{Database, Identity};
use spirea_protocols::{ProtocolError, Query, Responder, Sizes};

use crate::{VERSION, params};

/// Gives the answers.
pub type Behaviour = Box<dyn Fn(&[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> + Send + Sync>;

/// Takes batches of up to 4.
pub struct Scripted {
    /// What it says of its bytes.
    pub sizes: Sizes,
    /// How it answers.
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

/// What a scripted database is: one of the protocol `simple`, called `test`.
pub fn identity() -> Identity {
    crate::identity("test", VERSION, &params("simple"))
}

/// The database whose answers are those of `behaviour`.
pub fn database(behaviour: Behaviour) -> Database {
    let identity = identity();
    let sizes = identity.params.sizes();
    Database::new(identity, Box::new(Scripted { sizes, behaviour })).expect("its parts belong together")
}

/// Answers that begin with the query's first byte.
///
/// # Errors
/// None: it is a [`Behaviour`].
pub fn echo(queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let answer_bytes = identity().params.sizes().answer_bytes;
    Ok(queries.iter().map(|query| vec![query.bytes[0]; answer_bytes]).collect())
}

/// A behaviour that says with which queries it begins, by their first bytes, and [echoes](echo) them when told to.
pub fn gated() -> (Behaviour, Receiver<Vec<u8>>, Sender<()>) {
    let (begun, begins) = channel();
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let behaviour = move |queries: &[Query<'_>]| {
        begun.send(queries.iter().map(|query| query.bytes[0]).collect()).expect("the test listens");
        gone.lock().expect("nothing panics here").recv().expect("the test says when to go on");
        echo(queries)
    };
    (Box::new(behaviour), begins, go)
}

/// Queries that begin with these bytes.
pub fn queries(first: &[u8]) -> Vec<Bytes> {
    let query_bytes = identity().params.sizes().query_bytes;
    first.iter().map(|&byte| Bytes::from(vec![byte; query_bytes])).collect()
}

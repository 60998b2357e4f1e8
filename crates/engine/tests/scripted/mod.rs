//! Databases whose responders do as they are told.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use spirea_backend::{Backend as _, NaiveBackend};
use spirea_engine::{Database, HintFile, Identity};
use spirea_protocols::parameters::Parameters as _;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::simple::Params;
use spirea_protocols::{ProtocolError, Query, Responder, Sizes, Table, TableKind};

pub const VERSION: [u8; 32] = [1; 32];

/// Gives the answers.
pub type Behaviour = Box<dyn Fn(&[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> + Send + Sync>;

/// Takes batches of up to 4.
pub struct Scripted {
    pub sizes: Sizes,
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

pub fn identity() -> Identity {
    let table = Table {
        kind: TableKind::Index,
        entries: 10,
        records: 10,
        payload_bytes: 24,
        salt: [0; 32],
        places: None,
        fields: vec!["value".into()],
        proofs: None,
    };
    let params = Params {
        set: "module-1280".into(),
        seed: [0; 32],
        records: 10,
        record_bytes: 32,
        rows: 32,
        columns: 256,
    };
    let hint = HintFile {
        path: "hint".into(),
        bytes: params.sizes().hint_bytes,
        blake3: [0; 32],
        rows: "rows".into(),
        rows_bytes: 512,
    };
    let params = ProtocolParams::Simple(params);
    Identity {
        name: "test".into(),
        version: VERSION,
        party: None,
        params,
        table,
        hint,
        manifest: Bytes::new(),
        backend: NaiveBackend.id(),
    }
}

pub fn database(behaviour: Behaviour) -> Database {
    let identity = identity();
    let sizes = identity.params.sizes();
    Database::new(identity, Box::new(Scripted { sizes, behaviour })).unwrap()
}

/// Answers that begin with the query's first byte.
pub fn echo(queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let answer_bytes = identity().params.sizes().answer_bytes;
    Ok(queries.iter().map(|query| vec![query.bytes[0]; answer_bytes]).collect())
}

/// A responder that says with which queries it begins, by their first bytes, and goes on when told to.
pub fn gated() -> (Behaviour, Receiver<Vec<u8>>, Sender<()>) {
    let (begun, begins) = channel();
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let behaviour = move |queries: &[Query<'_>]| {
        begun.send(queries.iter().map(|query| query.bytes[0]).collect()).unwrap();
        gone.lock().unwrap().recv().unwrap();
        echo(queries)
    };
    (Box::new(behaviour), begins, go)
}

pub fn queries(first: &[u8]) -> Vec<Bytes> {
    let query_bytes = identity().params.sizes().query_bytes;
    first.iter().map(|&byte| Bytes::from(vec![byte; query_bytes])).collect()
}

//! An engine with a protocol whose keys are counted.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use bytes::Bytes;
use spirea_backend::{Backend as _, NaiveBackend};
use spirea_engine::keys::Amount;
use spirea_engine::{
    Asked, Database, Engine, EngineError, HintFile, Identity, KeyOptions, KeyOwner, KeyRegistry, KeyUsage,
    Ticket,
};
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::{PreparedKeys, ProtocolError, Query, Responder, Sizes, Table, TableKind};

/// Bytes of memory that a set takes here once it is prepared.
pub const PREPARED: u64 = 1000;
/// The first byte of keys that no responder takes.
pub const BAD: u8 = 0xff;
pub const VERSION: [u8; 32] = [1; 32];

pub static PARAMS: LazyLock<ProtocolParams> = LazyLock::new(|| params("exppack-simple"));

pub fn params(protocol: &str) -> ProtocolParams {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    ProtocolParams::choose(&choice, [0; 32], 10, 32).unwrap()
}

pub fn identity(name: &str, version: [u8; 32], params: &ProtocolParams) -> Identity {
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
    let hint = HintFile {
        path: "hint".into(),
        bytes: params.sizes().hint_bytes,
        blake3: [0; 32],
        rows: "rows".into(),
        rows_bytes: 0,
    };
    Identity {
        name: name.into(),
        version,
        party: None,
        params: params.clone(),
        table,
        hint,
        manifest: Bytes::new(),
        backend: NaiveBackend.id(),
    }
}

/// What the tests see of a responder's work.
#[derive(Default)]
pub struct Seen {
    prepared: AtomicUsize,
    /// The keys that were prepared, for as long as someone has them.
    alive: Mutex<Vec<Weak<u8>>>,
}

impl Seen {
    pub fn prepared(&self) -> usize {
        self.prepared.load(Ordering::SeqCst)
    }

    pub fn alive(&self) -> usize {
        self.alive.lock().unwrap().iter().filter(|keys| keys.strong_count() > 0).count()
    }
}

/// A responder whose answers are the first byte of its client's keys.
pub struct Keyed {
    pub seen: Arc<Seen>,
    pub form: u8,
    /// Runs before every batch.
    pub hook: Box<dyn Fn() + Send + Sync>,
}

impl Responder for Keyed {
    fn sizes(&self) -> Sizes {
        PARAMS.sizes()
    }

    fn max_batch(&self) -> usize {
        2
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        if bytes[0] == BAD || bytes[1] != self.form {
            let detail = "no keys of this form".into();
            return Err(ProtocolError::Malformed { what: "keys", detail });
        }
        self.seen.prepared.fetch_add(1, Ordering::SeqCst);
        let keys = Arc::new(bytes[0]);
        self.seen.alive.lock().unwrap().push(Arc::downgrade(&keys));
        Ok(PreparedKeys::new(keys, PREPARED as usize))
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        (self.hook)();
        let first = |query: &Query<'_>| *query.keys.unwrap().get::<u8>().unwrap();
        Ok(queries.iter().map(|query| vec![first(query); PARAMS.sizes().answer_bytes]).collect())
    }
}

/// An engine under test, with a database called `test`.
pub struct Fixture {
    pub engine: Arc<Engine>,
    pub seen: Arc<Seen>,
}

impl Fixture {
    pub fn new(options: &KeyOptions) -> Self {
        Self::over(KeyRegistry::open(options).unwrap())
    }

    pub fn over(registry: KeyRegistry) -> Self {
        let engine = Arc::new(Engine::new(8, registry).unwrap());
        let seen = publish(&engine, "test", VERSION, 0, Box::new(|| ()));
        Self { engine, seen }
    }

    pub fn register(&self, bytes: &[u8]) -> [u8; 32] {
        register(&self.engine, "test", bytes).unwrap()
    }

    pub fn register_for(&self, owner: &[u8], client: u8) -> [u8; 32] {
        let base = self.engine.version("test", None).unwrap();
        self.engine.register_keys(base.base(), &keys(client), Some(KeyOwner::new(owner))).unwrap()
    }

    /// The first byte of the keys with which a query was answered.
    pub fn ask(&self, keys: [u8; 32]) -> Result<u8, EngineError> {
        ask(&self.engine, "test", VERSION, keys)
    }

    pub fn knows(&self, keys: [u8; 32]) -> bool {
        match self.ask(keys) {
            Ok(_) => true,
            Err(EngineError::UnknownKeys) => false,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn usage(&self) -> [(usize, u64); 2] {
        let KeyUsage { memory, disk } = self.engine.key_usage();
        [(memory.sets, memory.bytes), (disk.sets, disk.bytes)]
    }
}

pub fn publish(
    engine: &Engine,
    name: &str,
    version: [u8; 32],
    form: u8,
    hook: Box<dyn Fn() + Send + Sync>,
) -> Arc<Seen> {
    let (database, seen) = database(name, version, form, hook);
    engine.publish(database);
    seen
}

pub fn database(
    name: &str,
    version: [u8; 32],
    form: u8,
    hook: Box<dyn Fn() + Send + Sync>,
) -> (Database, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let responder = Keyed { seen: Arc::clone(&seen), form, hook };
    (Database::new(identity(name, version, &PARAMS), Box::new(responder)).unwrap(), seen)
}

pub fn queries() -> Vec<Bytes> {
    vec![Bytes::from(vec![0; PARAMS.sizes().query_bytes])]
}

pub fn register(engine: &Engine, name: &str, bytes: &[u8]) -> Result<[u8; 32], EngineError> {
    engine.register_keys(engine.version(name, None)?.base(), bytes, None)
}

pub fn submit(
    engine: &Engine,
    name: &str,
    version: &[u8; 32],
    keys: Option<[u8; 32]>,
    queries: Vec<Bytes>,
) -> Result<Ticket, EngineError> {
    engine.submit(&engine.version(name, Some(version))?, vec![Asked { keys, queries }])
}

pub fn ask(engine: &Engine, name: &str, version: [u8; 32], keys: [u8; 32]) -> Result<u8, EngineError> {
    let ticket = submit(engine, name, &version, Some(keys), queries())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    Ok(runtime.block_on(ticket)?.answers[0][0][0])
}

/// A client's keys; `client` tells them apart.
pub fn keys(client: u8) -> Vec<u8> {
    let mut bytes = vec![0; PARAMS.sizes().keys_bytes];
    (bytes[0], bytes[2]) = (client, client);
    bytes
}

pub fn set_bytes() -> u64 {
    PARAMS.sizes().keys_bytes as u64
}

pub fn in_memory(sets: u64) -> KeyOptions {
    KeyOptions { memory_bytes: sets * PREPARED, ..KeyOptions::default() }
}

pub fn on_disk(folder: &Path, sets: usize) -> KeyOptions {
    let disk = Amount { sets, ..KeyOptions::default().disk };
    KeyOptions { memory_bytes: 0, folder: Some(folder.into()), disk, ..KeyOptions::default() }
}

pub fn both(folder: &Path) -> KeyOptions {
    KeyOptions { folder: Some(folder.into()), ..KeyOptions::default() }
}

/// The file of a client's keys.
pub fn file_of(folder: &Path, client: u8) -> Option<PathBuf> {
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).find(|path| std::fs::read(path).unwrap().get(2) == Some(&client))
}

pub fn files(folder: &Path) -> usize {
    folder.read_dir().unwrap().count()
}

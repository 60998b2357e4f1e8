//! An engine with a protocol whose keys are counted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use spirea_engine::keys::Amount;
use spirea_engine::{
    Asked, Database, Engine, EngineError, KeyOptions, KeyOwner, KeyRegistry, KeyUsage, Ticket,
};
use spirea_protocols::{KeysHash, Version};
use spirea_specimens::keyed::{self, Keyed, PARAMS, PREPARED, Seen, keys, queries};
use spirea_specimens::{Hook, VERSION, no_hook};

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
        let seen = publish(&engine, "test", VERSION, 0, no_hook());
        Self { engine, seen }
    }

    pub fn register(&self, bytes: &[u8]) -> KeysHash {
        register(&self.engine, "test", bytes).unwrap()
    }

    pub fn register_for(&self, owner: &[u8], client: u8) -> KeysHash {
        let base = self.engine.version("test", None).unwrap();
        self.engine.register_keys(base.base(), &keys(client), Some(KeyOwner::new(owner))).unwrap()
    }

    /// Returns the first byte of the keys that answered a query.
    pub fn ask(&self, keys: KeysHash) -> Result<u8, EngineError> {
        ask(&self.engine, "test", VERSION, keys)
    }

    pub fn knows(&self, keys: KeysHash) -> bool {
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

pub fn publish(engine: &Engine, name: &str, version: Version, form: u8, hook: Hook) -> Arc<Seen> {
    let (database, seen) = database(name, version, form, hook);
    engine.publish(database);
    seen
}

/// Creates a database whose responder takes keys of this form.
pub fn database(name: &str, version: Version, form: u8, before_batch: Hook) -> (Database, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let responder = Keyed { seen: Arc::clone(&seen), form: Some(form), before_batch, ..Keyed::default() };
    (keyed::database(name, version, responder), seen)
}

pub fn register(engine: &Engine, name: &str, bytes: &[u8]) -> Result<KeysHash, EngineError> {
    engine.register_keys(engine.version(name, None)?.base(), bytes, None)
}

pub fn submit(
    engine: &Engine,
    name: &str,
    version: &Version,
    keys: Option<KeysHash>,
    queries: Vec<Bytes>,
) -> Result<Ticket, EngineError> {
    engine.submit(&engine.version(name, Some(version))?, vec![Asked { keys, queries }])
}

pub fn ask(engine: &Engine, name: &str, version: Version, keys: KeysHash) -> Result<u8, EngineError> {
    let ticket = submit(engine, name, &version, Some(keys), queries(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    Ok(runtime.block_on(ticket)?.answers[0][0][0])
}

pub fn set_bytes() -> u64 {
    PARAMS.sizes.keys_bytes as u64
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

/// Returns the path of the file with a client's keys.
pub fn file_of(folder: &Path, client: u8) -> Option<PathBuf> {
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).find(|path| std::fs::read(path).unwrap().get(2) == Some(&client))
}

pub fn files(folder: &Path) -> usize {
    folder.read_dir().unwrap().count()
}

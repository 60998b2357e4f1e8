//! Evaluation keys: registered, evicted, stored, damaged, and in use meanwhile.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use spirea_engine::keys::{Amount, ClientPart, Departures};
use spirea_engine::{
    Asked, Database, Engine, EngineError, HintFile, Identity, KeyEvents, KeyOptions, KeyOwner, KeyRegistry,
    KeyUsage, Ticket, Turns,
};
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::{PreparedKeys, ProtocolError, Query, Responder, Sizes, Table, TableKind};

/// Bytes of memory that a set takes here once it is prepared.
const PREPARED: u64 = 1000;
/// The first byte of keys that no responder takes.
const BAD: u8 = 0xff;
const VERSION: [u8; 32] = [1; 32];

static PARAMS: LazyLock<ProtocolParams> = LazyLock::new(|| params("exppack-simple"));

fn params(protocol: &str) -> ProtocolParams {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    ProtocolParams::choose(&choice, [0; 32], 10, 32).unwrap()
}

fn identity(name: &str, version: [u8; 32], params: &ProtocolParams) -> Identity {
    let table = Table {
        kind: TableKind::Index,
        entries: 10,
        records: 10,
        payload_bytes: 24,
        salt: [0; 32],
        fields: vec!["value".into()],
        proofs: None,
    };
    let hint = HintFile {
        path: "hint".into(),
        bytes: params.sizes().hint_bytes,
        blake3: [0; 32],
        rows: "rows".into(),
    };
    Identity {
        name: name.into(),
        version,
        party: None,
        params: params.clone(),
        table,
        hint,
        manifest: Bytes::new(),
        backend: 0,
    }
}

/// What the tests see of a responder's work.
#[derive(Default)]
struct Seen {
    prepared: AtomicUsize,
    /// The keys that were prepared, for as long as someone has them.
    alive: Mutex<Vec<Weak<u8>>>,
}

impl Seen {
    fn prepared(&self) -> usize {
        self.prepared.load(Ordering::SeqCst)
    }

    fn alive(&self) -> usize {
        self.alive.lock().unwrap().iter().filter(|keys| keys.strong_count() > 0).count()
    }
}

/// A responder whose answers are the first byte of its client's keys.
struct Keyed {
    seen: Arc<Seen>,
    form: u8,
    /// Runs before every batch.
    hook: Box<dyn Fn() + Send + Sync>,
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
struct Fixture {
    engine: Arc<Engine>,
    seen: Arc<Seen>,
}

impl Fixture {
    fn new(options: &KeyOptions) -> Self {
        Self::over(KeyRegistry::open(options).unwrap())
    }

    fn over(registry: KeyRegistry) -> Self {
        let engine = Arc::new(Engine::new(8, registry).unwrap());
        let seen = publish(&engine, "test", VERSION, 0, Box::new(|| ()));
        Self { engine, seen }
    }

    fn register(&self, bytes: &[u8]) -> [u8; 32] {
        register(&self.engine, "test", bytes).unwrap()
    }

    fn register_for(&self, owner: &[u8], client: u8) -> [u8; 32] {
        let base = self.engine.version("test", None).unwrap();
        self.engine.register_keys(base.base(), &keys(client), Some(KeyOwner::new(owner))).unwrap()
    }

    /// The first byte of the keys with which a query was answered.
    fn ask(&self, keys: [u8; 32]) -> Result<u8, EngineError> {
        ask(&self.engine, "test", VERSION, keys)
    }

    fn knows(&self, keys: [u8; 32]) -> bool {
        match self.ask(keys) {
            Ok(_) => true,
            Err(EngineError::UnknownKeys) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn usage(&self) -> [(usize, u64); 2] {
        let KeyUsage { memory, disk } = self.engine.key_usage();
        [(memory.sets, memory.bytes), (disk.sets, disk.bytes)]
    }
}

fn publish(
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

fn database(
    name: &str,
    version: [u8; 32],
    form: u8,
    hook: Box<dyn Fn() + Send + Sync>,
) -> (Database, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let responder = Keyed { seen: Arc::clone(&seen), form, hook };
    (Database::new(identity(name, version, &PARAMS), Box::new(responder)).unwrap(), seen)
}

fn queries() -> Vec<Bytes> {
    vec![Bytes::from(vec![0; PARAMS.sizes().query_bytes])]
}

fn register(engine: &Engine, name: &str, bytes: &[u8]) -> Result<[u8; 32], EngineError> {
    engine.register_keys(engine.version(name, None)?.base(), bytes, None)
}

fn submit(
    engine: &Engine,
    name: &str,
    version: &[u8; 32],
    keys: Option<[u8; 32]>,
    queries: Vec<Bytes>,
) -> Result<Ticket, EngineError> {
    engine.submit(&engine.version(name, Some(version))?, vec![Asked { keys, queries }])
}

fn ask(engine: &Engine, name: &str, version: [u8; 32], keys: [u8; 32]) -> Result<u8, EngineError> {
    let ticket = submit(engine, name, &version, Some(keys), queries())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    Ok(runtime.block_on(ticket)?.answers[0][0][0])
}

/// A client's keys; `client` tells them apart.
fn keys(client: u8) -> Vec<u8> {
    let mut bytes = vec![0; PARAMS.sizes().keys_bytes];
    (bytes[0], bytes[2]) = (client, client);
    bytes
}

fn set_bytes() -> u64 {
    PARAMS.sizes().keys_bytes as u64
}

fn in_memory(sets: u64) -> KeyOptions {
    KeyOptions { memory_bytes: sets * PREPARED, ..KeyOptions::default() }
}

fn on_disk(folder: &Path, sets: usize) -> KeyOptions {
    let disk = Amount { sets, ..KeyOptions::default().disk };
    KeyOptions { memory_bytes: 0, folder: Some(folder.into()), disk, ..KeyOptions::default() }
}

fn both(folder: &Path) -> KeyOptions {
    KeyOptions { folder: Some(folder.into()), ..KeyOptions::default() }
}

/// The file of a client's keys.
fn file_of(folder: &Path, client: u8) -> Option<PathBuf> {
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).find(|path| std::fs::read(path).unwrap().get(2) == Some(&client))
}

fn files(folder: &Path) -> usize {
    folder.read_dir().unwrap().count()
}

#[test]
fn keys_are_registered_once_and_answer_all_queries_that_name_them() {
    let fixture = Fixture::new(&KeyOptions::default());
    let hashes = [1, 2].map(|client| fixture.register(&keys(client)));
    assert_eq!(hashes[0], *blake3::hash(&keys(1)).as_bytes());
    for _ in 0..3 {
        assert_eq!(hashes.map(|hash| fixture.ask(hash).unwrap()), [1, 2]);
    }
    assert_eq!(fixture.register(&keys(1)), hashes[0]);
    assert_eq!(fixture.seen.prepared(), 2);
    assert_eq!(fixture.usage(), [(2, 2 * PREPARED), (0, 0)]);
}

#[test]
fn what_are_no_keys_is_refused_and_what_names_none_is_unknown() {
    let fixture = Fixture::new(&KeyOptions::default());
    let refused = |bytes: &[u8]| register(&fixture.engine, "test", bytes).unwrap_err();
    for length in [0, set_bytes() - 1, set_bytes() + 1] {
        assert!(matches!(refused(&vec![0; length as usize]), EngineError::Malformed(_)));
    }
    let bad = refused(&keys(BAD));
    assert!(matches!(bad, EngineError::Protocol(ProtocolError::Malformed { .. })), "{bad}");
    let other = register(&fixture.engine, "other", &keys(1)).unwrap_err();
    assert!(matches!(other, EngineError::UnknownDatabase));
    assert_eq!(fixture.usage(), [(0, 0), (0, 0)]);

    for keys in [None, Some([7; 32]), Some(*blake3::hash(&keys(BAD)).as_bytes())] {
        let error = submit(&fixture.engine, "test", &VERSION, keys, queries()).map(drop).unwrap_err();
        assert!(matches!(error, EngineError::UnknownKeys) && !error.accepted(), "{error}");
    }
    // A query for another version is told so first: its client will make new keys anyway.
    let stale = submit(&fixture.engine, "test", &[9; 32], Some([7; 32]), queries()).map(drop).unwrap_err();
    assert!(matches!(stale, EngineError::Stale { .. }));
}

#[test]
fn a_protocol_that_needs_no_keys_takes_none() {
    struct Keyless(Sizes);
    impl Responder for Keyless {
        fn sizes(&self) -> Sizes {
            self.0
        }
        fn max_batch(&self) -> usize {
            1
        }
        fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
            assert!(queries.iter().all(|query| query.keys.is_none()));
            Ok(vec![vec![0; self.0.answer_bytes]; queries.len()])
        }
    }
    let params = params("simple");
    let sizes = params.sizes();
    let engine = Engine::new(8, KeyRegistry::default()).unwrap();
    engine.publish(Database::new(identity("test", VERSION, &params), Box::new(Keyless(sizes))).unwrap());
    assert!(matches!(register(&engine, "test", &keys(1)), Err(EngineError::Malformed(_))));
    assert!(matches!(register(&engine, "test", &[]), Err(EngineError::Protocol(_))));
    let queries = vec![Bytes::from(vec![0; sizes.query_bytes])];
    let named = submit(&engine, "test", &VERSION, Some([7; 32]), queries.clone()).map(drop);
    assert!(matches!(named, Err(EngineError::Malformed(_))));
    assert!(submit(&engine, "test", &VERSION, None, queries).is_ok());
}

#[test]
fn the_least_recently_used_leave_memory_first() {
    let fixture = Fixture::new(&in_memory(2));
    let [a, b] = [1, 2].map(|client| fixture.register(&keys(client)));
    assert!(fixture.knows(a));
    let c = fixture.register(&keys(3));
    assert_eq!([a, b, c].map(|keys| fixture.knows(keys)), [true, false, true]);
    assert_eq!((fixture.usage()[0], fixture.seen.alive()), ((2, 2 * PREPARED), 2));
    // Their client uploads them again.
    assert_eq!(fixture.register(&keys(2)), b);
    assert_eq!([a, b, c].map(|keys| fixture.knows(keys)), [false, true, true]);
}

#[test]
fn keys_that_left_memory_are_prepared_again_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(&KeyOptions { memory_bytes: PREPARED, ..both(folder.path()) });
    let [a, b] = [1, 2].map(|client| fixture.register(&keys(client)));
    assert_eq!(fixture.usage(), [(1, PREPARED), (2, 2 * set_bytes())]);
    assert_eq!((fixture.ask(a).unwrap(), fixture.seen.prepared()), (1, 3));
    assert_eq!((fixture.ask(a).unwrap(), fixture.seen.prepared()), (1, 3));
    assert_eq!((fixture.ask(b).unwrap(), fixture.seen.prepared()), (2, 4));
    assert_eq!(fixture.usage(), [(1, PREPARED), (2, 2 * set_bytes())]);
    assert!(!fixture.knows([7; 32]));
    let events = KeyEvents { from_memory: 1, from_disk: 2, unknown: 1, ..KeyEvents::default() };
    let memory = Departures { evicted: 3, expired: 0 };
    assert_eq!(fixture.engine.key_events(), KeyEvents { memory, ..events });
}

#[test]
fn the_least_recently_used_leave_the_disk_first() {
    let by_number = |folder: &Path| on_disk(folder, 2);
    let by_bytes = |folder: &Path| KeyOptions {
        disk: Amount { bytes: 3 * set_bytes() - 1, ..KeyOptions::default().disk },
        ..on_disk(folder, 0)
    };
    let options: [&dyn Fn(&Path) -> KeyOptions; 2] = [&by_number, &by_bytes];
    for options in options {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Fixture::new(&options(folder.path()));
        let [a, b] = [1, 2].map(|client| fixture.register(&keys(client)));
        assert!(fixture.knows(a));
        let c = fixture.register(&keys(3));
        assert_eq!(fixture.usage()[1], (2, 2 * set_bytes()));
        assert_eq!((files(folder.path()), file_of(folder.path(), 2)), (2, None));
        assert_eq!([a, b, c].map(|keys| fixture.knows(keys)), [true, false, true]);
    }
}

#[test]
fn keys_in_use_in_memory_do_not_age_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(&KeyOptions { memory_bytes: 1 << 20, ..on_disk(folder.path(), 2) });
    let [a, _] = [1, 2].map(|client| fixture.register(&keys(client)));
    assert!(fixture.knows(a));
    fixture.register(&keys(3));
    assert!(file_of(folder.path(), 1).is_some() && file_of(folder.path(), 2).is_none());
}

#[test]
fn a_restart_keeps_keys_and_the_order_of_their_use() {
    let folder = tempfile::tempdir().unwrap();
    let hashes = {
        let fixture = Fixture::new(&both(folder.path()));
        [1, 2, 3].map(|client| fixture.register(&keys(client)))
    };
    // Times as far apart as a file system can tell, with the second as the latest.
    for (client, age) in [(1, 20), (2, 0), (3, 40)] {
        let file = File::options().append(true).open(file_of(folder.path(), client).unwrap()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
    let fixture = Fixture::new(&both(folder.path()));
    assert_eq!(fixture.usage(), [(0, 0), (3, 3 * set_bytes())]);
    assert_eq!(fixture.ask(hashes[0]).unwrap(), 1);
    drop(fixture);

    // Less room than before: the first has been used again, and the third is the oldest.
    let fixture = Fixture::new(&on_disk(folder.path(), 2));
    assert_eq!((fixture.usage()[1].0, files(folder.path())), (2, 2));
    assert_eq!(hashes.map(|keys| fixture.knows(keys)), [true, true, false]);
    drop(fixture);
    let fixture = Fixture::new(&on_disk(folder.path(), 0));
    assert_eq!((fixture.usage()[1].0, files(folder.path())), (0, 0));
}

#[test]
fn damaged_files_are_thrown_away_and_their_keys_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let options = on_disk(folder.path(), 8);
    let hash = Fixture::new(&options).register(&keys(1));
    let path = file_of(folder.path(), 1).unwrap();
    let damages: [fn(&mut Vec<u8>); 4] =
        [|bytes| bytes[77] ^= 4, |bytes| bytes.truncate(100), |bytes| bytes.push(0), Vec::clear];
    for damage in damages {
        let mut bytes = keys(1);
        damage(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let fixture = Fixture::new(&options);
        assert!(!fixture.knows(hash));
        assert_eq!((fixture.usage()[1], files(folder.path())), ((0, 0), 0));
        assert_eq!(fixture.register(&keys(1)), hash);
        assert!(fixture.knows(hash));
    }
    // Removed behind the registry's back: unknown, and stored again when they come again.
    let fixture = Fixture::new(&options);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(fixture.register(&keys(1)), hash);
    std::fs::remove_file(&path).unwrap();
    assert!(!fixture.knows(hash));
    assert_eq!(fixture.usage()[1], (0, 0));
}

#[test]
fn what_an_ended_process_left_is_removed_and_other_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let hash = Fixture::new(&both(folder.path())).register(&keys(1));
    let path = file_of(folder.path(), 1).unwrap();
    std::fs::write(path.with_extension("partial"), b"half").unwrap();
    for foreign in ["notes.txt", "0123.keys", "keys"] {
        std::fs::write(folder.path().join(foreign), b"not keys").unwrap();
    }
    let fixture = Fixture::new(&both(folder.path()));
    assert_eq!((fixture.usage()[1].0, files(folder.path())), (1, 4));
    assert!(fixture.knows(hash) && !path.with_extension("partial").exists());

    let error = KeyRegistry::open(&both(&folder.path().join("notes.txt"))).map(drop).unwrap_err();
    assert!(error.to_string().contains("notes.txt"), "{error}");
}

#[test]
fn budgets_below_one_set_are_told_where_nothing_is_left_to_hold_it() {
    let fixture = Fixture::new(&in_memory(0));
    assert!(matches!(register(&fixture.engine, "test", &keys(1)), Err(EngineError::NoRoomForKeys)));

    // The disk alone: prepared for every use.
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(&on_disk(folder.path(), 8));
    let hash = fixture.register(&keys(1));
    assert_eq!([fixture.ask(hash).unwrap(), fixture.ask(hash).unwrap()], [1, 1]);
    assert_eq!((fixture.seen.prepared(), fixture.seen.alive()), (3, 0));

    // Memory alone.
    let folder = tempfile::tempdir().unwrap();
    let disk = Amount { sets: 8, bytes: set_bytes() - 1 };
    let fixture = Fixture::new(&KeyOptions { disk, ..both(folder.path()) });
    let hash = fixture.register(&keys(1));
    assert!(fixture.knows(hash));
    assert_eq!((fixture.usage(), files(folder.path())), ([(1, PREPARED), (0, 0)], 0));
}

#[test]
fn a_disk_that_fails_leaves_keys_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("keys");
    let fixture = Fixture::new(&both(&inner));
    std::fs::remove_dir(&inner).unwrap();
    let hash = fixture.register(&keys(1));
    assert!(fixture.knows(hash));
    assert_eq!(fixture.usage(), [(1, PREPARED), (0, 0)]);
}

/// Turns that are counted, and room for keys or none.
#[derive(Default)]
struct Counted {
    turn: Mutex<()>,
    taken: AtomicUsize,
    room: AtomicBool,
}

impl Turns for Counted {
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.taken.fetch_add(1, Ordering::SeqCst);
        self.turn.lock().unwrap()
    }

    fn has_room_for_keys(&self) -> bool {
        assert!(self.turn.try_lock().is_err(), "asked by who has the turn");
        self.room.load(Ordering::SeqCst)
    }
}

#[test]
fn keys_are_prepared_in_turns_where_there_is_room() {
    let engine = Arc::new(Engine::new(8, KeyRegistry::open(&in_memory(8)).unwrap()).unwrap());
    let turns = Arc::new(Counted::default());
    let (database, seen) = database("test", VERSION, 0, Box::new(|| ()));
    let database = database.with_turns(Arc::clone(&turns) as Arc<dyn Turns>);
    let taken = || turns.taken.swap(0, Ordering::SeqCst);
    database.measure().unwrap();
    assert!(taken() > 1, "one for keys, and one for each batch");
    engine.publish(database);
    let fixture = Fixture { engine, seen };

    turns.room.store(true, Ordering::SeqCst);
    let hash = fixture.register(&keys(1));
    assert_eq!((taken(), fixture.ask(hash).unwrap(), taken()), (1, 1, 1));
    // Those that are there serve on; others are refused for a while.
    turns.room.store(false, Ordering::SeqCst);
    let prepared = fixture.seen.prepared();
    let refused = register(&fixture.engine, "test", &keys(2)).unwrap_err();
    assert!(matches!(refused, EngineError::KeysInUse { retry_after } if retry_after > Duration::ZERO));
    assert!(!refused.accepted() && fixture.seen.prepared() == prepared);
    assert_eq!(fixture.ask(hash).unwrap(), 1);
    turns.room.store(true, Ordering::SeqCst);
    assert_eq!(fixture.ask(fixture.register(&keys(2))).unwrap(), 2);
}

/// A hook that says when a batch begins and holds it until told to go on.
fn gate() -> (Box<dyn Fn() + Send + Sync>, Receiver<()>, Sender<()>) {
    let ((begun, begins), (go, gone)) = (channel(), channel());
    let gone = Mutex::new(gone);
    let hook = move || {
        begun.send(()).unwrap();
        gone.lock().unwrap().recv().unwrap();
    };
    (Box::new(hook), begins, go)
}

#[test]
fn keys_that_are_evicted_while_in_use_are_used_to_the_end() {
    let engine = Arc::new(Engine::new(8, KeyRegistry::open(&in_memory(1)).unwrap()).unwrap());
    let (hook, begins, go) = gate();
    let seen = publish(&engine, "test", VERSION, 0, hook);
    let fixture = Fixture { engine, seen };
    let submit = |keys| submit(&fixture.engine, "test", &VERSION, Some(keys), queries());
    let a = fixture.register(&keys(1));
    let (running, waiting) = (submit(a).unwrap(), submit(a).unwrap());
    begins.recv().unwrap();
    fixture.register(&keys(2));
    assert!(matches!(submit(a).map(drop), Err(EngineError::UnknownKeys)));
    assert_eq!(fixture.seen.alive(), 2);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for ticket in [running, waiting] {
        go.send(()).unwrap();
        assert_eq!(runtime.block_on(ticket).unwrap().answers[0][0][0], 1);
    }
    // And no longer.
    assert_eq!(fixture.seen.alive(), 1);
}

#[test]
fn keys_belong_to_the_database_that_they_were_registered_for() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(&both(folder.path()));
    let other = publish(&fixture.engine, "other", [2; 32], 0, Box::new(|| ()));
    let hash = fixture.register(&keys(1));
    let asked = |version| ask(&fixture.engine, "other", version, hash);
    assert!(matches!(asked([2; 32]), Err(EngineError::UnknownKeys)));
    assert_eq!(register(&fixture.engine, "other", &keys(1)).unwrap(), hash);
    assert_eq!((asked([2; 32]).unwrap(), fixture.ask(hash).unwrap()), (1, 1));
    assert_eq!((fixture.seen.prepared(), other.prepared()), (1, 1));
    assert_eq!(fixture.usage(), [(2, 2 * PREPARED), (2, 2 * set_bytes())]);
}

#[test]
fn keys_serve_every_version_that_needs_their_form() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(&both(folder.path()));
    let hash = fixture.register(&keys(1));
    let publish = |version, backend, form| {
        let seen = Arc::new(Seen::default());
        let responder = Keyed { seen: Arc::clone(&seen), form, hook: Box::new(|| ()) };
        let identity = Identity { backend, ..identity("test", version, &PARAMS) };
        fixture.engine.publish(Database::new(identity, Box::new(responder)).unwrap());
        seen
    };
    let next = publish([2; 32], 0, 0);
    assert_eq!(ask(&fixture.engine, "test", [2; 32], hash).unwrap(), 1);
    assert_eq!((fixture.seen.prepared(), next.prepared()), (1, 0));
    // The same version on another backend.
    let elsewhere = publish([2; 32], 1, 0);
    assert_eq!(ask(&fixture.engine, "test", [2; 32], hash).unwrap(), 1);
    assert_eq!((next.prepared(), elsewhere.prepared()), (0, 1));
    // One that takes other keys does not know these; those that took them still do.
    publish([3; 32], 2, 1);
    assert!(matches!(ask(&fixture.engine, "test", [3; 32], hash), Err(EngineError::UnknownKeys)));
    assert_eq!((ask(&fixture.engine, "test", [2; 32], hash).unwrap(), files(folder.path())), (1, 1));
}

#[test]
fn requests_with_one_need_prepare_once() {
    let folder = tempfile::tempdir().unwrap();
    let hash = Fixture::new(&both(folder.path())).register(&keys(1));
    let fixture = Fixture::new(&both(folder.path()));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(fixture.ask(hash).unwrap(), 1));
        }
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(fixture.register(&keys(2)), *blake3::hash(&keys(2)).as_bytes()));
        }
    });
    assert_eq!(fixture.seen.prepared(), 2);
    assert_eq!(fixture.usage(), [(2, 2 * PREPARED), (2, 2 * set_bytes())]);
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A clock that stands still until it is set, and the registry that goes by it.
fn set_clock(options: &KeyOptions) -> (Arc<Mutex<SystemTime>>, Fixture) {
    let time = Arc::new(Mutex::new(SystemTime::UNIX_EPOCH + 20_000 * DAY));
    (Arc::clone(&time), by_clock(options, &time))
}

fn by_clock(options: &KeyOptions, time: &Arc<Mutex<SystemTime>>) -> Fixture {
    let time = Arc::clone(time);
    let clock = Arc::new(move || *time.lock().unwrap());
    Fixture::over(KeyRegistry::with_clock(options, clock).unwrap())
}

#[test]
fn keys_that_nobody_uses_expire_in_memory_and_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let options = KeyOptions { expiry: 30 * DAY, ..both(folder.path()) };
    let (time, fixture) = set_clock(&options);
    let [used, unused] = [1, 2].map(|client| fixture.register(&keys(client)));
    *time.lock().unwrap() += 29 * DAY;
    assert!(fixture.knows(used));
    fixture.engine.expire_keys();
    assert_eq!(fixture.usage(), [(2, 2 * PREPARED), (2, 2 * set_bytes())]);
    *time.lock().unwrap() += DAY;
    // Nobody is answered with what has expired, whether or not it has been removed.
    assert!(!fixture.knows(unused) && fixture.knows(used));
    fixture.engine.expire_keys();
    assert_eq!((fixture.usage(), files(folder.path())), ([(1, PREPARED), (1, set_bytes())], 1));
    assert_eq!(fixture.seen.alive(), 1);
    let KeyEvents { memory, disk, .. } = fixture.engine.key_events();
    assert_eq!([memory, disk], [Departures { evicted: 0, expired: 1 }; 2]);
    // Registered again, they begin anew.
    assert_eq!(fixture.register(&keys(2)), unused);
    *time.lock().unwrap() += 29 * DAY;
    assert!(fixture.knows(unused) && fixture.knows(used));
}

#[test]
fn keys_expire_by_their_last_use_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let options = KeyOptions { expiry: 30 * DAY, ..both(folder.path()) };
    let (time, fixture) = set_clock(&options);
    let [used, unused] = [1, 2].map(|client| fixture.register(&keys(client)));
    let written = || file_of(folder.path(), 1).unwrap().metadata().unwrap().modified().unwrap();
    let registered = *time.lock().unwrap();
    assert_eq!(written(), registered);
    // A file's time is written once an hour at most.
    *time.lock().unwrap() += HOUR - Duration::from_secs(1);
    assert!(fixture.knows(used) && written() == registered);
    *time.lock().unwrap() += 20 * DAY;
    assert!(fixture.knows(used));
    assert_eq!(written(), registered + 20 * DAY + HOUR - Duration::from_secs(1));
    drop(fixture);

    *time.lock().unwrap() += 10 * DAY;
    let fixture = by_clock(&options, &time);
    assert_eq!((fixture.usage()[1].0, files(folder.path())), (1, 1));
    assert!(!fixture.knows(unused) && fixture.knows(used));
    // A clock that was set back makes nothing older.
    drop(fixture);
    *time.lock().unwrap() -= 1000 * DAY;
    assert!(by_clock(&options, &time).knows(used));
}

#[test]
fn a_client_displaces_its_own_keys_and_nobody_else_s() {
    let folder = tempfile::tempdir().unwrap();
    let in_memory = KeyOptions {
        client: ClientPart { memory_bytes: Some(2 * PREPARED), ..ClientPart::default() },
        ..KeyOptions::default()
    };
    let by_number =
        KeyOptions { client: ClientPart { sets: Some(2), ..ClientPart::default() }, ..KeyOptions::default() };
    let on_disk = KeyOptions {
        client: ClientPart { disk_bytes: Some(2 * set_bytes()), ..ClientPart::default() },
        ..on_disk(folder.path(), 8)
    };
    // Half of the whole where nothing else is said.
    let half = self::in_memory(4);
    for options in [in_memory, by_number, on_disk, half] {
        let fixture = Fixture::new(&options);
        let others = fixture.register_for(b"other", 0);
        let own = [1, 2, 3, 4].map(|client| fixture.register_for(b"greedy", client));
        assert!(fixture.knows(others));
        assert_eq!(own.map(|keys| fixture.knows(keys)), [false, false, true, true]);
        // What it has used last stays.
        assert!(fixture.knows(own[2]));
        fixture.register_for(b"greedy", 5);
        assert_eq!([own[2], own[3]].map(|keys| fixture.knows(keys)), [true, false]);
    }
}

#[test]
fn keys_that_come_back_from_disk_count_as_their_owner_s_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let client = ClientPart { memory_bytes: Some(PREPARED), ..ClientPart::default() };
    let fixture = Fixture::new(&KeyOptions { client, ..both(folder.path()) });
    let others = fixture.register_for(b"other", 0);
    let own = [1, 2, 3].map(|client| fixture.register_for(b"greedy", client));
    let prepared = fixture.seen.prepared();
    assert!(own.into_iter().chain(own).all(|keys| fixture.knows(keys)));
    assert_eq!(fixture.seen.prepared(), prepared + 6);
    assert!(fixture.knows(others));
    assert_eq!((fixture.seen.prepared(), fixture.usage()[0].0), (prepared + 6, 2));
}

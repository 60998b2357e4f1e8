//! Keys that are prepared and used by several requests at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use spirea_engine::{ComputeTurn, Engine, EngineError, KeyRegistry, Reservation};
use spirea_protocols::KeysHash;
use spirea_specimens::keyed::{PREPARED, keys, queries};
use spirea_specimens::{VERSION, gate, no_hook};

use super::fixture::{Fixture, both, database, in_memory, publish, register, set_bytes, submit};

/// Reservation that counts turns, and whose room for keys a test sets.
#[derive(Default)]
struct Counted {
    turn: Mutex<()>,
    taken: AtomicUsize,
    room: AtomicBool,
}

impl Reservation for Counted {
    fn compute_turn(&self) -> ComputeTurn<'_> {
        self.taken.fetch_add(1, Ordering::SeqCst);
        self.turn.lock()
    }

    fn has_room_for_keys(&self) -> bool {
        assert!(self.turn.try_lock().is_none(), "asked by who has the turn");
        self.room.load(Ordering::SeqCst)
    }
}

#[test]
fn a_database_takes_over_the_pace_of_a_like_one() {
    let (former, _) = database("test", VERSION, 0, no_hook());
    let next = || {
        let turns = Arc::new(Counted::default());
        let (next, _) = database("test", VERSION, 0, no_hook());
        (next.with_reservation(Arc::clone(&turns) as Arc<dyn Reservation>), turns)
    };
    let (first, turns) = next();
    first.measure_like(&former).unwrap();
    assert!(turns.taken.load(Ordering::SeqCst) > 1, "the former database was not measured");
    former.measure().unwrap();
    let (second, turns) = next();
    second.measure_like(&former).unwrap();
    assert_eq!((turns.taken.load(Ordering::SeqCst), second.pace()), (0, former.pace()));
}

#[test]
fn keys_are_prepared_in_turns_where_there_is_room() {
    let engine = Arc::new(Engine::new(8, KeyRegistry::open(&in_memory(8)).unwrap()).unwrap());
    let turns = Arc::new(Counted::default());
    let (database, seen) = database("test", VERSION, 0, no_hook());
    let database = database.with_reservation(Arc::clone(&turns) as Arc<dyn Reservation>);
    let taken = || turns.taken.swap(0, Ordering::SeqCst);
    database.measure().unwrap();
    assert!(taken() > 1, "one for keys, and one for each batch");
    engine.publish(database);
    let fixture = Fixture { engine, seen };

    turns.room.store(true, Ordering::SeqCst);
    let hash = fixture.register(&keys(1));
    assert_eq!((taken(), fixture.ask(hash).unwrap(), taken()), (1, 1, 1));
    // Prepared keys continue to serve; new keys are refused for a while.
    turns.room.store(false, Ordering::SeqCst);
    let prepared = fixture.seen.prepared();
    let refused = register(&fixture.engine, "test", &keys(2)).unwrap_err();
    assert!(matches!(refused, EngineError::KeysInUse { retry_after } if retry_after > Duration::ZERO));
    assert!(!refused.accepted() && fixture.seen.prepared() == prepared);
    assert_eq!(fixture.ask(hash).unwrap(), 1);
    turns.room.store(true, Ordering::SeqCst);
    assert_eq!(fixture.ask(fixture.register(&keys(2))).unwrap(), 2);
}

#[test]
fn keys_that_are_evicted_while_in_use_are_used_to_the_end() {
    let engine = Arc::new(Engine::new(8, KeyRegistry::open(&in_memory(1)).unwrap()).unwrap());
    let (hook, begins, go) = gate();
    let seen = publish(&engine, "test", VERSION, 0, hook);
    let fixture = Fixture { engine, seen };
    let submit = |keys| submit(&fixture.engine, "test", &VERSION, Some(keys), queries(1));
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
    // After the answers, the evicted keys are dropped.
    assert_eq!(fixture.seen.alive(), 1);
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
            scope.spawn(|| assert_eq!(fixture.register(&keys(2)), KeysHash::from(blake3::hash(&keys(2)))));
        }
    });
    assert_eq!(fixture.seen.prepared(), 2);
    assert_eq!(fixture.usage(), [(2, 2 * PREPARED), (2, 2 * set_bytes())]);
}

//! Databases that other machines compute: the number of concurrent batches, and waiting requests.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use spirea_engine::{Asked, Database, Engine, Identity, KeyRegistry, Load, Served, Ticket};
use spirea_protocols::{Query, Version};
use spirea_specimens::scripted::{Behaviour, Scripted, echo, gated, identity, queries};

/// Time limit for any event, on a machine with much other load.
const PATIENCE: Duration = Duration::from_secs(40);
/// Time to wait for an event that must not happen.
const NEVER: Duration = Duration::from_millis(200);

fn version(number: u8, behaviour: Behaviour) -> Database {
    let identity = Identity { version: Version::new([number; 32]), ..identity() };
    let sizes = identity.params.sizes;
    Database::new(identity, Box::new(Scripted { sizes, behaviour })).unwrap()
}

/// Returns an engine that serves these versions, newest first.
fn engine(versions: Vec<Database>) -> Engine {
    let engine = Engine::of_remote(8, KeyRegistry::default());
    engine.serve_exactly("test", versions.into_iter().map(Served::from).collect());
    engine
}

fn submit(engine: &Engine, version: u8, byte: u8) -> Ticket {
    let served = engine.version("test", Some(&Version::new([version; 32]))).unwrap();
    engine.submit(&served, vec![Asked { keys: None, queries: queries(&[byte]) }]).unwrap()
}

/// Returns the first byte of the only answer.
fn answer(ticket: Ticket) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let answers = runtime.block_on(async { tokio::time::timeout(PATIENCE, ticket).await });
    answers.expect("it is answered").unwrap().answers[0][0][0]
}

fn full(byte: u8) -> Vec<u8> {
    vec![byte; 4]
}

/// Submits three full batches; as many begin as there are slots.
fn begun(slots: Option<usize>) -> (Engine, Receiver<Vec<u8>>, Sender<()>, Vec<Ticket>) {
    let (behaviour, begins, go) = gated();
    let mut database = version(1, behaviour);
    if let Some(slots) = slots {
        database = database.with_slots(Box::new(move || slots));
    }
    let engine = engine(vec![database]);
    let served = engine.version("test", None).unwrap();
    let asked = |byte| vec![Asked { keys: None, queries: queries(&full(byte)) }];
    let tickets = (1..4).map(|byte| engine.submit(&served, asked(byte)).unwrap()).collect();
    (engine, begins, go, tickets)
}

#[test]
fn as_many_batches_are_computed_at_a_time_as_there_are_slots() {
    for (slots, count) in [(None, 1), (Some(1), 1), (Some(2), 2), (Some(3), 3), (Some(9), 3)] {
        let (engine, begins, go, tickets) = begun(slots);
        let mut first: Vec<_> = (0..count).map(|_| begins.recv_timeout(PATIENCE).unwrap()).collect();
        first.sort_unstable();
        assert_eq!(first, (1..=count as u8).map(full).collect::<Vec<_>>());
        assert_eq!(engine.load(), Load { waiting: 3 - count, running: count });
        assert!(matches!(begins.recv_timeout(NEVER), Err(RecvTimeoutError::Timeout)), "{slots:?}");
        (0..3).for_each(|_| go.send(()).unwrap());
        assert_eq!(tickets.into_iter().map(answer).collect::<Vec<_>>(), [1, 2, 3]);
    }
}

#[test]
fn a_former_version_that_waits_for_its_machines_delays_nobody() {
    let (stuck, begins, go) = gated();
    let engine = engine(vec![version(2, Box::new(echo)), version(1, stuck)]);
    let first = submit(&engine, 1, 7);
    begins.recv_timeout(PATIENCE).unwrap();
    let former = [first, submit(&engine, 1, 8)];
    assert_eq!(answer(submit(&engine, 2, 9)), 9);
    let [newest, of_former] =
        [2, 1].map(|version| engine.version("test", Some(&Version::new([version; 32]))).unwrap());
    assert_eq!((newest.load(), of_former.load()), (Load::default(), Load { waiting: 1, running: 1 }));
    (0..2).for_each(|_| go.send(()).unwrap());
    assert_eq!(former.map(answer), [7, 8]);
}

/// Waits until nothing holds the value any more.
fn ends(held: &Weak<()>) {
    let started = Instant::now();
    while held.strong_count() > 0 {
        assert!(started.elapsed() < PATIENCE, "its threads go on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_forgotten_version_has_accepted_is_answered_and_then_its_threads_end() {
    let (stuck, begins, go) = gated();
    let alive = Arc::new(());
    let held = Arc::downgrade(&alive);
    let behaviour = move |queries: &[Query<'_>]| {
        let _alive = &alive;
        stuck(queries)
    };
    let engine = engine(vec![version(1, Box::new(behaviour))]);
    let served = engine.version("test", None).unwrap();
    let first = submit(&engine, 1, 7);
    begins.recv_timeout(PATIENCE).unwrap();
    let accepted = [first, submit(&engine, 1, 8)];
    engine.forget("test");
    assert_eq!(served.load(), Load { waiting: 1, running: 1 });
    assert!(!served.is_left(), "requests have it");
    (0..2).for_each(|_| go.send(()).unwrap());
    assert_eq!(accepted.map(answer), [7, 8]);
    assert!(served.is_left());
    drop(served);
    ends(&held);
}

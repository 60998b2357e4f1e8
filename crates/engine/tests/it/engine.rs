//! Admission, order, cancellation and failure, with scripted responders.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use spirea_backend::{BackendError, StepTimes, StoredFile};
use spirea_engine::{
    Asked, Database, Engine, EngineError, HintFile, Identity, KeyRegistry, Load, LoadError, Served, State,
    Ticket,
};
use spirea_protocols::{FileHash, Party, PlaceSalt, ProtocolError, Query, Sizes, Table, TableKind, Version};
use spirea_specimens::VERSION;
use spirea_specimens::scripted::{Behaviour, Scripted, database, echo, gated, identity, queries};

fn engine(queue: usize, behaviour: Behaviour) -> Engine {
    let engine = Engine::new(queue, KeyRegistry::default()).unwrap();
    engine.announce("test", VERSION).unwrap();
    engine.publish(database(behaviour));
    engine
}

fn submit_to(engine: &Engine, version: &Version, queries: Vec<Bytes>) -> Result<Ticket, EngineError> {
    engine.submit(&engine.version("test", Some(version))?, vec![Asked { keys: None, queries }])
}

#[tokio::test]
async fn a_batch_is_answered_in_order() {
    let engine = engine(8, Box::new(echo));
    let answers = submit_to(&engine, &VERSION, queries(&[3, 1, 2])).unwrap().await.unwrap();
    assert_eq!(answers.answers[0].iter().map(|answer| answer[0]).collect::<Vec<_>>(), [3, 1, 2]);
}

#[tokio::test]
async fn requests_are_checked_before_they_are_admitted() {
    let engine = engine(8, Box::new(|_| panic!("nothing may be computed")));
    let submit = |version: &Version, queries| submit_to(&engine, version, queries).map(drop).unwrap_err();
    assert!(matches!(submit(&Version::new([2; 32]), queries(&[1])), EngineError::Stale { current: VERSION }));
    for bad in [vec![], queries(&[1; 5]), vec![b"short".as_slice().into()]] {
        let error = submit(&VERSION, bad);
        assert!(matches!(error, EngineError::Malformed(_)) && !error.accepted(), "{error}");
    }
    let unknown = engine.version("other", None).map(drop).unwrap_err();
    assert!(matches!(unknown, EngineError::UnknownDatabase));
}

#[tokio::test]
async fn a_full_queue_refuses_and_a_gone_caller_frees_its_place() {
    let (behaviour, begins, go) = gated();
    let engine = engine(2, behaviour);
    let submit = |byte| submit_to(&engine, &VERSION, queries(&[byte]));
    let first = submit(1).unwrap();
    assert_eq!(begins.recv().unwrap(), [1]);
    let (second, third) = (submit(2).unwrap(), submit(3).unwrap());
    assert_eq!(engine.load(), Load { waiting: 2, running: 1 });
    match submit(4).map(drop).unwrap_err() {
        EngineError::Overloaded { retry_after } => assert!(retry_after >= Duration::from_secs(1)),
        error => panic!("{error}"),
    }
    drop(second);
    assert_eq!(engine.load(), Load { waiting: 1, running: 1 });
    let fifth = submit(5).unwrap();
    // The caller of a request that is being answered may go away, too.
    drop(first);
    go.send(()).unwrap();
    // The remaining requests share a batch.
    assert_eq!(begins.recv().unwrap(), [3, 5]);
    go.send(()).unwrap();
    assert_eq!(third.await.unwrap().answers[0][0][0], 3);
    assert_eq!(fifth.await.unwrap().answers[0][0][0], 5);
}

#[tokio::test]
async fn failures_are_told_and_the_next_request_is_answered() {
    let behaviour = |queries: &[Query<'_>]| match queries[0].bytes[0] {
        1 => panic!("a defect"),
        2 => Ok(vec![]),
        3 => Ok(vec![vec![0; 1]; queries.len()]),
        4 => Err(BackendError::Unavailable("gone".into()).into()),
        _ => echo(queries),
    };
    let engine = engine(8, Box::new(behaviour));
    let answer = async |byte| submit_to(&engine, &VERSION, queries(&[byte])).unwrap().await;
    assert!(matches!(answer(1).await, Err(EngineError::Panicked)));
    assert!(matches!(answer(2).await, Err(EngineError::WrongAnswers)));
    assert!(matches!(answer(3).await, Err(EngineError::WrongAnswers)));
    let error = answer(4).await.unwrap_err();
    assert!(matches!(error, EngineError::Protocol(ProtocolError::Backend(_))) && error.accepted());
    assert_eq!(answer(9).await.unwrap().answers[0][0][0], 9);
    assert_eq!(engine.load(), Load { waiting: 0, running: 0 });
}

#[tokio::test]
async fn an_engine_that_goes_leaves_nobody_waiting() {
    let (behaviour, begins, go) = gated();
    let engine = engine(8, behaviour);
    let running = submit_to(&engine, &VERSION, queries(&[1])).unwrap();
    begins.recv().unwrap();
    let waiting = submit_to(&engine, &VERSION, queries(&[2])).unwrap();
    drop(engine);
    assert!(matches!(waiting.await, Err(EngineError::Stopping)));
    go.send(()).unwrap();
    assert_eq!(running.await.unwrap().answers[0][0][0], 1);
}

#[tokio::test]
async fn a_new_version_takes_over_and_the_old_one_finishes_what_it_accepted() {
    let (behaviour, begins, go) = gated();
    let engine = engine(8, behaviour);
    let first = submit_to(&engine, &VERSION, queries(&[1])).unwrap();
    begins.recv().unwrap();
    let second = submit_to(&engine, &VERSION, queries(&[2])).unwrap();
    // Two bases are kept, so this one is dropped first.
    for version in [2, 3] {
        let newer = Identity { version: Version::new([version; 32]), ..identity() };
        let sizes = newer.params.sizes;
        engine
            .publish(Database::new(newer, Box::new(Scripted { sizes, behaviour: Box::new(echo) })).unwrap());
    }
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert_eq!(first.await.unwrap().answers[0][0][0], 1);
    assert_eq!(second.await.unwrap().answers[0][0][0], 2);
    let stale = submit_to(&engine, &VERSION, queries(&[3])).map(drop).unwrap_err();
    assert!(matches!(stale, EngineError::Stale { current } if current == Version::new([3; 32])));
}

#[test]
fn states_are_told() {
    let engine = Engine::new(1, KeyRegistry::default()).unwrap();
    engine.announce("test", VERSION).unwrap();
    assert!(matches!(engine.announce("test", VERSION), Err(LoadError::DuplicateName(_))));
    assert!(matches!(engine.version("test", None), Err(EngineError::Loading)));
    engine.fail("test", "damaged".into());
    assert!(matches!(engine.version("test", None), Err(EngineError::Failed)));
    assert!(matches!(&engine.statuses()[0].state, State::Failed(cause) if cause == "damaged"));
    engine.publish(database(Box::new(echo)));
    assert!(engine.version("test", None).is_ok() && engine.knows("test") && !engine.knows("other"));
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let responder = |query_bytes| {
        let sizes = Sizes { query_bytes, ..identity().params.sizes };
        Box::new(Scripted { sizes, behaviour: Box::new(echo) })
    };
    let right = identity().params.sizes.query_bytes;
    let refused = |identity, query_bytes| {
        matches!(Database::new(identity, responder(query_bytes)), Err(LoadError::Inconsistent(_)))
    };
    assert!(!refused(identity(), right));
    assert!(refused(identity(), right + 4));
    let hint = HintFile { bytes: 1, ..identity().hint };
    assert!(refused(Identity { hint, ..identity() }, right));
    assert!(refused(Identity { party: Some(Party::Zero), ..identity() }, right));
    let table = Table { payload_bytes: 25, ..identity().table };
    assert!(refused(Identity { table, ..identity() }, right));
}

/// Many callers ask at once, and some of them go away. Each remaining caller gets its own answer.
#[tokio::test]
async fn many_callers_get_their_own_answers() {
    let engine = Arc::new(engine(64, Box::new(echo)));
    let callers: Vec<_> = (0..64u8)
        .map(|byte| {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move {
                for _ in 0..20 {
                    let ticket = submit_to(&engine, &VERSION, queries(&[byte])).unwrap();
                    if byte % 3 == 0 {
                        drop(ticket);
                    } else {
                        assert_eq!(ticket.await.unwrap().answers[0][0][0], byte);
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

#[tokio::test]
async fn a_device_that_fails_is_told_of() {
    let (tell, told) = channel();
    let lost = |_: &[Query<'_>]| Err(ProtocolError::Backend(BackendError::Device("gone".into())));
    let engine = Engine::new(8, KeyRegistry::default()).unwrap();
    engine.announce("test", VERSION).unwrap();
    let handler = move |reason: &str| tell.send(reason.to_owned()).unwrap();
    engine.publish(database(Box::new(lost)).with_loss_handler(Box::new(handler)));
    let error = submit_to(&engine, &VERSION, queries(&[1])).unwrap().await.unwrap_err();
    assert!(matches!(error, EngineError::Protocol(ProtocolError::Backend(_))), "{error}");
    assert_eq!(told.try_recv().as_deref(), Ok("gone"));
}

#[test]
fn a_rehearsal_finds_out_whether_there_is_room() {
    let largest = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&largest);
    let counting = move |queries: &[Query<'_>]| {
        *seen.lock() = queries.len();
        echo(queries)
    };
    let counted = database(Box::new(counting));
    counted.rehearse().unwrap();
    assert_eq!(*largest.lock(), counted.max_batch());
    let malformed = || ProtocolError::Malformed { what: "query", detail: "zeros".into() };
    database(Box::new(move |_| Err(malformed()))).rehearse().unwrap();
    let full = || ProtocolError::Backend(BackendError::Unavailable("no room".into()));
    let refused = database(Box::new(move |_| Err(full()))).rehearse().unwrap_err();
    assert!(matches!(refused, LoadError::Protocol(ProtocolError::Backend(_))), "{refused}");
}

/// Returns a delta of the database, with this version.
fn delta(version: u8) -> Database {
    let mut identity = identity();
    identity.version = Version::new([version; 32]);
    identity.table.kind = TableKind::Keyword;
    identity.table.places = Some(PlaceSalt::new([9; 32]));
    let sizes = identity.params.sizes;
    Database::new(identity, Box::new(Scripted { sizes, behaviour: Box::new(echo) })).unwrap()
}

#[tokio::test]
async fn a_version_with_a_delta_is_asked_in_both_parts() {
    let engine = engine(8, Box::new(echo));
    let base = Arc::clone(engine.version("test", None).unwrap().base());
    let served = Served::new(Arc::clone(&base), Some(Arc::new(delta(7)))).unwrap();
    assert_eq!(served.delta().unwrap().identity().version, Version::new([7; 32]));
    engine.publish(served.clone());
    assert!(
        *served.version() != VERSION && engine.version("test", None).unwrap().version() == served.version()
    );
    let asked = |bytes: &[u8]| Asked { keys: None, queries: queries(bytes) };
    let ticket = engine.submit(&served, vec![asked(&[1, 2]), asked(&[3, 4])]).unwrap();
    let answers = ticket.await.unwrap().answers;
    let first = |part: &Vec<Bytes>| part.iter().map(|answer| answer[0]).collect::<Vec<_>>();
    assert_eq!(answers.iter().map(first).collect::<Vec<_>>(), [[1, 2], [3, 4]]);
    for bad in [vec![asked(&[1])], vec![asked(&[1]), asked(&[1, 2])], vec![asked(&[]), asked(&[])], vec![]] {
        assert!(matches!(engine.submit(&served, bad).map(drop), Err(EngineError::Malformed(_))));
    }
    // The base alone still answers requests that name it.
    assert_eq!(submit_to(&engine, &VERSION, queries(&[5])).unwrap().await.unwrap().answers[0][0][0], 5);

    let elsewhere = Database::new(Identity { name: "other".into(), ..identity() }, {
        Box::new(Scripted { sizes: identity().params.sizes, behaviour: Box::new(echo) })
    });
    for foreign in [elsewhere.unwrap(), database(Box::new(echo))] {
        let refused = Served::new(Arc::clone(&base), Some(Arc::new(foreign)));
        assert!(matches!(refused.map(drop), Err(LoadError::Inconsistent(_))));
    }
}

#[test]
fn the_newest_versions_of_two_bases_are_kept() {
    let engine = Engine::new(8, KeyRegistry::default()).unwrap();
    let base = |version| {
        let sizes = identity().params.sizes;
        let identity = Identity { version: Version::new([version; 32]), ..identity() };
        Arc::new(Database::new(identity, Box::new(Scripted { sizes, behaviour: Box::new(echo) })).unwrap())
    };
    let kept = || -> Vec<Version> {
        engine.versions("test").unwrap().iter().map(|served| *served.version()).collect()
    };
    let mut published = Vec::new();
    for of_base in 1..4 {
        let base = base(of_base);
        for of_delta in 0..20 {
            let delta = (of_delta > 0).then(|| Arc::new(delta(100 + of_delta)));
            let served = Served::new(Arc::clone(&base), delta).unwrap();
            published.insert(0, *served.version());
            engine.publish(served);
            let bases = engine.versions("test").unwrap();
            let bases: std::collections::BTreeSet<_> =
                bases.iter().map(|served| served.base().identity().version).collect();
            assert!(bases.len() <= 2);
            // The kept versions are consecutive.
            assert_eq!(kept(), published[..kept().len()]);
            assert!(kept().len() >= published.len().min(2) && kept().len() <= 16);
        }
    }
    // A database in another form replaces the old form in all versions.
    let newest = engine.versions("test").unwrap()[0].clone();
    let held = base(3);
    engine.replace(&held);
    assert!(
        engine.versions("test").unwrap().iter().filter(|served| Arc::ptr_eq(served.base(), &held)).count()
            > 1
    );
    assert!(engine.versions("test").unwrap().iter().all(|served| !Arc::ptr_eq(served.base(), newest.base())));
    assert_eq!(kept(), published[..16]);
    // A version that is too old, or that already answers, is not added as a former version.
    for former in [Served::new(base(1), None).unwrap(), newest] {
        engine.publish_former(former);
        assert_eq!(kept(), published[..16]);
    }
    // An older version is published again, as the newest.
    let older = engine.versions("test").unwrap()[3].clone();
    engine.publish(older.clone());
    assert_eq!((kept()[0], kept().len()), (*older.version(), 16));
    assert_eq!(kept().iter().filter(|version| *version == older.version()).count(), 1);
    assert!(
        matches!(engine.version("test", Some(&Version::new([9; 32]))).map(drop), Err(EngineError::Stale { current }) if current == *older.version())
    );
    // A version that cannot be loaded changes nothing for the versions that answer.
    engine.expect("test", Version::new([9; 32]));
    engine.refuse("test", "damaged".into());
    let status = engine.statuses().remove(0);
    assert_eq!(
        (status.version, status.refused.as_deref(), kept()[0]),
        (Version::new([9; 32]), Some("damaged"), *older.version())
    );
    engine.fail("test", "lost".into());
    assert!(matches!(engine.versions("test").map(drop), Err(EngineError::Failed)));
}

#[test]
fn a_former_version_answers_those_who_name_it_behind_the_newest() {
    let engine = engine(8, Box::new(echo));
    let sizes = identity().params.sizes;
    let older = Identity { version: Version::new([2; 32]), ..identity() };
    let older = Database::new(older, Box::new(Scripted { sizes, behaviour: Box::new(echo) })).unwrap();
    engine.publish_former(older.into());
    let versions: Vec<_> = engine.versions("test").unwrap().iter().map(|served| *served.version()).collect();
    assert_eq!(versions, [VERSION, Version::new([2; 32])]);
    assert!(engine.version("test", Some(&Version::new([2; 32]))).is_ok());
}

#[test]
fn hints_are_found_by_their_hash_in_all_versions_and_parts() {
    let engine = Engine::new(8, KeyRegistry::default()).unwrap();
    let part = |version: u8, kind| {
        let mut identity = identity();
        (identity.version, identity.hint.blake3) =
            (Version::new([version; 32]), FileHash::new([version; 32]));
        identity.hint.file = StoredFile::at(format!("hint-{version}"));
        identity.table.kind = kind;
        identity.table.places = (kind == TableKind::Keyword).then_some(PlaceSalt::new([9; 32]));
        let sizes = identity.params.sizes;
        Arc::new(Database::new(identity, Box::new(Scripted { sizes, behaviour: Box::new(echo) })).unwrap())
    };
    engine.publish(Served::new(part(1, TableKind::Index), None).unwrap());
    let delta = part(3, TableKind::Keyword);
    engine.publish(Served::new(part(2, TableKind::Index), Some(delta)).unwrap());
    for version in [1, 2, 3] {
        let hint = engine.hint("test", &FileHash::new([version; 32])).unwrap().unwrap();
        assert_eq!(hint.file.path(), std::path::Path::new(&format!("hint-{version}")));
    }
    assert!(engine.hint("test", &FileHash::new([4; 32])).unwrap().is_none());
    assert!(matches!(engine.hint("other", &FileHash::new([1; 32])), Err(EngineError::UnknownDatabase)));
}

#[tokio::test]
async fn answers_have_the_times_of_their_steps_and_each_batch_its_own() {
    let times = Arc::new(StepTimes::default());
    let stepping = {
        let times = Arc::clone(&times);
        move |queries: &[Query<'_>]| {
            times.add("fold", Duration::from_secs(queries[0].bytes[0].into()));
            echo(queries)
        }
    };
    let engine = Engine::new(8, KeyRegistry::default()).unwrap();
    engine.publish(database(Box::new(stepping)).with_step_times(times));
    for seconds in [3, 5] {
        let answers = submit_to(&engine, &VERSION, queries(&[seconds])).unwrap().await.unwrap();
        assert_eq!(*answers.steps, [("fold", Duration::from_secs(seconds.into()))].into());
    }
}

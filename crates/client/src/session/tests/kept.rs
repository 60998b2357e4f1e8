//! Keys that outlast their session.

use super::*;

/// Resumes a session from kept keys, as they were written and read again.
fn resumed(server: &Server, kept: Vec<KeptKeys>, clock: Clock) -> Session {
    let now = clock.now();
    let read = |kept: KeptKeys| KeptKeys::read(&kept.record(), kept.keys().to_vec(), now).unwrap();
    let kept = kept.into_iter().map(read).collect();
    let (description, hints) = (server.description.clone(), [no_hint(&server.description)]);
    Session::resume(description, &hints, WeakPrf::Refuse, clock, kept).unwrap()
}

#[test]
fn a_session_goes_on_with_keys_that_were_kept() {
    for protocol in ["onion", "hybrid"] {
        let mut server = Server::of(protocol);
        let (time, clock) = settable();
        let mut session = begun(&server, &clock);
        let keys = named(&session);
        session.query_indices(&[1]).unwrap();
        let kept = session.kept_keys();
        assert_eq!(kept.len(), 1);
        drop(session);

        let mut session = resumed(&server, kept, clock.clone());
        assert_eq!(session.base.ring_keys().unwrap().queries(), 1);
        server.register_keys(&session);
        let (_, values) = look_up(&mut server, &mut session, &[7], &[]);
        assert_eq!(values.unwrap()[0].as_ref().unwrap().fields(), [value(7)], "{protocol}");
        assert_eq!(named(&session), keys);

        // The resumed keys also keep their age and their count of queries.
        let kept = session.kept_keys();
        *time.lock() += Keys::LONGEST_USE - Duration::from_secs(1);
        let mut session = resumed(&server, kept, clock);
        session.query_indices(&[1]).unwrap();
        assert_eq!(named(&session), keys);
        session.base.ring_keys().unwrap().count_queries(MOST_KEY_QUERIES - 3);
        let mut full = resumed(&server, session.kept_keys(), session.clock.clone());
        full.query_indices(&[1]).unwrap();
        assert_ne!(named(&full), keys);
        *time.lock() += Duration::from_secs(1);
        session.query_indices(&[1]).unwrap();
        assert_ne!(named(&session), keys);
    }
}

#[test]
fn keys_that_have_ended_are_not_kept() {
    let mut server = Server::of("onion");
    let mut session = server.session();
    server.register_keys(&session);
    let (_, values) =
        look_up(&mut server, &mut session, &[1], &[(0, |server, answer| server.respond(damaged(answer)))]);
    values.unwrap_err();
    assert!(session.kept_keys().is_empty());
}

#[test]
fn what_was_kept_is_read_only_undamaged_in_time_and_for_its_shape() {
    let server = Server::of("onion");
    let (time, clock) = settable();
    let session = begun(&server, &clock);
    let kept = session.kept_keys().remove(0);
    let (record, keys) = (kept.record(), kept.keys().to_vec());
    let now = clock.now();
    assert_eq!(KeptKeys::keys_of(&record), Some(*kept.blake3()));
    assert!(KeptKeys::read(&record, keys.clone(), now).is_some());
    for i in (0..record.len()).step_by(7) {
        let mut damaged = record.clone();
        damaged[i] ^= 1;
        assert!(KeptKeys::read(&damaged, keys.clone(), now).is_none(), "byte {i}");
        assert!(KeptKeys::read(&record[..i], keys.clone(), now).is_none(), "{i} bytes");
    }
    let mut damaged = keys.clone();
    damaged[7] ^= 1;
    assert!(KeptKeys::read(&record, damaged, now).is_none());
    // Keys are refused if the clock that made them was ahead of this one, or if they are too old.
    assert!(KeptKeys::read(&record, keys.clone(), now - Duration::from_secs(1)).is_none());
    *time.lock() += Keys::LONGEST_USE;
    assert!(KeptKeys::read(&record, keys, clock.now()).is_none());

    let other = Server::of("hybrid");
    let session = resumed(&other, vec![kept], settable().1);
    assert_ne!(named(&session), KeptKeys::keys_of(&record).unwrap());
}

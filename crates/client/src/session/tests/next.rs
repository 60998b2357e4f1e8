//! Keys that are made before the present ones are over.

use super::*;

fn used(session: &Session, queries: u64) {
    session.base.ring_keys().unwrap().count_queries(queries);
}

/// Makes the next keys, and returns their name.
fn make_next(session: &mut Session) -> KeysHash {
    let next = session.next_keys()().unwrap();
    let name = *next.keys().next().unwrap().blake3();
    session.go_on_with(next);
    name
}

#[test]
fn the_last_eighth_of_queries_or_of_time_is_when_next_keys_are_wanted() {
    let server = Server::of("onion");
    let (time, clock) = settable();
    let session = begun(&server, &clock);
    used(&session, MOST_KEY_QUERIES / 8 * 7 - 1);
    assert!(!session.wants_next_keys());
    used(&session, 1);
    assert!(session.wants_next_keys());
    let mut session = begun(&server, &clock);
    *time.lock() += Keys::LONGEST_USE / 8 * 7 - Duration::from_secs(1);
    assert!(!session.wants_next_keys());
    *time.lock() += Duration::from_secs(1);
    assert!(session.wants_next_keys());
    make_next(&mut session);
    assert!(!session.wants_next_keys());
}

#[test]
fn refused_answers_do_not_decide_when_next_keys_are_wanted() {
    let server = Server::of("onion");
    let mut session = server.session();
    session.base.ring_keys().unwrap().end();
    assert!(!session.wants_next_keys());
    used(&session, MOST_KEY_QUERIES);
    assert!(session.wants_next_keys());
    make_next(&mut session);
    assert!(!session.wants_next_keys());
}

#[test]
fn next_keys_take_over_where_the_present_ones_end() {
    let mut server = Server::of("onion");
    for ends in [|keys: &ClientKeys| keys.count_queries(MOST_KEY_QUERIES), |keys: &ClientKeys| keys.end()] {
        let mut session = server.session();
        let present = named(&session);
        let next = make_next(&mut session);
        session.query_indices(&[1]).unwrap();
        assert_eq!(named(&session), present);
        ends(session.base.ring_keys().unwrap());
        session.query_indices(&[1]).unwrap();
        assert_eq!(named(&session), next);
        server.register_keys(&session);
        let (_, values) = look_up(&mut server, &mut session, &[7], &[]);
        assert_eq!(values.unwrap()[0].as_ref().unwrap().fields(), [value(7)]);
        // The next keys take over only once.
        ends(session.base.ring_keys().unwrap());
        session.query_indices(&[1]).unwrap();
        assert!(named(&session) != next && named(&session) != present);
    }
}

#[test]
fn a_session_with_a_newer_version_has_the_next_keys_too() {
    let server = Server::of("onion");
    let mut session = server.session();
    let next = make_next(&mut session);
    let description = describe(&server.config(Version::new([2; 32])));
    let hints = [no_hint(&description)];
    let mut session = session.follow(description, &hints, WeakPrf::Refuse).unwrap();
    used(&session, MOST_KEY_QUERIES);
    session.query_indices(&[1]).unwrap();
    assert_eq!(named(&session), next);
}

#[test]
fn next_keys_that_have_grown_old_are_not_used() {
    let server = Server::of("onion");
    let (time, clock) = settable();
    let mut session = begun(&server, &clock);
    let next = make_next(&mut session);
    *time.lock() += Keys::LONGEST_USE / 8 * 7;
    assert!(session.wants_next_keys());
    used(&session, MOST_KEY_QUERIES);
    session.query_indices(&[1]).unwrap();
    assert_ne!(named(&session), next);
}

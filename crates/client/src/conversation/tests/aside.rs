//! The next keys, made in parallel to look-ups.

use std::sync::atomic::{AtomicU32, Ordering};

use spirea_protocols::table::MOST_KEY_QUERIES;
use spirea_wire::KeysResponse;

use super::*;
use crate::{Aside, NextKeys};

/// Carrier that counts the conversations that it begins, and never has an outcome.
struct Endless(Arc<AtomicU32>);

impl Aside for Endless {
    fn begin(&mut self, _: Conversation<'static, NextKeys>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn outcome(&mut self) -> Option<Result<NextKeys, ClientError>> {
        None
    }
}

#[test]
fn next_keys_are_begun_once_and_not_waited_for() {
    let (mut stage, mut server) = (Stage::new(), honest::Server::of("onion"));
    let session = server.session();
    let keys = session.base().ring_keys().unwrap().clone();
    let mut client = client(&stage, &alone(), session);
    let begun = Arc::<AtomicU32>::default();
    client.prepare_by(Box::new(Endless(Arc::clone(&begun))));
    let mut script = |_: usize, request: &Request| {
        replied(match path(request) {
            "keys" => (200, KeysResponse { blake3: server.register(request.body.to_vec()) }.encode()),
            _ => {
                let request = server.read(&request.body);
                let answer = server.answer(&request).expect("the keys are known");
                (200, honest::response(answer, request.version, request.version).to_vec())
            }
        })
    };
    let mut look_up = |stage: &mut Stage| {
        stage.play(client.look_up_indices(&[3]), &mut script).unwrap();
        begun.load(Ordering::Relaxed)
    };
    assert_eq!(look_up(&mut stage), 0);
    keys.count_queries(MOST_KEY_QUERIES / 8 * 7 - 2);
    // The client begins to make the next keys at the query that leaves an eighth of the present
    // keys' queries.
    assert_eq!([look_up(&mut stage), look_up(&mut stage)], [1, 1]);
    keys.count_queries(MOST_KEY_QUERIES / 8);
    assert_eq!(look_up(&mut stage), 1);
    let uploads = stage.bodies("keys");
    assert!(uploads.len() == 2 && uploads[0] != uploads[1]);
}

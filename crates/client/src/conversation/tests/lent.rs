//! Clients lent from one conversation to the next, and clients that reuse the keys of others.

use super::*;
use crate::{KeptKeys, Lender};

/// Returns the response of a server of a table with keys.
fn answered(server: &mut honest::Server, request: &Request) -> Vec<Received> {
    replied(match path(request) {
        "config" => (200, server.config(OLD).encode()),
        "keys" => {
            let blake3 = server.register(request.body.to_vec());
            (200, spirea_wire::KeysResponse { blake3 }.encode())
        }
        _ => {
            let request = server.read_keeping(&request.body);
            match server.answer(&request) {
                Some(answer) => (200, honest::response(answer, OLD, OLD).to_vec()),
                None => unknown(),
            }
        }
    })
}

fn resume(stage: &Stage, kept: Vec<KeptKeys>) -> Conversation<'static, Client> {
    let (cache, policy) = (Box::new(MemoryCache::default()), Policy::default());
    Client::resume(&alone(), "test", cache, policy, stage.clock(), kept).unwrap()
}

#[test]
fn a_client_comes_back_from_every_conversation() {
    let mut stage = Stage::new();
    let mut server = honest::Server::of("onion");
    let mut script = |_: usize, request: &Request| answered(&mut server, request);
    let lender = Lender::new(stage.play(connect(&stage, Policy::default()), &mut script).unwrap());
    let mut conversation = lender.look_up_indices(vec![3].into()).unwrap();
    assert!(lender.read(|_| ()).is_none() && lender.look_up_indices(vec![3].into()).is_none());
    assert!(matches!(conversation.step(), Step::Send { .. }));
    drop(conversation);
    // A conversation that never began returns the client, too.
    drop(lender.fetch_indices(vec![3].into()).unwrap());
    for row in [3, 4] {
        let values =
            stage.play(lender.look_up_indices(vec![row].into()).unwrap(), &mut script).unwrap().values;
        assert_eq!(values[0].as_ref().unwrap().fields(), [honest::value(row)]);
    }
    let fetched = stage.play(lender.fetch_indices(vec![5].into()).unwrap(), &mut script).unwrap().values;
    assert!(matches!(&fetched[0], crate::Fetched::Value(value) if value.fields() == [honest::value(5)]));
    // The table has no keys: a look-up that fails at once also returns the client.
    let refused = stage.play(lender.look_up_keys(vec![b"key".to_vec().into()]).unwrap(), &mut script);
    assert!(matches!(refused, Err(ClientError::Protocol(_))));
    assert!(stage.play(lender.fetch_keys(vec![b"key".to_vec().into()]).unwrap(), &mut script).is_err());
    assert_eq!(lender.read(|client| *client.description().version()), Some(OLD));
}

#[test]
fn keys_that_were_kept_are_not_sent_again_but_to_a_server_that_forgot_them() {
    let mut stage = Stage::new();
    let mut server = honest::Server::of("onion");
    let mut script = |_: usize, request: &Request| answered(&mut server, request);
    let mut client = stage.play(connect(&stage, Policy::default()), &mut script).unwrap();
    stage.play(client.look_up_indices(&[3]), &mut script).unwrap();
    let kept = client.kept_keys();
    let mut client = stage.play(resume(&stage, kept), &mut script).unwrap();
    let lookups = stage.play(client.look_up_indices(&[4]), &mut script).unwrap();
    assert_eq!(lookups.values[0].as_ref().unwrap().fields(), [honest::value(4)]);
    assert_eq!(lookups.timings.keys_bytes, 0);
    let paths = ["config", "keys", "query", "config", "query"].map(|path| (0, path));
    assert_eq!(stage.paths(), paths);

    let kept = client.kept_keys();
    let mut forgetful = honest::Server::of("onion");
    let mut script = |_: usize, request: &Request| answered(&mut forgetful, request);
    stage.sent.clear();
    let mut client = stage.play(resume(&stage, kept), &mut script).unwrap();
    stage.play(client.look_up_indices(&[4]), &mut script).unwrap();
    assert_eq!(stage.paths(), ["config", "query", "query"].map(|path| (0, path)));
}

#[test]
fn the_making_of_keys_is_told_before_and_after() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let keys_progress: Option<crate::Progress> =
        Some(Box::new(move |done, total| tell.lock().push((done, total))));
    let mut stage = Stage::new();
    let mut server = honest::Server::of("onion");
    let mut script = |_: usize, request: &Request| answered(&mut server, request);
    let policy = Policy { keys_progress, ..Policy::default() };
    let mut client = stage.play(connect(&stage, policy), &mut script).unwrap();
    let bytes = client.description().limits().base.keys_bytes as u64;
    assert_eq!(*told.lock(), [(0, bytes), (bytes, bytes)]);
    stage.play(client.look_up_indices(&[3]), &mut script).unwrap();
    assert_eq!(told.lock().len(), 2);
    *stage.now.lock() += crate::Keys::LONGEST_USE;
    stage.play(client.look_up_indices(&[3]), &mut script).unwrap();
    assert_eq!(told.lock().len(), 4);
}

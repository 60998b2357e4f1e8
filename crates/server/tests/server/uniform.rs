//! What an observer sees of responses does not depend on what was asked.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use spirea_protocols::TableKind;
use spirea_server::Limits;
use tempfile::tempdir;

use crate::fixture::{ROWS, Reply, connect, database, engine, key, no_hook, serve_engine, snapshot};
use crate::proxy::Proxy;

/// What an observer sees of a response: its head, but for what tells the time, and the length of its answers.
fn shape(response: &[u8], limits: &spirea_wire::Limits) -> (Vec<String>, Vec<usize>) {
    let reply = Reply::parse(response);
    let timed = |line: &&str| !line.starts_with("date: ") && !line.starts_with("content-length: ");
    let head = reply.head.lines().filter(timed).map(str::to_owned).collect();
    let length = reply.header("content-length").unwrap().parse::<usize>().unwrap();
    assert_eq!(length, reply.body.len());
    let decoded = spirea_wire::Response::decode(reply.body.clone().into(), limits, 1).unwrap();
    // The time of the computation is told in as many bytes as the number needs; it is that of a scan of everything.
    let without_time = spirea_wire::Response { compute: std::time::Duration::ZERO, ..decoded };
    (head, vec![without_time.encode().len()])
}

#[test]
fn every_key_and_index_present_or_not_gets_a_response_of_one_shape() {
    let folder = tempdir().unwrap();
    let engine = engine(8);
    for (name, kind) in [("urls", TableKind::Keyword), ("rows", TableKind::Index)] {
        engine.publish(database(&snapshot(folder.path(), name, kind, 1), no_hook()));
    }
    let server = serve_engine(&engine, Limits::default());
    for name in ["urls", "rows"] {
        let responses = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&responses);
        let proxy = Proxy::start(server.address, move |seen, _, response| {
            if seen.path().ends_with("/query") {
                log.lock().unwrap().push(response.clone());
            }
            response
        });
        let mut client = connect(&proxy.url(), name, folder.path()).unwrap();
        let limits = client.description().limits();
        if name == "rows" {
            for row in (0..ROWS).step_by(7).chain([ROWS - 1]) {
                client.get_indices(&[row]).unwrap();
            }
        } else {
            let present = (0..ROWS).step_by(7).map(key);
            let absent = (ROWS..ROWS + 20).map(key).chain([Vec::new(), vec![0xff; 5000]]);
            for key in present.chain(absent) {
                client.get_keys(&[&key]).unwrap();
            }
        }
        let responses = responses.lock().unwrap();
        assert!(responses.len() > 40);
        let shapes: BTreeSet<_> = responses.iter().map(|response| shape(response, &limits)).collect();
        assert_eq!(shapes.len(), 1, "{shapes:?}");
        // And requests.
        let requests = proxy.seen("/query");
        let lengths: BTreeSet<_> = requests.iter().map(|seen| (seen.head.len(), seen.body.len())).collect();
        assert_eq!(lengths.len(), 1, "{lengths:?}");
    }
}

//! The observable form of a response does not depend on the query.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use spirea_protocols::TableKind;
use spirea_server::Limits;
use spirea_specimens::hooked::database;
use spirea_specimens::no_hook;
use spirea_specimens::snapshots::{ROWS, key, write_snapshot};
use tempfile::tempdir;

use crate::fixture::{Reply, connect, engine, serve_engine};
use crate::proxy::Proxy;

/// Returns the observable form of a response: its head without the date, and its length.
fn shape(response: &[u8]) -> (Vec<String>, usize) {
    let reply = Reply::parse(response);
    let head = reply.head.lines().filter(|line| !line.starts_with("date: ")).map(str::to_owned).collect();
    (head, reply.body.len())
}

#[test]
fn every_key_and_index_present_or_not_gets_a_response_of_one_shape() {
    let folder = tempdir().unwrap();
    let engine = engine(8);
    for (name, kind) in [("urls", TableKind::Keyword), ("rows", TableKind::Index)] {
        engine.publish(database(&write_snapshot(folder.path(), name, kind, 1), no_hook()));
    }
    let server = serve_engine(&engine, Limits::default());
    for name in ["urls", "rows"] {
        let responses = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&responses);
        let proxy = Proxy::start(server.address, move |seen, _, response| {
            if seen.path().ends_with("/query") {
                log.lock().push(response.clone());
            }
            response
        });
        let mut client = connect(&proxy.url(), name, folder.path()).unwrap();
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
        let responses = responses.lock();
        assert!(responses.len() > 40);
        let shapes: BTreeSet<_> = responses.iter().map(|response| shape(response)).collect();
        assert_eq!(shapes.len(), 1, "{shapes:?}");
        // Requests, too, all have a single shape.
        let requests = proxy.seen("/query");
        let lengths: BTreeSet<_> = requests.iter().map(|seen| (seen.head.len(), seen.body.len())).collect();
        assert_eq!(lengths.len(), 1, "{lengths:?}");
    }
}

//! Calls that are stopped while they wait for a server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use super::*;

/// Starts a server that accepts connections and stays silent; also returns a channel that reports
/// the first received bytes.
fn silent() -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, when_asked) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = asked.send(());
            kept.push(stream);
        }
    });
    (url, when_asked)
}

#[test]
fn connecting_ends_when_it_is_stopped_however_long_the_server_is_silent() {
    let (url, when_asked) = silent();
    let (cache, stop) = (tempfile::tempdir().unwrap(), Arc::<AtomicBool>::default());
    let options = ClientOptions {
        cache: Some(cache.path().into()),
        timeout: Duration::from_secs(3600),
        stop: Some(Arc::clone(&stop)),
        ..ClientOptions::default()
    };
    let connecting = thread::spawn(move || HttpClient::connect_with(&[&url], "test", options).map(drop));
    when_asked.recv().unwrap();
    stop.store(true, Ordering::Relaxed);
    assert!(matches!(connecting.join().unwrap(), Err(ClientError::Stopped)));
}

#[test]
fn a_look_up_that_was_stopped_leaves_the_client_as_one_that_failed() {
    let server = Server::start(|path, _| willing(path));
    let cache = tempfile::tempdir().unwrap();
    let mut client = server.client(&cache);
    client.stop_by(Arc::new(AtomicBool::new(true)));
    assert!(matches!(look_up(&mut client), Err(ClientError::Stopped)));
    assert!(server.paths().is_empty());
    client.stop_by(Arc::default());
    look_up(&mut client).unwrap();
    assert_eq!(server.paths(), ["keys", "query"]);
}

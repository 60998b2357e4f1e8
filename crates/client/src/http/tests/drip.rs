//! Servers that never stop sending, one byte at a time.

use std::time::Instant;

use super::*;

/// Time limit of a request in these tests: far above its timeout, and far below the duration of the
/// whole drip.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a server that sends `at_once`, then a byte every tenth of a second; returns its address.
fn dripping(at_once: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(at_once.as_bytes()).unwrap();
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    format!("http://{address}")
}

#[test]
fn a_drip_does_not_extend_a_request_beyond_its_timeout() {
    for at_once in ["HTTP/1.1 200 x\r\nx: ", "HTTP/1.1 200 x\r\ncontent-length: 400\r\n\r\n"] {
        let cache = tempfile::tempdir().unwrap();
        let options = ClientOptions {
            cache: Some(cache.path().into()),
            timeout: Duration::from_secs(1),
            attempts: 1,
            ..ClientOptions::default()
        };
        let (url, started) = (dripping(at_once), Instant::now());
        let error = HttpClient::connect_with(&[&url], "test", options).map(drop).unwrap_err();
        assert!(matches!(error, ClientError::TimedOut(_)), "{error:?}");
        assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    }
}

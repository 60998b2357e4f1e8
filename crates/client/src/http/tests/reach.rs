//! Invalid addresses, names without an address, and ports where something else listens.

use std::net::Shutdown;

use super::*;
use crate::check_address;

/// Returns the error of connecting to an address.
fn failure(url: &str) -> ClientError {
    let cache = tempfile::tempdir().unwrap();
    let options = ClientOptions { cache: Some(cache.path().into()), attempts: 1, ..ClientOptions::default() };
    HttpClient::connect_with(&[url], "test", options).map(drop).unwrap_err()
}

/// Starts a server that sends these bytes on every connection and then ends it; returns the
/// address. The server reads until the client closes, because unread bytes would reset the
/// connection.
fn speaking(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                stream.write_all(bytes).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    address
}

#[test]
fn addresses_are_read_whole_before_anything_is_sent() {
    for url in [
        "http://localhost",
        "http://localhost:8080/",
        "https://pir.example.org/tables",
        "http://[::1]:80",
        "https://10.0.0.1:65535",
    ] {
        check_address(url, false).unwrap();
    }
    for url in [
        "localhost:8080",
        "ftp://localhost",
        "http://",
        "http://localhost:99999",
        "http://localhost:abc",
        "http://localhost:",
        "http://localhost:0",
        "http://localhost:80:80",
        "http://[::1",
        "http://[::1]:x",
        "http://user:password@localhost",
        "http://localhost?a=b",
        "http://local host",
    ] {
        for error in [check_address(url, false).unwrap_err(), failure(url)] {
            let ClientError::BadAddress(text) = error else { panic!("{url}: {error}") };
            // Secrets of an address are masked.
            let shown = url.replace("user:password@", "").replace("?a=b", "");
            assert!(text.contains(&shown), "{text}");
        }
    }
}

#[test]
fn a_name_without_an_address_is_said_to_be_one() {
    let error = failure("http://nobody.invalid");
    assert!(matches!(error, ClientError::UnknownHost(_)), "{error:?}");
}

#[test]
fn ports_for_the_other_scheme_are_told_from_broken_connections() {
    // The alert of a TLS server that expected a ClientHello.
    let address = speaking(&[0x15, 3, 3, 0, 2, 2, 50]);
    let error = failure(&format!("http://{address}"));
    assert!(matches!(error, ClientError::Unusable(_)), "{error:?}");
    assert!(error.to_string().contains("https://"), "{error}");

    let address = speaking(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    let error = failure(&format!("https://{address}"));
    let ClientError::Untrusted(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("http://"), "{text}");
}

//! Hints: resumed, verified, cached, and updated when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use parking_lot::Mutex;
use spirea_client::{ClientError, ClientOptions, HttpClient};
use spirea_protocols::TableKind;
use spirea_server::Limits;
use spirea_specimens::hooked::database;
use spirea_specimens::no_hook;
use spirea_specimens::snapshots::{key, value, write_snapshot};
use tempfile::tempdir;

use crate::fixture::{connect, engine, options, serve_engine, serve_urls, texts};
use crate::proxy::Proxy;

/// Returns the files of a cache with this extension.
fn files(cache: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn is_hint(path: &str) -> bool {
    path.ends_with("/hint")
}

#[test]
fn a_download_that_breaks_off_is_resumed() {
    let folder = tempdir().unwrap();
    let cache = folder.path().join("cache");
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let proxy = Proxy::start(server.address, |seen, before, response| match (is_hint(seen.path()), before) {
        (true, 0..3) => response[..response.len() / 2].to_vec(),
        _ => response,
    });
    let furthest = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&furthest);
    let progress = move |done, total| {
        assert!(done <= total && told.swap(done, Ordering::SeqCst) < done);
    };
    let options = ClientOptions { progress: Some(Box::new(progress)), ..options(&cache) };
    let mut client = HttpClient::connect_with(&[&proxy.url()], "urls", options).unwrap();
    assert_eq!(furthest.load(Ordering::SeqCst), client.description().base().hint_bytes());
    assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 1))]);
    let requests = proxy.seen("/hint");
    assert_eq!(requests.len(), 4);
    assert!(!requests[0].head.contains("range: "));
    assert!(
        requests[1..]
            .iter()
            .all(|seen| seen.head.contains("\nrange: bytes=") && seen.head.contains("\nif-range: \""))
    );
    assert_eq!((files(&cache, "hint").len(), files(&cache, "part").len()), (1, 0));

    // Now the cache has the hint.
    connect(&proxy.url(), "urls", &cache).unwrap();
    assert_eq!(proxy.seen("/hint").len(), 4);
}

#[test]
fn what_a_killed_process_left_is_used() {
    let folder = tempdir().unwrap();
    let cache = folder.path().join("cache");
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let proxy = Proxy::start(server.address, |seen, before, response| match (is_hint(seen.path()), before) {
        (true, 0) => response[..response.len() / 2].to_vec(),
        _ => response,
    });
    let once = ClientOptions { attempts: 1, ..options(&cache) };
    let error = HttpClient::connect_with(&[&proxy.url()], "urls", once).map(drop).unwrap_err();
    assert!(matches!(error, ClientError::Broken(_)), "{error:?}");
    assert_eq!((files(&cache, "hint").len(), files(&cache, "part").len()), (0, 0));
    connect(&proxy.url(), "urls", &cache).unwrap();
    assert!(!proxy.seen("/hint")[1].head.contains("\nrange: "));

    // A killed process left the first half.
    let hint = files(&cache, "hint")[0].clone();
    let part = hint.with_extension("part");
    let bytes = std::fs::read(&hint).unwrap();
    std::fs::remove_file(&hint).unwrap();
    std::fs::write(&part, &bytes[..bytes.len() / 2]).unwrap();
    connect(&proxy.url(), "urls", &cache).unwrap();
    assert!(proxy.seen("/hint")[2].head.contains("\nrange: bytes="));

    // A process left a file that is too long; the client discards it.
    std::fs::remove_file(&hint).unwrap();
    std::fs::write(&part, [&bytes[..], b"more"].concat()).unwrap();
    connect(&proxy.url(), "urls", &cache).unwrap();
    assert!(!proxy.seen("/hint")[3].head.contains("\nrange: "));
}

#[test]
fn a_hint_that_changes_in_between_is_not_pieced_together() {
    let folder = tempdir().unwrap();
    let engine = engine(8);
    engine.publish(database(&write_snapshot(folder.path(), "urls", TableKind::Keyword, 1), no_hook()));
    let edition =
        |number| database(&write_snapshot(folder.path(), "urls", TableKind::Keyword, number), no_hook());
    // Two newer bases follow, so that the server no longer has the first base.
    let newer = Mutex::new(vec![edition(2), edition(3)]);
    let server = serve_engine(&engine, Limits::default());
    let proxy = Proxy::start(server.address, move |seen, before, response| {
        if !is_hint(seen.path()) || before > 0 {
            return response;
        }
        newer.lock().drain(..).for_each(|database| engine.publish(database));
        response[..response.len() / 2].to_vec()
    });
    let mut client = connect(&proxy.url(), "urls", &folder.path().join("cache")).unwrap();
    assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 3))]);
    assert_eq!(proxy.seen("/config").len(), 2);
}

#[test]
fn a_hint_that_is_changed_on_the_way_is_rejected() {
    let folder = tempdir().unwrap();
    let cache = folder.path().join("cache");
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let flipping = |times: usize| {
        Proxy::start(server.address, move |seen, before, mut response| {
            if is_hint(seen.path()) && before < times {
                let at = response.len() - 1000;
                response[at] ^= 1;
            }
            response
        })
    };
    let always = flipping(usize::MAX);
    let error = connect(&always.url(), "urls", &cache).map(drop).unwrap_err();
    assert!(matches!(error, ClientError::HintCorrupted), "{error:?}");
    assert_eq!(always.seen("/hint").len(), 2);
    assert!(files(&cache, "hint").is_empty());
    assert!(files(&cache, "part").iter().all(|part| part.metadata().unwrap().len() == 0));

    // A single damaged download is repeated: the second one is intact.
    let once = flipping(1);
    let mut client = connect(&once.url(), "urls", &cache).unwrap();
    assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 1))]);
}

#[test]
fn a_damaged_cache_is_noticed_and_replaced() {
    let folder = tempdir().unwrap();
    let cache = folder.path().join("cache");
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let proxy = Proxy::start(server.address, |_, _, response| response);
    connect(&proxy.url(), "urls", &cache).unwrap();
    let file = files(&cache, "hint").remove(0);
    let good = std::fs::read(&file).unwrap();
    let damages: [fn(&mut Vec<u8>); 3] =
        [|bytes| bytes[77] ^= 4, |bytes| bytes.truncate(100), |bytes| bytes.push(0)];
    for (i, damage) in damages.into_iter().enumerate() {
        let mut bytes = good.clone();
        damage(&mut bytes);
        std::fs::write(&file, bytes).unwrap();
        let mut client = connect(&proxy.url(), "urls", &cache).unwrap();
        assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 1))]);
        assert_eq!(proxy.seen("/hint").len(), i + 2);
        assert!(std::fs::read(&file).unwrap() == good);
    }
}

#[test]
fn clients_that_share_a_cache_download_once() {
    let folder = tempdir().unwrap();
    let cache = folder.path().join("cache");
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let proxy = Proxy::start(server.address, |_, _, response| response);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client = connect(&proxy.url(), "urls", &cache).unwrap();
                assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 1))]);
            });
        }
    });
    assert_eq!(proxy.seen("/hint").len(), 1);
}

#[test]
fn limits_and_folders_are_respected() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let small = ClientOptions { max_hint_bytes: 1000, ..options(folder.path()) };
    let error = HttpClient::connect_with(&[&server.url()], "urls", small).map(drop).unwrap_err();
    assert!(matches!(error, ClientError::HintTooLarge { limit: 1000, .. }));
    let occupied = folder.path().join("file");
    std::fs::write(&occupied, b"not a folder").unwrap();
    let error = connect(&server.url(), "urls", &occupied).map(drop).unwrap_err();
    assert!(matches!(error, ClientError::Cache { .. }), "{error:?}");
}

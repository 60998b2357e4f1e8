//! Several addresses of a server.

use std::time::Duration;

use spirea_client::{ClientError, ClientOptions, HttpClient};
use spirea_protocols::TableKind;
use spirea_server::Limits;
use spirea_specimens::hooked::database;
use spirea_specimens::snapshots::{key, value, write_snapshot};
use spirea_specimens::{gate, no_hook};
use tempfile::tempdir;

use crate::fixture::{engine, options, serve_engine, serve_urls, texts};
use crate::proxy::Proxy;

fn with_replicas(url: &str, replicas: &[String], cache: &std::path::Path) -> Result<HttpClient, ClientError> {
    let options = ClientOptions { replicas: vec![replicas.to_vec()], ..options(cache) };
    HttpClient::connect_with(&[url], "urls", options)
}

#[test]
fn the_request_of_a_server_that_dies_is_answered_by_another() {
    let folder = tempdir().unwrap();
    let path = write_snapshot(folder.path(), "urls", TableKind::Keyword, 1);
    let (hook, begins, go) = gate();
    let (first, second) = (engine(8), engine(8));
    first.publish(database(&path, hook));
    second.publish(database(&path, no_hook()));
    let limits = Limits { drain_timeout: Duration::ZERO, ..Limits::default() };
    let mut first = serve_engine(&first, limits);
    let second = serve_engine(&second, Limits::default());
    let proxies = [&first, &second].map(|server| Proxy::start(server.address, |_, _, response| response));
    let mut client = with_replicas(&proxies[0].url(), &[proxies[1].url()], folder.path()).unwrap();

    let asking = std::thread::spawn(move || {
        let values = texts(client.get_keys(&[&key(3)]).unwrap());
        (client, values)
    });
    begins.recv().unwrap();
    first.stopper.stop();
    first.wait();
    let (mut client, values) = asking.join().unwrap();
    assert_eq!(values, [Some(value(3, 1))]);
    let asked = proxies.each_ref().map(|proxy| proxy.seen("/query"));
    assert_eq!((asked[0].len(), asked[1].len()), (1, 1));
    let [dead, alive] = asked.map(|mut asked| asked.remove(0));
    assert!(dead.body == alive.body);
    assert_eq!(dead.header("spirea-request-id").unwrap(), alive.header("spirea-request-id").unwrap());
    // The client stays with the replica that answered.
    assert_eq!(texts(client.get_keys(&[&key(4)]).unwrap()), [Some(value(4, 1))]);
    assert_eq!(proxies[0].seen("/query").len(), 1);
    go.send(()).unwrap();
}

#[test]
fn a_server_that_is_not_ready_or_not_there_is_left_for_another() {
    let folder = tempdir().unwrap();
    let loading = engine(1);
    loading.announce("urls", [3; 32]).unwrap();
    let loading = serve_engine(&loading, Limits::default());
    let failed = engine(1);
    failed.announce("urls", [3; 32]).unwrap();
    failed.fail("urls", "the disk broke".into());
    let failed = serve_engine(&failed, Limits::default());
    let good = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    // The local end of this connection keeps its port in use, and nobody listens on it.
    let taken = std::net::TcpStream::connect(good.address).unwrap();
    let closed = format!("http://{}", taken.local_addr().unwrap());
    let replicas = [failed.url(), closed, good.url()];
    let mut client = with_replicas(&loading.url(), &replicas, folder.path()).unwrap();
    assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 1))]);

    let options = ClientOptions { attempts: 1, replicas: vec![vec![failed.url()]], ..options(folder.path()) };
    let error = HttpClient::connect_with(&[&loading.url()], "urls", options).map(drop).unwrap_err();
    assert!(matches!(error.cause(), ClientError::Refused { status: 503, .. }), "{error}");
    assert_eq!(error.url(), Some(&*failed.url()));
}

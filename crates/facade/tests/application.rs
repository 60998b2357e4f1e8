//! Behaviour that applications rely on, beyond the examples.

use std::fs;

use spirea::build::{BuildError, Builder};
use spirea::server::{Server, ServerError};
use spirea::{Client, ClientOptions, Keep, LookUpError};

fn domains() -> Builder {
    let rows = [["example.org", "fine", "3"], ["example.net", "bad", "7"]];
    Builder::from_rows(["domain", "verdict", "reports"], rows).key("domain")
}

fn connect(url: &str) -> Result<Client, LookUpError> {
    Client::connect_with(&[url], "domains", ClientOptions { keep: Keep::Memory, ..ClientOptions::default() })
}

#[test]
fn a_table_is_built_served_and_looked_up_until_the_server_stops() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = domains().build(folder.path().join("domains")).unwrap();
    let server = Server::start([snapshot.folder()]).unwrap();
    let mut client = connect(server.url()).unwrap();
    assert_eq!((client.rows(), client.is_keyed(), client.fields().len()), (2, true, 2));
    assert_eq!(client.version(), snapshot.version().to_string());
    let found = client.get_many(&["example.net", "example.com", "example.org"]).unwrap();
    let text = |i: usize, field| found[i].as_ref().map(|record| record.text(field).unwrap().into_owned());
    assert_eq!(text(0, "verdict").as_deref(), Some("bad"));
    assert_eq!(text(2, "reports").as_deref(), Some("3"));
    assert!(found[1].is_none());
    assert!(client.get_index(0).is_err(), "the table is looked up by key");

    server.stop().unwrap();
    assert!(matches!(client.get("example.net"), Err(LookUpError::Unreachable(_))));
}

#[test]
fn what_is_shown_of_a_record_tells_nothing_of_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = domains().build(folder.path().join("domains")).unwrap();
    let server = Server::start([snapshot.folder()]).unwrap();
    let mut client = connect(server.url()).unwrap();
    let record = client.get("example.net").unwrap().unwrap();
    assert_eq!(format!("{record:?}"), r#"Record {"verdict": 3, "reports": 1}"#);
    assert!(!format!("{client:?}").contains("example.net"));
}

#[test]
fn a_replaced_snapshot_keeps_its_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("domains");
    let first = domains().protocol("double").build(&out).unwrap();
    let second = domains().overwrite().build(&out).unwrap();
    assert_eq!(second.manifest().protocol.name, "double");
    assert_ne!(second.version(), first.version());
    let third = domains().protocol("simple").overwrite().build(&out).unwrap();
    assert_eq!(third.manifest().protocol.name, "simple");
}

#[test]
fn what_cannot_be_built_is_told_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("domains");
    let error = |table: Builder| table.build(&out).unwrap_err();
    let uneven = Builder::from_rows(["domain", "verdict"], [vec!["a", "b"], vec!["c"]]);
    assert!(matches!(error(uneven), BuildError::Malformed { .. }));
    assert!(matches!(error(domains().key("name")), BuildError::NoSuchColumn { .. }));
    assert!(matches!(error(domains().protocol("none such")), BuildError::Protocol(_)));
    assert!(matches!(error(domains().name("not / a name")), BuildError::BadOption(_)));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_damaged_snapshot_is_told_when_the_server_starts() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = domains().build(folder.path().join("domains")).unwrap();
    let mut bytes = fs::read(snapshot.matrix_path()).unwrap();
    bytes[0] ^= 1;
    fs::write(snapshot.matrix_path(), bytes).unwrap();
    let error = Server::start([snapshot.folder()]).unwrap_err();
    let ServerError::Load { name, cause } = error else { panic!("{error}") };
    assert!(name == "domains" && cause.contains("matrix.bin"), "{cause}");
}

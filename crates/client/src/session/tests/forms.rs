//! Keys whose form this software may not know.

use spirea_protocols::table::{KeyForm, KeyStep};

use super::*;

/// Creates a server of one entry, `München`, in a table whose Unicode version is `unicode`.
fn server(unicode: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("rows.csv");
    std::fs::write(&input, "key,value\nMu\u{308}nchen,found\n").unwrap();
    let selection =
        Selection { key: Some("key".into()), values: vec!["value".into()], ..Selection::default() };
    let choice = Choice { protocol: "onion".into(), ..Choice::default() };
    let form =
        KeyForm { steps: vec![KeyStep::Nfc], region: None, unicode: Some(unicode.into()), phone_rules: None };
    let options = BuildOptions {
        protocol: Protocol::Named(choice),
        key_form: Some(form),
        ..BuildOptions::new(input, Format::CSV, selection, folder.path().join("table"))
    };
    Server::of_snapshot(&build(&options, &BACKEND, &Silent).unwrap())
}

/// Looks a key up; returns the bytes of its request, and the result.
fn asked(unicode: &str, key: &str) -> (usize, Result<Vec<Option<Value>>, ClientError>) {
    let mut server = server(unicode);
    let mut session = server.session();
    let keys = [key.as_bytes()];
    let mut look_up = session.look_up_keys(&keys).unwrap();
    server.register_keys(&session);
    let round = look_up.ask(&session).unwrap();
    let answer = server.answer(&server.read(&round.requests[0])).unwrap();
    let response = session.read(1, server.respond(answer)).map(|response| vec![response]);
    look_up.answer(round.pending, response);
    assert!(look_up.is_complete());
    (round.requests[0].len(), look_up.finish(Ok(())))
}

#[test]
fn a_key_of_characters_that_a_newer_table_may_know_is_asked_for_and_never_said_to_be_absent() {
    let (bytes, found) = asked("99.0.0", "M\u{fc}nchen");
    assert_eq!(found.unwrap()[0].as_ref().unwrap().fields(), [b"found"]);
    let (of_absent, absent) = asked("99.0.0", "Bern");
    assert_eq!((of_absent, absent.unwrap().len()), (bytes, 1));
    let (of_unknown, unknown) = asked("99.0.0", "\u{378}");
    assert!(unknown.unwrap_err().to_string().contains("update this software"));
    assert_eq!(of_unknown, bytes);
    // A table whose builder was not newer than this software cannot have this key.
    let (of_known, known) = asked(spirea_normalise::UNICODE, "\u{378}");
    assert_eq!((of_known, known.unwrap()[0].is_none()), (bytes, true));
}

#[test]
fn a_table_of_a_region_that_nobody_knows_is_refused() {
    let server = server("99.0.0");
    let mut table: spirea_protocols::Table = serde_json::from_slice(&server.base.table).unwrap();
    table.key_form = Some(KeyForm {
        steps: vec![KeyStep::E164],
        region: Some("ZZ".into()),
        unicode: None,
        phone_rules: Some("9.0.0".into()),
    });
    let base = PartConfig { table: serde_json::to_vec(&table).unwrap().into(), ..server.base.clone() };
    let refused = Description::parse("test", config(&base, VERSION).encode().into()).unwrap_err();
    assert!(refused.to_string().contains("\"ZZ\" is no region"), "{refused}");
}

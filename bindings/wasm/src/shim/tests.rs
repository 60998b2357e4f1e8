use serde_json::{Value as Json, json};

use super::*;

/// Returns the heads of messages from the JavaScript half. A test of that half compares these heads
/// with its messages.
fn heads() -> Json {
    serde_json::from_str(include_str!("heads.json")).unwrap()
}

fn connected_to_nobody() -> Shim {
    let mut shim = Shim::new();
    let options = json!({
        "addresses": [["http://127.0.0.1:1/"]], "database": "test", "attempts": 1, "acceptWeakPrf": false
    });
    shim.input.write(&options, &[]);
    assert!(shim.connect());
    assert_eq!(shim.step(), Next::Send);
    shim
}

/// Returns the code of the failure in the output.
fn code(shim: &mut Shim) -> String {
    let (head, _): (Json, _) = shim.output.take().unwrap();
    head["code"].as_str().unwrap().to_owned()
}

#[test]
fn every_reason_that_javascript_gives_is_an_error_of_its_own() {
    let heads = heads();
    let codes = heads["kinds"].as_array().unwrap().iter().map(|kind| {
        let mut shim = connected_to_nobody();
        shim.input.write(&json!({ "received": "failed", "server": 0, "kind": kind, "words": "why" }), &[]);
        assert!(shim.received(), "{kind}");
        assert_eq!(shim.step(), Next::Failed, "{kind}");
        code(&mut shim)
    });
    let codes: Vec<String> = codes.collect();
    assert_eq!(codes, ["unreachable", "unknown-host", "timed-out", "broken", "untrusted-server"]);
}

#[test]
fn heads_have_what_the_conversation_reads_of_them() {
    let read = |name: &str| {
        let mut message = Message::default();
        message.write(&heads()[name], b"body");
        message.take::<Came>().expect("the instance reads the head").0
    };
    let Came::Head { server, status, etag, retry_after } = read("head") else { panic!() };
    assert_eq!((server, status), (1, 503));
    assert_eq!((etag.as_deref(), retry_after.as_deref()), (Some("\"5\""), Some("7")));
    assert!(matches!(read("piece"), Came::Piece { server: 1 }));
}

#[test]
fn what_the_halves_do_not_agree_on_is_an_error_and_ends_nothing() {
    let calls: [fn(&mut Shim) -> bool; 4] = [Shim::give, Shim::connect, Shim::look_up, Shim::received];
    for call in calls {
        let mut shim = connected_to_nobody();
        for head in [json!({ "received": "failed", "server": 0, "kind": "bad-day", "words": "" }), json!(7)] {
            shim.input.write(&head, b"body");
            assert!(!call(&mut shim));
            assert_eq!(code(&mut shim), "internal");
        }
        // No message at all, and a message shorter than its head.
        for bytes in [&[][..], &[9, 0, 0, 0, b'{']] {
            shim.input.make_room(bytes.len()).copy_from_slice(bytes);
            assert!(!call(&mut shim));
            assert_eq!(code(&mut shim), "internal");
        }
        shim.input.write(&json!({ "received": "failed", "server": 0, "kind": "broken", "words": "" }), &[]);
        assert!(shim.received());
        assert_eq!(shim.step(), Next::Failed);
        assert_eq!(code(&mut shim), "broken");
        // A finished conversation has no next step.
        assert_eq!(shim.step(), Next::Failed);
        assert_eq!(code(&mut shim), "internal");
    }
}

#[test]
fn indices_are_what_a_body_is_made_of() {
    let body: Vec<u8> = [1_u64, 1 << 40].iter().flat_map(|index| index.to_le_bytes()).collect();
    assert_eq!(*indices(&body).unwrap(), [1, 1 << 40]);
    assert!(indices(&body[1..]).is_err());
}

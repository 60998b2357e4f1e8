//! Keys in other encodings than UTF-8, and keys that are bytes.

use crate::command::{Server, expect, folder_with, refusal, spirea, text};

#[test]
fn keys_of_any_encoding_are_found_as_they_are_written() {
    let folder = folder_with(&[]);
    let folder = folder.path();
    std::fs::write(folder.join("cities.csv"), b"k,v\nM\xfcnchen,1\nK\xf6ln,2\n").unwrap();
    std::fs::write(folder.join("bytes.csv"), b"k,v\n\xff\x01,one\n").unwrap();
    let build = |input: &str, flags: &[&str], out: &str| {
        let named = ["build", "--input", input, "--key", "k", "--value", "v", "--out", out];
        spirea(folder, &[&named[..], flags].concat())
    };
    let refused = text(&build("cities.csv", &[], "cities").stderr);
    assert!(refused.contains("cities.csv:2: its text is not UTF-8"), "{refused}");
    for (input, flags, out) in
        [("cities.csv", &["--encoding", "latin1"][..], "cities"), ("bytes.csv", &["--bytes"], "bytes")]
    {
        let built = build(input, flags, out);
        assert!(built.status.success(), "{}", text(&built.stderr));
    }
    let server = Server::start(folder, &["cities", "bytes"]);
    let get = |arguments: &[&str]| expect(folder, 0, &[&["get", &server.url][..], arguments].concat());
    assert_eq!(text(&get(&["cities", "M\u{fc}nchen", "--wait", "120"]).stdout), "1\n");
    for (keys, flags) in [
        (&b"\xef\xbb\xbfM\xc3\xbcnchen\r\nK\xc3\xb6ln\r\n"[..], &[][..]),
        (b"M\xfcnchen\nK\xf6ln", &["--encoding", "latin1"]),
    ] {
        std::fs::write(folder.join("wanted.txt"), keys).unwrap();
        let found = get(&[&["cities", "--keys-from", "wanted.txt"][..], flags].concat());
        assert_eq!(text(&found.stdout), "M\u{fc}nchen\t1\nK\u{f6}ln\t2\n");
    }
    let refused = refusal(folder, &["get", &server.url, "cities", "--keys-from", "wanted.txt"]);
    assert!(refused.contains("wanted.txt:1: its text is not UTF-8"), "{refused}");
    for written in [["--hex", "ff01"], ["--base64", "/wE="]] {
        assert_eq!(text(&get(&[&["bytes"][..], &written[..]].concat()).stdout), "one\n");
    }
    for (flag, key, part) in
        [("--hex", "ff0", "two digits"), ("--hex", "fg", "two digits"), ("--base64", "/wE", "padding")]
    {
        let refused = refusal(folder, &["get", &server.url, "bytes", flag, key]);
        assert!(refused.contains(part), "{refused}");
    }
}

//! Tables with forms of keys and types of values.

use crate::command::{Server, expect, folder_with, refusal, text};

#[test]
fn keys_of_a_form_are_found_however_they_are_written() {
    let folder = folder_with(&[
        ("callers.csv", "number,name\n044 668 18 00,Zurich\n+1 650-253-0000,California\n"),
        ("domains.txt", "name\nAds.Example.COM\nb\u{fc}cher.example\n"),
        ("twice.txt", "name\nexample.com\nExample.com.\n"),
        ("wrong.txt", "name\nexample.com\nhttps://example.org/\n"),
        ("people.csv", "email,name\n Zo\u{65}\u{308}@Example.org,Zoe\n"),
        ("put.csv", "number,name\n0446681801,Next\n"),
        ("delete.csv", "number\n+41 44 668 18 00\n"),
    ]);
    let folder = folder.path();
    let build = |input: &'static str, key: &'static str, form: &'static str, out: &'static str| {
        vec!["build", "--input", input, "--key", key, "--normalise", form, "--out", out]
    };
    let named = |input, key, form, out| [build(input, key, form, out), vec!["--value", "name"]].concat();
    let set = |input, out| [build(input, "name", "domain", out), vec!["--format", "csv"]].concat();
    let refused = refusal(folder, &set("twice.txt", "twice"));
    assert!(refused.contains("lines 2, 3"), "{refused}");
    let refused = refusal(folder, &set("wrong.txt", "wrong"));
    assert!(
        refused.contains("wrong.txt:3: the key \"https://example.org/\" is no domain name; correct it"),
        "{refused}"
    );
    let refused = refusal(
        folder,
        &["build", "--input", "people.csv", "--value", "name", "--normalise", "nfc", "--out", "x"],
    );
    assert!(refused.contains("--key"), "{refused}");
    let built = text(&expect(folder, 0, &named("callers.csv", "number", "e164:CH", "callers")).stdout);
    assert!(built.contains("e164:CH, by the rules of libphonenumber"), "{built}");
    expect(folder, 0, &set("domains.txt", "domains"));
    expect(folder, 0, &named("people.csv", "email", "trim,nfc,lower", "people"));
    expect(folder, 0, &["publish", "--repository", "changing", "--base", "callers"]);
    expect(
        folder,
        0,
        &[
            "publish",
            "--repository",
            "changing",
            "--put",
            "put.csv",
            "--delete",
            "delete.csv",
            "--key",
            "number",
        ],
    );
    let server = Server::start(folder, &["callers", "domains", "people"]);
    let get = |status, arguments: &[&str]| {
        let got = expect(folder, status, &[&["get", &server.url][..], arguments].concat());
        text(&got.stdout)
    };
    assert_eq!(get(0, &["callers", "0041 (0)44 668 18 00", "--wait", "120"]), "Zurich\n");
    assert_eq!(
        get(0, &["callers", "+16502530000", "044-668-18-00"]),
        "+16502530000\tCalifornia\n044-668-18-00\tZurich\n"
    );
    // A key that is not a number is not in the table. The server receives the same number of bytes
    // as for a number.
    let received = || {
        let metrics = server.get("/metrics");
        let line = metrics
            .lines()
            .find(|line| line.starts_with("spirea_received_bytes_total{database=\"callers\"}"));
        line.unwrap().rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
    };
    let [before, of_nobody] = [received(), {
        assert_eq!(get(1, &["callers", "nobody"]), "");
        received()
    }];
    assert_eq!(get(1, &["callers", "044 668 18 01"]), "");
    assert!(before < of_nobody && received() - of_nobody == of_nobody - before);
    assert_eq!(get(0, &["domains", "B\u{dc}CHER.example."]), "B\u{dc}CHER.example.\n");
    // A listed domain also stands for the names below it.
    let parents = |status, arguments: &[&str]| {
        let got =
            expect(folder, status, &[&["get", &server.url, "domains", "--parents"][..], arguments].concat());
        (text(&got.stdout), text(&got.stderr))
    };
    let (found, said) = parents(1, &["3", "x.y.ads.example.com", "www.B\u{dc}CHER.example"]);
    assert_eq!(found, "xn--bcher-kva.example\n");
    let unasked = "x.y.ads.example.com: y.ads.example.com, ads.example.com not asked for";
    assert!(said.contains(unasked) && !said.contains("invalid"), "{said}");
    assert!(parents(1, &["2", "example.org"]).1.contains("org: not found"));
    let (lines, _) = parents(0, &["4", "b.ads.example.com", "--json"]);
    assert_eq!((lines.lines().count(), lines.matches("\"found\":true").count()), (4, 1), "{lines}");
    assert_eq!(get(0, &["people", "ZO\u{cb}@EXAMPLE.ORG "]), "Zoe\n");
    let changed = Server::start(folder, &["changing"]);
    let got = expect(
        folder,
        1,
        &["get", &changed.url, "callers", "+41 44 668 18 01", "044 668 18 00", "--wait", "120"],
    );
    assert_eq!(text(&got.stdout), "+41 44 668 18 01\tNext\n");
}

#[test]
fn values_come_as_the_types_that_the_table_tells() {
    let folder = folder_with(&[
        ("goods.csv", "id,price,stock,sold,note\na,12.50,3,true,x\nb,1e3,,false,\n"),
        ("wrong.csv", "id,price\na,12.50\nb,cheap\n"),
        (
            "put.jsonl",
            "{\"key\":\"a\",\"value\":{\"price\":\"dear\",\"stock\":1,\"sold\":true,\"note\":\"\"}}\n",
        ),
    ]);
    let folder = folder.path();
    let types = "price=number,stock=integer,sold=boolean";
    let wrong = [
        "build",
        "--input",
        "wrong.csv",
        "--key",
        "id",
        "--value",
        "price",
        "--types",
        "price=number",
        "--out",
        "wrong",
    ];
    let refused = refusal(folder, &wrong);
    assert!(
        refused.contains("wrong.csv:3: price is \"cheap\"") && refused.contains("--types price=text"),
        "{refused}"
    );
    let build = [
        "build",
        "--input",
        "goods.csv",
        "--key",
        "id",
        "--value",
        "price",
        "stock",
        "sold",
        "note",
        "--out",
        "goods",
    ];
    let refused = refusal(folder, &[&build[..], &["--types", "cost=number"]].concat());
    assert!(refused.contains("\"cost\", which is no field"), "{refused}");
    let built = text(&expect(folder, 0, &[&build[..], &["--types", types]].concat()).stdout);
    assert!(built.contains("price (number), stock (integer), sold (boolean), note (text)"), "{built}");
    expect(folder, 0, &["publish", "--repository", "r", "--base", "goods"]);
    let refused = refusal(folder, &["publish", "--repository", "r", "--changes", "put.jsonl"]);
    assert!(refused.contains(":1: price is \"dear\""), "{refused}");
    let server = Server::start(folder, &["goods"]);
    let got = expect(folder, 0, &["get", &server.url, "goods", "a", "b", "--json", "--wait", "120"]);
    let lines = text(&got.stdout);
    let values: Vec<&str> = lines.lines().map(|line| line.split_once(",\"version\"").unwrap().0).collect();
    assert_eq!(
        values,
        [
            "{\"key\":\"a\",\"found\":true,\"value\":{\"price\":12.50,\"stock\":3,\"sold\":true,\"note\":\"x\"}",
            "{\"key\":\"b\",\"found\":true,\"value\":{\"price\":1e3,\"stock\":null,\"sold\":false,\"note\":\"\"}",
        ]
    );
}

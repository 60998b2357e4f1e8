//! The committed messages are those that the .proto files generate.

use std::path::Path;

/// Environment variable. If it is set, the test rewrites the messages instead of comparing them.
const REGENERATE: &str = "SPIREA_REGENERATE";
const GENERATED: &str = include_str!(concat!(env!("OUT_DIR"), "/spirea.v1.rs"));

#[test]
fn the_committed_messages_are_those_of_the_proto_files() {
    let committed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/wire/src/generated/spirea.v1.rs");
    if std::env::var_os(REGENERATE).is_some() {
        std::fs::write(&committed, GENERATED).unwrap();
    }
    assert!(
        std::fs::read_to_string(&committed).unwrap() == GENERATED,
        "the messages are out of date: run `{REGENERATE}=1 cargo test -p spirea-proto`"
    );
}

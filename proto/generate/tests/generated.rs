//! The committed messages are those that the .proto files generate.

use std::path::Path;

/// Environment variable. If it is set, the test rewrites the messages instead of comparing them.
const REGENERATE: &str = "SPIREA_REGENERATE";

#[test]
fn the_committed_messages_are_those_of_the_proto_files() {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files =
        ["database", "error", "keys", "query"].map(|file| proto.join(format!("spirea/v1/{file}.proto")));
    let descriptors = protox::compile(files, [&proto]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new().bytes(["."]).out_dir(out.path()).compile_fds(descriptors).unwrap();

    let generated = std::fs::read_to_string(out.path().join("spirea.v1.rs")).unwrap();
    let committed = proto.join("../crates/wire/src/generated/spirea.v1.rs");
    if std::env::var_os(REGENERATE).is_some() {
        std::fs::write(&committed, &generated).unwrap();
    }
    assert!(
        std::fs::read_to_string(&committed).unwrap() == generated,
        "the messages are out of date: run `{REGENERATE}=1 cargo test --manifest-path proto/generate/Cargo.toml`"
    );
}

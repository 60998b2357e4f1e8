//! Generates messages from the .proto files. The test compares them with the committed messages.

use std::path::Path;

fn main() {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    println!("cargo::rerun-if-changed={}", proto.join("spirea").display());
    let files =
        ["database", "error", "keys", "query"].map(|file| proto.join(format!("spirea/v1/{file}.proto")));
    let descriptors = protox::compile(files, [&proto]).expect("the .proto files are valid");
    prost_build::Config::new().bytes(["."]).compile_fds(descriptors).expect("the messages are generated");
}

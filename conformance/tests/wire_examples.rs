//! Checks that the implementation computes the worked examples of docs/wire.md. The reference
//! client computes them too: `conformance/client/examples.py`.

mod dpf;
mod matrix;
mod messages;
mod ring;
mod tables;

use std::collections::BTreeMap;
use std::path::Path;

/// Name of an example with its lines.
type Example = (&'static str, Vec<String>);

/// Bytes 0, 1, ..., 31.
const COUNTED: [u8; 32] = {
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < 32 {
        bytes[i] = i as u8;
        i += 1;
    }
    bytes
};

fn words(words: &[u32]) -> String {
    words.iter().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(" ")
}

fn listed<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the examples of the documents by name; each name occurs once.
fn documented() -> BTreeMap<String, String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let parts = std::fs::read_dir(docs.join("wire")).unwrap().map(|entry| entry.unwrap().path());
    let mut found = BTreeMap::new();
    for path in parts.chain([docs.join("wire.md")]) {
        let text = std::fs::read_to_string(path).unwrap();
        for block in text.split("```example ").skip(1) {
            let (block, _) = block.split_once("```").unwrap();
            let (name, lines) = block.split_once('\n').unwrap();
            assert_eq!(found.insert(name.to_owned(), lines.to_owned()), None, "two examples {name}");
        }
    }
    found
}

#[test]
fn examples_are_what_the_implementation_computes() {
    let documented = documented();
    let computed = computed(&documented["parameters"]);
    let names = |examples: &BTreeMap<String, String>| examples.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&documented), names(&computed));
    for (name, said) in &documented {
        assert_eq!(*said, computed[name], "example {name} of docs/wire.md");
    }
}

/// Returns the examples by name, as this implementation computes them.
fn computed(parameters: &str) -> BTreeMap<String, String> {
    [
        messages::examples(parameters),
        tables::examples(),
        matrix::examples(),
        ring::examples(),
        dpf::examples(),
    ]
    .into_iter()
    .flatten()
    .map(|(name, lines)| (name.to_owned(), lines.iter().map(|line| format!("{line}\n")).collect()))
    .collect()
}

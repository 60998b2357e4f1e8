//! Keyed tables without entries.

use spirea_protocols::choice::Choice;
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{options, try_build, write_file};
use spirea_store::{BuildOptions, Overwrite, Protocol};

#[test]
fn a_table_of_keys_without_rows_has_no_key_under_any_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", "key,value\n");
    for protocol in [
        "simple",
        "double",
        "exppack-simple",
        "exppack-double",
        "double-pack",
        "hybrid",
        "onion",
        "dpf-xor",
        "dpf-sum",
    ] {
        let options = BuildOptions {
            protocol: Protocol::Named(Choice { protocol: protocol.into(), ..Choice::default() }),
            overwrite: Overwrite::Replace,
            ..options(&input, Some("key"), &["value"])
        };
        let snapshot = try_build(&options).unwrap_or_else(|error| panic!("{protocol}: {error}"));
        assert_eq!(snapshot.manifest().table.entries, 0);
        assert_eq!(LookUps::new(&snapshot).key(b"alpha").unwrap(), None, "{protocol}");
    }
}

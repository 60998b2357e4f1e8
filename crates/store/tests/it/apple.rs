//! Tables for Apple's clients beside the records of a snapshot.

use std::path::Path;

use spirea_apple::Set;
use spirea_apple::keyword::KeywordHash;
use spirea_apple::messages::{CallIdentity, IdentityCategory, Sha256, Sharding};
use spirea_normalise::form;
use spirea_protocols::table::KeyStep;
use spirea_specimens::snapshots::{BACKEND, columns, csv_options, try_build};
use spirea_store::repository::{Settings, Shrinking};
use spirea_store::{
    AppleOptions, BuildOptions, Changes, Duplicates, Manifest, Overwrite, Repository, Silent, Snapshot,
    StoreError,
};

fn apple(shards: usize) -> AppleOptions {
    AppleOptions { bundle: "net.example.lookup".into(), set: Set::Logt5, shards }
}

/// Options of a table of Swiss numbers.
fn numbers(folder: &Path, values: &[&str], lines: &str) -> BuildOptions {
    BuildOptions {
        key_form: Some(form(vec![KeyStep::E164], Some("CH".into())).unwrap()),
        apple: Some(apple(1)),
        ..csv_options(&folder.join("numbers"), "simple", columns(Some("number"), values), lines)
    }
}

/// Returns the value that a use case has for a number.
fn value(snapshot: &Snapshot, use_case: &str, number: &str) -> Option<Vec<u8>> {
    let use_cases = snapshot.apple_use_cases().unwrap();
    let found = use_cases.iter().find(|known| known.name == use_case).unwrap();
    let shard =
        KeywordHash::of(number.as_bytes()).shard(Sharding::Sha256(Sha256 {}), found.shards.len() as u64);
    found.shards[shard as usize].1.value(number.as_bytes()).map(<[u8]>::to_vec)
}

fn person(name: &str) -> Option<Vec<u8>> {
    let category = IdentityCategory::Person as i32;
    Some(CallIdentity { name: name.into(), category, ..CallIdentity::default() }.to_bytes())
}

#[test]
fn numbers_are_found_in_their_form_and_the_records_are_there_too() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..300)
        .map(|i| format!("044 668 {:02} {:02},Caller {i},person,{}\n", i / 100, i % 100, i % 2))
        .collect();
    let lines = format!("number,name,category,block\n{rows}+1 415 555 0100,,,1\n");
    let options = numbers(folder.path(), &["name", "category", "block"], &lines);
    for shards in [1, 3] {
        let apple = Some(apple(shards));
        let options = BuildOptions { apple, overwrite: Overwrite::Replace, ..options.clone() };
        try_build(&options).unwrap();
        let snapshot = Snapshot::open(&options.out).unwrap();
        snapshot.verify(&Silent).unwrap();
        assert_eq!(snapshot.apple_use_cases().unwrap()[0].shards.len(), shards);
        for i in [0usize, 17, 299] {
            let number = format!("+4144668{:02}{:02}", i / 100, i % 100);
            assert_eq!(
                value(&snapshot, "net.example.lookup.identity", &number),
                person(&format!("Caller {i}"))
            );
            assert_eq!(value(&snapshot, "net.example.lookup.block", &number), Some(vec![(i % 2) as u8]));
        }
        assert_eq!(value(&snapshot, "net.example.lookup.identity", "+14155550100"), None);
        assert_eq!(value(&snapshot, "net.example.lookup.block", "+14155550100"), Some(vec![1]));
        assert_eq!(value(&snapshot, "net.example.lookup.block", "+14155550101"), None);
        let manifest = snapshot.manifest();
        assert_eq!(manifest.table.entries, 301);
        let keywords: Vec<_> =
            manifest.apple.as_ref().unwrap().use_cases.iter().map(|u| u.keywords).collect();
        assert_eq!(keywords, [300, 301]);
    }
}

#[test]
fn of_a_number_in_several_rows_the_same_row_counts_as_for_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "number,name\n0446680000,First\n+41446680000,Last\n";
    let options = numbers(folder.path(), &["name"], lines);
    assert!(matches!(try_build(&options), Err(StoreError::DuplicateKeys { .. })));
    for (duplicates, name) in [(Duplicates::First, "First"), (Duplicates::Last, "Last")] {
        let options = BuildOptions { duplicates, overwrite: Overwrite::Replace, ..options.clone() };
        let snapshot = try_build(&options).unwrap();
        let expected = CallIdentity { name: name.into(), ..CallIdentity::default() }.to_bytes();
        assert_eq!(value(&snapshot, "net.example.lookup.identity", "+41446680000"), Some(expected));
    }
}

#[test]
fn inputs_that_no_device_could_ask_for_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |values: &[&str], lines: &str, change: fn(&mut BuildOptions)| {
        let mut options = numbers(folder.path(), values, lines);
        change(&mut options);
        let error = try_build(&options).unwrap_err().to_string();
        assert!(!options.out.exists());
        error
    };
    let good = "number,name,other\n0446680000,Ada,x\n";
    let plain = refused(&["name"], good, |options| options.key_form = None);
    assert!(plain.contains("numbers.csv:2") && plain.contains("--normalise e164"), "{plain}");
    assert!(refused(&["other"], good, |_| ()).contains("no column \"other\""));
    let unnamed = refused(&["category"], "number,category\n0446680000,person\n", |_| ());
    assert!(unnamed.contains("called name or block"), "{unnamed}");
    let flag = refused(&["block"], "number,block\n0446680000,yes\n", |_| ());
    assert!(flag.contains("numbers.csv:2") && flag.contains("none of 1, 0"), "{flag}");
    let bundle = refused(&["name"], good, |options| options.apple.as_mut().unwrap().bundle = "a b".into());
    assert!(bundle.contains("--bundle"), "{bundle}");
    let shards = refused(&["name"], good, |options| options.apple = Some(apple(0)));
    assert!(shards.contains("--apple-shards"), "{shards}");
    let long = format!("number,name\n0446680000,{}\n", "x".repeat(70_000));
    assert!(refused(&["name"], &long, |_| ()).contains("does not fit a bucket"));
    let without_key = refused(&["name"], good, |options| {
        (options.selection.key, options.key_form) = (None, None);
    });
    assert!(without_key.contains("--key"), "{without_key}");
}

#[test]
fn damage_to_the_tables_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let options = numbers(folder.path(), &["name"], "number,name\n0446680000,Ada\n0446680001,Bo\n");
    let snapshot = try_build(&options).unwrap();
    let path = snapshot.folder().join("apple.bin");
    let content = std::fs::read(&path).unwrap();
    for at in 0..content.len() {
        let mut flipped = content.clone();
        flipped[at] ^= 1;
        std::fs::write(&path, flipped).unwrap();
        let opened = Snapshot::open(snapshot.folder()).unwrap();
        assert!(matches!(opened.verify(&Silent), Err(StoreError::Damaged { .. })), "byte {at}");
    }
    std::fs::write(&path, &content[1..]).unwrap();
    let opened = Snapshot::open(snapshot.folder()).unwrap();
    assert!(matches!(opened.apple_use_cases(), Err(StoreError::Damaged { .. })));
    std::fs::write(&path, vec![9; content.len()]).unwrap();
    let opened = Snapshot::open(snapshot.folder()).unwrap();
    assert!(matches!(opened.apple_use_cases(), Err(StoreError::Damaged { .. })), "buckets that are cut off");
}

#[test]
fn a_manifest_whose_tables_do_not_fit_their_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = numbers(folder.path(), &["name"], "number,name\n0446680000,Ada\n");
    let manifest = try_build(&options).unwrap().manifest().clone();
    assert!(Manifest::from_bytes(&manifest.to_bytes()).is_ok());
    let refused = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = manifest.clone();
        change(&mut manifest);
        Manifest::from_bytes(&manifest.to_bytes()).unwrap_err().to_string()
    };
    let use_case = |manifest: &mut Manifest| manifest.apple.as_mut().unwrap().use_cases[0].clone();
    assert!(refused(&|manifest| manifest.apple = None).contains("there together"));
    assert!(
        refused(&|manifest| manifest.apple_tables.as_mut().unwrap().bytes += 1)
            .contains("apple_tables.bytes")
    );
    assert!(refused(&|manifest| manifest.apple.as_mut().unwrap().set = "n".into()).contains("unknown"));
    for (change, cause) in [
        ((|shards: &mut usize| *shards = 0) as fn(&mut usize), "not 1 to"),
        (|buckets| *buckets = usize::MAX, "not 1 to"),
    ] {
        let error = refused(&|manifest| {
            change(&mut manifest.apple.as_mut().unwrap().use_cases[0].shards[0].buckets);
        });
        assert!(error.contains(cause), "{error}");
    }
    let twice = refused(&|manifest| {
        let again = use_case(manifest);
        manifest.apple.as_mut().unwrap().use_cases.push(again);
    });
    assert!(twice.contains("there twice"), "{twice}");
}

#[test]
fn changes_are_refused_where_apples_clients_would_not_see_them() {
    let folder = tempfile::tempdir().unwrap();
    let options = numbers(folder.path(), &["name"], "number,name\n0446680000,Ada\n");
    let snapshot = try_build(&options).unwrap();
    let repository = Repository::create(folder.path().join("repository"), Settings::default()).unwrap();
    repository.add_base(&snapshot, Shrinking::Refuse, &Silent).unwrap();
    let line = &br#"{"key": "0446680001", "value": "Bo"}"#[..];
    let changes = Changes::read_lines(&snapshot.manifest().table, line, Path::new("changes")).unwrap();
    let refused = repository.apply(changes, &BACKEND, &Silent).unwrap_err().to_string();
    assert!(refused.contains("Apple's clients"), "{refused}");
}

//! Any bytes, read as binary changes or as lines of changes, decode or give an error. Changes that
//! were read are the same after they are written and read again.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use spirea_protocols::keyword::Copies;
use spirea_protocols::signature::Signature;
use spirea_protocols::{PlaceSalt, Salt, Table, TableKind};
use spirea_store::Changes;
use spirea_store::changes::Grouping;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(changes) = Changes::from_bytes(bytes) {
        assert_eq!(changes.to_bytes(), bytes);
    }
    for (kind, fields) in [(TableKind::Keyword, &["a", "b"][..]), (TableKind::Index, &["a"])] {
        let fields = fields.iter().map(|&field| field.into()).collect();
        let places = (kind == TableKind::Keyword).then_some(PlaceSalt::new([2; 32]));
        let table = Table {
            kind,
            entries: 3,
            records: 3,
            payload_bytes: 40,
            salt: Salt::new([1; 32]),
            places,
            copies: Copies::One,
            widths: None,
            rows_per_record: None,
            max_value_bytes: None,
            fields,
            types: Vec::new(),
            key_form: None,
            key_queries: None,
            proofs: None,
        };
        if let Ok(changes) = Changes::read_lines(&table, bytes, Path::new("lines")) {
            let lines = changes.to_lines(&table).unwrap();
            assert_eq!(Changes::read_lines(&table, &lines[..], Path::new("lines")).unwrap(), changes);
            let binary = changes.to_bytes();
            assert_eq!(Changes::from_bytes(&binary).unwrap().to_bytes(), binary);
            let _ = changes.check(&table);
        }
        let mut grouping = Grouping::new(table, None, "lines");
        for line in bytes.split(|&byte| byte == b'\n') {
            if grouping.add(line).is_err() {
                break;
            }
            assert_eq!(grouping.ready().is_some(), grouping.take().is_some());
        }
    }
    if let Ok(signature) = Signature::from_json(bytes) {
        assert_eq!(Signature::from_json(&signature.to_json()).unwrap(), signature);
    }
});

use spirea_protocols::keyword::Copies;
use spirea_protocols::{PlaceSalt, Salt, Table, TableKind};

/// Returns a table with as many entries as records, one field called `value`, and no proofs. Its
/// salt is all zeros; its places are 32 bytes of 1.
pub fn table(kind: TableKind, records: u64, payload_bytes: usize) -> Table {
    Table {
        kind,
        entries: records,
        records,
        payload_bytes,
        salt: Salt::new([0; 32]),
        places: (kind == TableKind::Keyword).then_some(PlaceSalt::new([1; 32])),
        copies: Copies::One,
        widths: None,
        rows_per_record: None,
        max_value_bytes: None,
        fields: vec!["value".into()],
        types: Vec::new(),
        key_form: None,
        key_queries: None,
        proofs: None,
    }
}

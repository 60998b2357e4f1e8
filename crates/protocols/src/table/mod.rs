//! Tables: values with checksums in the records of an index protocol, looked up by index or by key.
//!
//! A record is a payload, zeros up to the table's payload size, an optional inclusion proof, and a
//! checksum of 8 bytes: BLAKE3 keyed by the table's public salt over the record's index and all
//! bytes before the checksum. The checksum detects wrong or damaged answers except with probability
//! 2^-64. Only the proof protects against a server that lies on purpose.

use serde::{Deserialize, Serialize};
use spirea_math::secret::declassify;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

mod boundaries;
mod client;
pub mod delta;
mod fields;
pub mod hint_rows;
mod key_form;
pub mod keyword;
pub mod layout;
pub mod proof;
pub mod rows;
pub mod signature;

pub use self::boundaries::Boundaries;
pub use self::client::{FetchState, Fetched, LookupState, TableClient};
pub use self::fields::{FieldType, join_fields};
pub use self::key_form::{KeyForm, KeyStep};
use self::keyword::{Copies, EntryPlace, KeyHash, MAX_ENTRIES};
use self::layout::Widths;
use self::proof::{Hash, Proofs, Tree};
use self::rows::{push_row, rows};
use crate::bytes::{LENGTH_IS_TOLD, length_bytes, push_length, take, take_length};
use crate::{PlaceSalt, ProtocolError, Salt};

/// Bytes of a record's checksum.
pub const CHECKSUM_BYTES: usize = 8;
/// First byte of the payload of a deleted row in an index table, followed by zeros: the start of a
/// length that is not in its shortest form, so no value begins with it.
const ABSENT: u8 = 0x80;
/// Maximum bytes of a value.
pub const MAX_VALUE_BYTES: usize = 1 << 20;
/// Maximum number of queries under one set of registered keys. A first refusal reveals which of
/// these queries was refused: 10 bits (docs/soundness.md). Keys of 0.6 to 4 MiB add 0.6 to 4 KiB to
/// each query: 0.2% of the 244 KiB of `exppack-simple` at 1 GiB, 6% of the 64 KiB of `onion`.
pub const MOST_KEY_QUERIES: u64 = 1 << 10;
/// Minimum to which an operator can reduce the number of queries under one set of keys. If keys
/// ended sooner, clients would upload more for keys than for queries.
pub const LEAST_KEY_QUERIES: u64 = 1 << 6;
/// Maximum number of rows in a record of an index table without widths. It equals the number of
/// bytes in a ring's unit, because a row takes at least one byte.
pub const MAX_ROWS_PER_RECORD: u32 = 1 << 12;

/// Maximum number of buckets with widths of a table with one copy of each entry.
const MAX_WIDTHS_WITHOUT_COPIES: usize = 1 << 16;

/// Kind of look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// Look-up by position: a record is a row, or a bucket of neighbouring rows.
    Index,
    /// Look-up by key: records are buckets.
    Keyword,
}

/// Description of a table that a client needs beside the protocol's parameters. Public, and part of
/// a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Kind of look-up.
    pub kind: TableKind,
    /// Number of values in the table: its anonymity set.
    pub entries: u64,
    /// Number of records of the index protocol: the rows, or the buckets.
    pub records: u64,
    /// Bytes of a record's payload.
    pub payload_bytes: usize,
    /// Salt of keys and checksums; public.
    pub salt: Salt,
    /// Hash key of the entries' places ([`EntryPlace`]), if the table has keys; public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<PlaceSalt>,
    /// Number of copies of each entry, if the table has keys.
    #[serde(default, skip_serializing_if = "Copies::is_one")]
    pub copies: Copies,
    /// Units of places or rows that each bucket covers. Without widths, all buckets of places are
    /// equally wide, and each record has `rows_per_record` rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub widths: Option<Widths>,
    /// Rows in each record of an index table without widths, 2 to [`MAX_ROWS_PER_RECORD`]; the last
    /// record may have fewer. If absent, each record is a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_per_record: Option<u32>,
    /// Maximum bytes of a value in changes; [`MAX_VALUE_BYTES`] if absent. See
    /// [`Table::value_limit`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_value_bytes: Option<usize>,
    /// Names of a value's fields. With one field, a value is the field's bytes; with several, each
    /// field is preceded by its length. A keyword table without fields is a set: its values are
    /// empty.
    pub fields: Vec<String>,
    /// Types of the fields, which every value then has; empty if the table's input did not provide
    /// types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<FieldType>,
    /// Form of the keys; if absent, keys are used as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_form: Option<KeyForm>,
    /// Maximum number of queries under one set of registered keys, if the operator reduces it:
    /// [`LEAST_KEY_QUERIES`] to [`MOST_KEY_QUERIES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_queries: Option<u64>,
    /// Inclusion proofs of the records, if the table has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proofs: Option<Proofs>,
}

impl Table {
    /// Returns the number of bytes of a record: payload, proof and checksum.
    pub fn record_bytes(&self) -> usize {
        self.payload_bytes + self.proof_bytes() + CHECKSUM_BYTES
    }

    /// Returns the number of bytes of a record's inclusion proof; 0 if records have none.
    pub fn proof_bytes(&self) -> usize {
        self.proofs.as_ref().map_or(0, Proofs::bytes)
    }

    /// Checks a table read from untrusted bytes.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names the member out of range.
    pub fn validate(&self) -> Result<(), ProtocolError> {
        let wrong = |detail: &str| Err(ProtocolError::malformed("table", detail));
        if self.records == 0 || self.records > 1 << 40 {
            return wrong("records must be between 1 and 2^40");
        }
        if self.payload_bytes == 0 || self.payload_bytes > 1 << 30 {
            return wrong("payload_bytes must be between 1 and 2^30");
        }
        if self.rows_per_record.is_some_and(|rows| {
            self.kind != TableKind::Index
                || self.widths.is_some()
                || !(2..=MAX_ROWS_PER_RECORD).contains(&rows)
        }) {
            return wrong("rows_per_record must be 2 to 4096, in an index table without widths");
        }
        match &self.widths {
            Some(widths) if widths.count() as u64 != self.records => {
                return wrong("widths must be those of its records");
            }
            Some(widths) if self.copies == Copies::One && widths.count() > MAX_WIDTHS_WITHOUT_COPIES => {
                return wrong("widths must be those of at most 65536 buckets in a table without copies");
            }
            Some(widths) if self.kind == TableKind::Index && self.entries < widths.units() => {
                return wrong("widths must not have more units than there are rows");
            }
            None if self.kind == TableKind::Index
                && self.entries.div_ceil(self.rows_in_record()) != self.records =>
            {
                return wrong("an index table without widths has rows_per_record entries in each record");
            }
            _ => {}
        }
        if self.entries > 1 << 40 {
            return wrong("a table has at most 2^40 entries");
        }
        if self.max_value_bytes.is_some_and(|bytes| bytes > MAX_VALUE_BYTES) {
            return wrong("max_value_bytes must be at most 2^20");
        }
        if self.entries > MAX_ENTRIES && self.kind == TableKind::Keyword {
            return wrong("a keyword table has at most 2^32 entries");
        }
        if self.places.is_some() != (self.kind == TableKind::Keyword) {
            return wrong("places must be there if and only if the table has keys");
        }
        if self.copies != Copies::One && self.kind == TableKind::Index {
            return wrong("copies belong to tables with keys");
        }
        if self.key_queries.is_some_and(|queries| !(LEAST_KEY_QUERIES..=MOST_KEY_QUERIES).contains(&queries))
        {
            return wrong("key_queries must be between 64 and 1024");
        }
        let least = usize::from(self.kind == TableKind::Index);
        if !(least..=4096).contains(&self.fields.len()) {
            return wrong("fields must name at most 4096 fields, and at least 1 in a table by position");
        }
        if !self.types.is_empty() && self.types.len() != self.fields.len() {
            return wrong("types must name the type of each field, or of none");
        }
        if self.key_form.is_some() && self.kind == TableKind::Index {
            return wrong("key_form belongs to tables with keys");
        }
        self.key_form.as_ref().map_or(Ok(()), KeyForm::validate)?;
        self.proofs.as_ref().map_or(Ok(()), |proofs| proofs.validate(self.records))
    }

    /// Returns the number of rows in a record of an index table without widths.
    fn rows_in_record(&self) -> u64 {
        u64::from(self.rows_per_record.unwrap_or(1))
    }

    /// Returns true if records are buckets, of keyed entries or of several rows.
    pub fn has_buckets(&self) -> bool {
        self.kind == TableKind::Keyword || self.widths.is_some() || self.rows_per_record.is_some()
    }

    /// Returns the maximum bytes of a value that the table accepts, in changes and when it is
    /// rebuilt.
    pub fn value_limit(&self) -> usize {
        self.max_value_bytes.unwrap_or(MAX_VALUE_BYTES)
    }

    /// Returns the maximum number of queries under one set of registered keys.
    pub fn key_queries(&self) -> u64 {
        self.key_queries.unwrap_or(MOST_KEY_QUERIES)
    }

    /// Returns the records with the copies of a secret key's entry, in the order of the copies: as
    /// many as copies, even if two lie in the same record. `None` if the table is looked up by
    /// position.
    pub fn buckets(&self, hash: &KeyHash) -> Option<Zeroizing<Vec<u64>>> {
        let bucket = |place: EntryPlace| match &self.widths {
            Some(widths) => widths.bucket(place.part(widths.units())),
            None => place.part(self.records),
        };
        let places = EntryPlace::of_copies(self.places.as_ref()?, &hash.tag, self.copies);
        Some(Zeroizing::new(places.map(bucket).collect()))
    }

    /// Seals record `index` with this payload, in a table without proofs.
    ///
    /// # Panics
    /// If the payload exceeds `payload_bytes` (builders size records by their largest payload), or
    /// the table has proofs.
    pub fn seal(&self, index: u64, payload: &[u8]) -> Vec<u8> {
        self.seal_with(index, payload, &[])
    }

    /// Seals record `index` with this payload and its proof; `tree` must come from [`Table::prove`]
    /// of this table.
    ///
    /// # Panics
    /// If the payload exceeds `payload_bytes`, or the tree belongs to another table.
    pub fn seal_proven(&self, index: u64, payload: &[u8], tree: &Tree) -> Vec<u8> {
        self.seal_with(index, payload, &tree.proof(index))
    }

    fn seal_with(&self, index: u64, payload: &[u8], proof: &[u8]) -> Vec<u8> {
        assert_eq!(proof.len(), self.proof_bytes(), "records carry the proofs that their table says");
        let mut record = Vec::with_capacity(self.record_bytes());
        self.pad(payload, &mut record);
        record.extend_from_slice(proof);
        let checksum = self.checksum(index, &record);
        record.extend_from_slice(&checksum);
        record
    }

    fn pad(&self, payload: &[u8], padded: &mut Vec<u8>) {
        assert!(payload.len() <= self.payload_bytes, "a payload of {} bytes does not fit", payload.len());
        padded.extend_from_slice(payload);
        padded.resize(self.payload_bytes, 0);
    }

    /// Returns the leaf of record `index` with this payload, for [`Table::prove`].
    ///
    /// # Panics
    /// If the payload exceeds `payload_bytes`, or the table has no proofs.
    pub fn leaf(&self, index: u64, payload: &[u8]) -> Hash {
        let mut padded = Vec::with_capacity(self.payload_bytes);
        self.pad(payload, &mut padded);
        self.proofs.as_ref().expect("the table has proofs").leaf(index, &padded)
    }

    /// Returns the tree over the leaves of all records, in order, and stores its roots; `None` if
    /// the table has no proofs.
    pub fn prove(&mut self, leaves: Vec<Hash>) -> Option<Tree> {
        self.proofs.as_mut().map(|proofs| Tree::new(proofs, leaves))
    }

    /// Verifies record `index` and returns its padded payload: checks the checksum and, if the
    /// table has proofs, the proof.
    ///
    /// # Errors
    /// [`ProtocolError::Corrupted`] if the checksum is wrong, [`ProtocolError::Unproven`] if the
    /// proof is wrong.
    pub fn unseal<'a>(&self, index: u64, record: &'a [u8]) -> Result<&'a [u8], ProtocolError> {
        let sealed = match record.split_at_checked(self.payload_bytes + self.proof_bytes()) {
            Some((sealed, checksum)) if self.is_checksum(checksum, index, sealed) => sealed,
            _ => return Err(ProtocolError::Corrupted),
        };
        let (payload, proof) = sealed.split_at(self.payload_bytes);
        let proven = self.proofs.as_ref().is_none_or(|proofs| proofs.hold(index, payload, proof));
        if proven { Ok(payload) } else { Err(ProtocolError::Unproven) }
    }

    fn is_checksum(&self, checksum: &[u8], index: u64, sealed: &[u8]) -> bool {
        let same = self.checksum(index, sealed)[..].ct_eq(checksum);
        declassify(same.unwrap_u8(), "an answer that fails its checksum is reported") == 1
    }

    fn checksum(&self, index: u64, sealed: &[u8]) -> [u8; CHECKSUM_BYTES] {
        let mut checksum = [0; CHECKSUM_BYTES];
        let mut hasher = blake3::Hasher::new_keyed(self.salt.as_bytes());
        hasher.update(b"spirea record v1").update(&index.to_le_bytes()).update(sealed);
        hasher.finalize_xof().fill(&mut checksum);
        checksum
    }

    /// Returns the number of bytes of an index table's payload for a value of `value_bytes` bytes.
    pub fn index_payload_bytes(value_bytes: usize) -> usize {
        length_bytes(value_bytes) + value_bytes
    }

    /// Returns an index table's payload for this value.
    pub fn index_payload(value: &[u8]) -> Vec<u8> {
        let mut payload = Vec::with_capacity(Self::index_payload_bytes(value.len()));
        push_length(&mut payload, value.len());
        payload.extend_from_slice(value);
        payload
    }

    /// Returns an index table's payload for a deleted row.
    pub fn absent_payload() -> Vec<u8> {
        vec![ABSENT]
    }

    /// Returns the value in an index table's padded payload, or `None` for a deleted row.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the payload is neither.
    pub fn index_value(payload: &[u8]) -> Result<Option<&[u8]>, ProtocolError> {
        // Declassifies the first bytes of a length, which also tell whether there is a value.
        let head = |i: usize| payload.get(i).map(|&byte| declassify(byte, LENGTH_IS_TOLD));
        if head(0) == Some(ABSENT) && matches!(head(1), None | Some(0)) {
            return Ok(None);
        }
        let mut rest = payload;
        match take_length(&mut rest).and_then(|length| take(&mut rest, length)) {
            Some(value) => Ok(Some(value)),
            None => Err(ProtocolError::malformed("record", "its value is cut off")),
        }
    }

    /// Returns the values of the `count` rows in a padded payload of an index table, `None` for
    /// deleted rows.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the payload has fewer rows.
    pub fn row_values<'p>(
        &self,
        payload: &'p [u8],
        count: usize,
    ) -> Result<Vec<Option<&'p [u8]>>, ProtocolError> {
        let values = match self.has_buckets() {
            false => vec![Self::index_value(payload)?],
            true => rows(payload).take(count).collect::<Result<_, _>>()?,
        };
        match values.len() == count {
            true => Ok(values),
            false => Err(ProtocolError::malformed("record", "it has fewer rows than the table says")),
        }
    }

    /// Returns the payload of an index table's record with these rows; a record that is not a
    /// bucket has one row.
    pub fn rows_payload(&self, values: &[Option<&[u8]>]) -> Vec<u8> {
        match (self.has_buckets(), values) {
            (false, [value]) => value.map_or_else(Self::absent_payload, Self::index_payload),
            _ => values.iter().fold(Vec::new(), |mut payload, value| {
                push_row(&mut payload, *value);
                payload
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(fields: usize, payload_bytes: usize) -> Table {
        let fields = (0..fields).map(|i| format!("f{i}")).collect();
        Table {
            kind: TableKind::Keyword,
            entries: 1,
            records: 1,
            payload_bytes,
            salt: Salt::new([9; 32]),
            places: Some(PlaceSalt::new([8; 32])),
            copies: Copies::One,
            widths: None,
            rows_per_record: None,
            max_value_bytes: None,
            fields,
            types: Vec::new(),
            key_form: None,
            key_queries: None,
            proofs: None,
        }
    }

    /// Returns a table of these payloads with proofs, and its records.
    fn proven(payloads: &[Vec<u8>], kind: TableKind) -> (Table, Vec<Vec<u8>>) {
        let records = payloads.len() as u64;
        let proofs = Some(Proofs { levels: 3, ..Proofs::blank(records, Salt::new([6; 32])) });
        let places = (kind == TableKind::Keyword).then_some([8; 32]);
        let mut table = Table {
            kind,
            entries: records,
            records,
            places: places.map(PlaceSalt::new),
            proofs,
            ..table(1, 40)
        };
        let leaves = (0..).zip(payloads).map(|(index, payload)| table.leaf(index, payload)).collect();
        let tree = table.prove(leaves).unwrap();
        let sealed = (0..).zip(payloads).map(|(index, payload)| table.seal_proven(index, payload, &tree));
        let sealed = sealed.collect();
        (table, sealed)
    }

    #[test]
    fn a_keyword_table_without_fields_is_a_set_of_empty_values() {
        let set = table(0, 40);
        set.validate().unwrap();
        assert_eq!(set.join_fields(&[]), b"");
        assert_eq!(set.split_fields(b"").unwrap(), Vec::<Vec<u8>>::new());
        assert!(set.split_fields(b"x").is_err());
    }

    #[test]
    fn a_record_with_the_right_checksum_is_refused_unless_the_roots_stand_for_it() {
        for records in [1, 2, 7, 8, 9, 30] {
            let payloads: Vec<Vec<u8>> = (0..records).map(|i| Table::index_payload(&[i; 30])).collect();
            let (table, sealed) = proven(&payloads, TableKind::Index);
            table.validate().unwrap();
            let mut others = payloads.clone();
            others[0] = Table::index_payload(b"a lie");
            let (lying, lies) = proven(&others, TableKind::Index);
            for (index, record) in (0..).zip(&sealed) {
                assert_eq!(record.len(), table.record_bytes());
                assert_eq!(table.unseal(index, record).unwrap()[..31], payloads[index as usize][..]);
                // A server that recomputes the checksum can change neither payload nor proof.
                for at in 0..record.len() - CHECKSUM_BYTES {
                    let mut forged = record[..record.len() - CHECKSUM_BYTES].to_vec();
                    forged[at] ^= 0x40;
                    let checksum = table.checksum(index, &forged);
                    forged.extend(checksum);
                    assert!(matches!(table.unseal(index, &forged), Err(ProtocolError::Unproven)), "{at}");
                }
                // It cannot substitute a record of another table, which is valid under that table's
                // roots.
                let lie = lying.unseal(index, &lies[index as usize]).unwrap();
                let told = table.unseal(index, &lies[index as usize]);
                match index < 8 {
                    true => assert!(matches!(told, Err(ProtocolError::Unproven)), "{index}: {lie:?}"),
                    false => assert_eq!(told.unwrap(), lie),
                }
            }
        }
    }

    #[test]
    fn a_table_says_where_entries_lie_if_and_only_if_it_has_keys() {
        let keyed = table(1, 40);
        keyed.validate().unwrap();
        let by_position = Table { kind: TableKind::Index, places: None, ..keyed.clone() };
        by_position.validate().unwrap();
        for (table, places) in [(keyed, None), (by_position, Some([8; 32]))] {
            let wrong =
                Table { places: places.map(PlaceSalt::new), ..table }.validate().unwrap_err().to_string();
            assert!(wrong.contains("places"), "{wrong}");
        }
    }

    #[test]
    fn tables_at_a_limit_are_valid_and_those_beyond_it_are_refused() {
        let keyed = table(1, 40);
        let hex = KeyForm { steps: vec![KeyStep::Hex], region: None, unicode: None, phone_rules: None };
        let indexed = |count| Table {
            kind: TableKind::Index,
            places: None,
            records: count,
            entries: count,
            ..keyed.clone()
        };
        let with_widths = |count: usize| Table {
            records: count as u64,
            entries: count as u64,
            widths: Some(Widths::new(vec![1; count]).unwrap()),
            ..keyed.clone()
        };
        let valid = [
            indexed(1 << 40),
            Table { records: 1 << 40, ..keyed.clone() },
            Table { entries: MAX_ENTRIES, ..keyed.clone() },
            Table { payload_bytes: 1 << 30, ..keyed.clone() },
            Table { max_value_bytes: Some(MAX_VALUE_BYTES), ..keyed.clone() },
            Table { key_queries: Some(LEAST_KEY_QUERIES), ..keyed.clone() },
            Table { key_queries: Some(MOST_KEY_QUERIES), ..keyed.clone() },
            table(4096, 40),
            Table { copies: Copies::Three, ..keyed.clone() },
            with_widths(MAX_WIDTHS_WITHOUT_COPIES),
            Table { copies: Copies::Three, ..with_widths(MAX_WIDTHS_WITHOUT_COPIES + 1) },
            Table { types: vec![FieldType::Integer], ..keyed.clone() },
            Table { key_form: Some(hex.clone()), ..keyed.clone() },
        ];
        for table in valid {
            table.validate().unwrap();
        }
        let refused = [
            (indexed(0), "records"),
            (indexed((1 << 40) + 1), "records"),
            (Table { entries: 9, ..indexed(8) }, "rows_per_record entries in each record"),
            (Table { rows_per_record: Some(1), ..indexed(8) }, "rows_per_record must be 2 to 4096"),
            (Table { rows_per_record: Some(2), ..keyed.clone() }, "rows_per_record must be 2 to 4096"),
            (Table { entries: MAX_ENTRIES + 1, ..keyed.clone() }, "2^32"),
            (Table { entries: (1 << 40) + 1, ..keyed.clone() }, "2^40"),
            (Table { payload_bytes: 0, ..keyed.clone() }, "payload_bytes"),
            (Table { payload_bytes: (1 << 30) + 1, ..keyed.clone() }, "payload_bytes"),
            (Table { max_value_bytes: Some(MAX_VALUE_BYTES + 1), ..keyed.clone() }, "max_value_bytes"),
            (Table { key_queries: Some(LEAST_KEY_QUERIES - 1), ..keyed.clone() }, "key_queries"),
            (Table { key_queries: Some(MOST_KEY_QUERIES + 1), ..keyed.clone() }, "key_queries"),
            (Table { fields: Vec::new(), ..indexed(8) }, "fields"),
            (table(4097, 40), "fields"),
            (Table { types: vec![FieldType::Integer; 2], ..keyed.clone() }, "types"),
            (Table { key_form: Some(hex.clone()), ..indexed(8) }, "key_form belongs"),
            (Table { copies: Copies::Three, ..indexed(8) }, "copies belong"),
            (with_widths(MAX_WIDTHS_WITHOUT_COPIES + 1), "at most 65536 buckets"),
            (Table { records: 9, ..with_widths(8) }, "widths must be those of its records"),
            (
                Table { key_form: Some(KeyForm { region: Some("CH".into()), ..hex }), ..keyed.clone() },
                "region",
            ),
        ];
        for (table, named) in refused {
            let wrong = table.validate().unwrap_err().to_string();
            assert!(wrong.contains(named), "{wrong}");
        }
    }

    #[test]
    fn records_of_several_entries_are_buckets() {
        let keyed = table(1, 40);
        let by_position = Table { kind: TableKind::Index, places: None, ..keyed.clone() };
        let widths = Some(Widths::new(vec![1; 4]).unwrap());
        assert!(keyed.has_buckets() && !by_position.has_buckets());
        assert!(Table { rows_per_record: Some(2), ..by_position.clone() }.has_buckets());
        assert!(Table { widths, ..by_position }.has_buckets());
    }

    proptest! {
        #[test]
        fn a_sealed_record_opens_and_a_damaged_one_does_not(
            payload in proptest::collection::vec(any::<u8>(), 1..200), index: u64, flip in 0usize..1 << 20, bit in 0u8..8,
        ) {
            let table = table(1, 200);
            let mut record = table.seal(index, &payload);
            prop_assert_eq!(record.len(), table.record_bytes());
            prop_assert_eq!(&table.unseal(index, &record).unwrap()[..payload.len()], &payload[..]);
            prop_assert!(matches!(table.unseal(index ^ 1, &record), Err(ProtocolError::Corrupted)));
            let at = flip % record.len();
            record[at] ^= 1 << bit;
            prop_assert!(matches!(table.unseal(index, &record), Err(ProtocolError::Corrupted)));
        }

        #[test]
        fn fields_survive(fields in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6)) {
            let joined = join_fields(&fields.iter().map(Vec::as_slice).collect::<Vec<_>>());
            prop_assert_eq!(table(fields.len(), 1).split_fields(&joined).unwrap(), fields);
        }

        #[test]
        fn an_index_payload_is_a_value_or_absent(
            value in proptest::collection::vec(any::<u8>(), 0..300), padding in 0usize..3,
        ) {
            let padded = |mut payload: Vec<u8>| {
                payload.resize(payload.len() + padding, 0);
                payload
            };
            let present = padded(Table::index_payload(&value));
            prop_assert_eq!(Table::index_value(&present).unwrap(), Some(&value[..]));
            let absent = padded(Table::absent_payload());
            prop_assert_eq!(Table::index_value(&absent).unwrap(), None);
        }

        #[test]
        fn any_bytes_are_fields_or_an_error(value: Vec<u8>, fields in 1usize..5) {
            let _ = table(fields, 1).split_fields(&value);
        }
    }
}

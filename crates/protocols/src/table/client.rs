//! The client of a table: makes queries for keys or indices, and decodes the values.

use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::keyword::{KeyHash, TAG_BYTES, find};
use super::rows::find_row;
use super::{Table, TableKind};
use crate::ProtocolError;
use crate::client::AnyIndexClient;
use crate::oblivious::divide;
use crate::steps::check::check_index;

mod fetch;

pub use self::fetch::{FetchState, Fetched};

/// The client of a table over any index protocol.
pub struct TableClient {
    table: Table,
    index: Box<dyn AnyIndexClient>,
}

/// Client's state of a look-up: secrets, which stay in place until they are erased.
pub struct LookupState(FetchState);

/// A wanted entry and the records with its copies.
struct Wanted {
    records: Zeroizing<Vec<u64>>,
    entry: WantedEntry,
}

impl Wanted {
    fn new(records: Zeroizing<Vec<u64>>, entry: WantedEntry) -> Box<Self> {
        Box::new(Self { records, entry })
    }

    /// Creates a wanted entry of a table by position, which has one copy of each.
    fn of_row(record: u64, entry: WantedEntry) -> Box<Self> {
        Self::new(Zeroizing::new(vec![record]), entry)
    }
}

/// The wanted entry of a record.
enum WantedEntry {
    /// The record's only row.
    Row,
    /// The row of this rank.
    RowOfBucket(Zeroizing<u64>),
    /// The entry with this tag.
    Tagged(Zeroizing<[u8; TAG_BYTES]>),
}

impl WantedEntry {
    /// Returns its value in the payload of its record, if it has one.
    fn find(&self, payload: &[u8]) -> Result<Option<Vec<u8>>, ProtocolError> {
        match self {
            Self::Row => Ok(Table::index_value(payload)?.map(<[u8]>::to_vec)),
            Self::RowOfBucket(rank) => find_row(payload, **rank),
            Self::Tagged(tag) => find(payload, tag),
        }
    }
}

impl TableClient {
    /// Creates a client of `table` over `index`.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the numbers of records differ, or the table is invalid.
    pub fn new(table: Table, index: Box<dyn AnyIndexClient>) -> Result<Self, ProtocolError> {
        table.validate()?;
        if index.records() != table.records {
            return Err(ProtocolError::malformed("table", "its records are not the protocol's"));
        }
        Ok(Self { table, index })
    }

    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the client of the index protocol.
    pub fn index(&self) -> &dyn AnyIndexClient {
        &*self.index
    }

    /// Makes a query for each party for the value of `key`.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the table is looked up by index.
    pub fn query_key(
        &self,
        key: &[u8],
        rng: &mut SecretRng,
    ) -> Result<(Vec<Vec<u8>>, LookupState), ProtocolError> {
        self.query(self.entry_of_key(key)?, rng)
    }

    fn entry_of_key(&self, key: &[u8]) -> Result<Box<Wanted>, ProtocolError> {
        let hash = KeyHash::new(&self.table.salt, key);
        let buckets = self
            .table
            .buckets(&hash)
            .ok_or_else(|| ProtocolError::BadRequest("this table has no keys: look up by index".into()))?;
        Ok(Wanted::new(buckets, WantedEntry::Tagged(Zeroizing::new(hash.tag))))
    }

    /// Makes a query for each party for the value at `index`.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the table is looked up by key, or has no such entry.
    pub fn query_index(
        &self,
        index: u64,
        rng: &mut SecretRng,
    ) -> Result<(Vec<Vec<u8>>, LookupState), ProtocolError> {
        self.query(self.entry_of_index(index)?, rng)
    }

    fn entry_of_index(&self, index: u64) -> Result<Box<Wanted>, ProtocolError> {
        if self.table.kind != TableKind::Index {
            return Err(ProtocolError::BadRequest(
                "this table has keys and no positions: look up by key".into(),
            ));
        }
        let Table { entries, widths, rows_per_record, .. } = &self.table;
        let (record, rank) = match (widths, rows_per_record) {
            (None, None) => return Ok(Wanted::of_row(index, WantedEntry::Row)),
            (Some(widths), _) => {
                check_index(index, *entries)?;
                widths.row(index, *entries)
            }
            (None, Some(rows)) => {
                check_index(index, *entries)?;
                divide(index, *rows)
            }
        };
        Ok(Wanted::of_row(record, WantedEntry::RowOfBucket(Zeroizing::new(rank))))
    }

    fn query(
        &self,
        wanted: Box<Wanted>,
        rng: &mut SecretRng,
    ) -> Result<(Vec<Vec<u8>>, LookupState), ProtocolError> {
        let (queries, state) = self.fetch(vec![wanted], rng)?;
        Ok((queries, LookupState(state)))
    }

    /// Decodes the value from the answers of all parties, in order; `None` if the table has no such
    /// key.
    ///
    /// # Errors
    /// [`ProtocolError::Corrupted`] if the record's checksum is wrong, [`ProtocolError::Unproven`]
    /// if its inclusion proof is wrong, [`ProtocolError::Malformed`] if an answer or the record
    /// does not match the table's description. No error means that the key is absent.
    pub fn decode(&self, lookup: LookupState, answers: &[&[u8]]) -> Result<Option<Vec<u8>>, ProtocolError> {
        let fetched = self.decode_fetch(lookup.0, answers)?;
        // A single wanted value is never dropped.
        Ok(fetched.into_iter().next().and_then(Fetched::value))
    }
}

//! The tables of a snapshot for Apple's clients: their layout in the manifest, and their file.
//!
//! The file has the buckets of all use cases, one after another: shard by shard, table by table.
//! `docs/wire/apple.md` describes a bucket; zeros pad each bucket to the bucket length of its
//! shard.

use serde::{Deserialize, Serialize};
use spirea_apple::keyword::{Bucket, Tables};
use spirea_apple::{Set, Shape};
use spirea_protocols::ProtocolError;

/// Maximum number of use cases of a snapshot.
const MAX_USE_CASES: usize = 16;
/// Maximum number of shards of a use case.
pub(crate) const MAX_SHARDS: usize = 1024;
/// Maximum length of a use case's name, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Layout of the tables for Apple's clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppleTables {
    /// Apple's name of the parameter set.
    pub set: String,
    /// The use cases, in the order of the file.
    pub use_cases: Vec<UseCaseEntry>,
}

/// Layout of a use case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseCaseEntry {
    /// Name by which clients ask.
    pub name: String,
    /// Number of keywords with a value.
    pub keywords: u64,
    /// Number of tables of each shard.
    pub tables: usize,
    /// The shards. A keyword's shard number is its hash modulo the number of shards.
    pub shards: Vec<ShardEntry>,
}

/// Layout of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEntry {
    /// Number of buckets of each table.
    pub buckets: usize,
    /// Bytes of a bucket.
    pub bucket_bytes: usize,
}

/// A use case with the content of its tables.
#[derive(Debug)]
pub struct AppleUseCase {
    /// Name by which clients ask.
    pub name: String,
    /// Shape and tables of each shard.
    pub shards: Vec<(Shape, Tables)>,
}

impl AppleTables {
    /// Creates the layout of `use_cases`, and the content of their file. Each use case comes with
    /// its number of keywords.
    pub(crate) fn new(set: Set, use_cases: &[(u64, AppleUseCase)]) -> (Self, Vec<u8>) {
        let mut bytes = Vec::new();
        for (shape, tables) in use_cases.iter().flat_map(|(_, use_case)| &use_case.shards) {
            for bucket in tables.buckets().iter().flatten() {
                let end = bytes.len() + shape.entry_size();
                bytes.extend(bucket.to_bytes());
                bytes.resize(end, 0);
            }
        }
        let shard = |(shape, _): &(Shape, Tables)| ShardEntry {
            buckets: shape.entries(),
            bucket_bytes: shape.entry_size(),
        };
        let entry = |(keywords, use_case): &(u64, AppleUseCase)| UseCaseEntry {
            name: use_case.name.clone(),
            keywords: *keywords,
            tables: use_case.shards.first().map_or(1, |(shape, _)| shape.tables()),
            shards: use_case.shards.iter().map(shard).collect(),
        };
        (Self { set: set.name().into(), use_cases: use_cases.iter().map(entry).collect() }, bytes)
    }

    /// Checks the layout and returns the length of the file, in bytes.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] with the fault.
    pub(crate) fn bytes(&self) -> Result<u64, ProtocolError> {
        let wrong = |detail: String| ProtocolError::Malformed { what: "manifest", detail };
        let set = self.set().map_err(wrong)?;
        if !(1..=MAX_USE_CASES).contains(&self.use_cases.len()) {
            return Err(wrong(format!(
                "apple has {} use cases, not 1 to {MAX_USE_CASES}",
                self.use_cases.len()
            )));
        }
        let mut bytes = 0u64;
        for (i, use_case) in self.use_cases.iter().enumerate() {
            let UseCaseEntry { name, tables, shards, .. } = use_case;
            let is_again = self.use_cases[..i].iter().any(|other| other.name == *name);
            if !valid_use_case(name) || is_again {
                return Err(wrong(format!(
                    "apple has a use case {name:?}, which is no name or is there twice"
                )));
            }
            if !(1..=MAX_SHARDS).contains(&shards.len()) {
                return Err(wrong(format!(
                    "apple.{name} has {} shards, not 1 to {MAX_SHARDS}",
                    shards.len()
                )));
            }
            for shard in shards {
                let shape =
                    shard.shape(set, *tables).map_err(|detail| wrong(format!("apple.{name}: {detail}")))?;
                // The numbers of a shape are bounded, so their product cannot overflow.
                let product = shape.tables() as u64 * shape.entries() as u64 * shape.entry_size() as u64;
                bytes = bytes.saturating_add(product);
            }
        }
        Ok(bytes)
    }

    /// Returns the parameter set.
    ///
    /// # Errors
    /// A message, if the parameter set is unknown.
    pub fn set(&self) -> Result<Set, String> {
        let set = Set::ALL.into_iter().find(|set| set.name() == self.set);
        set.ok_or_else(|| format!("apple.set {:?} is unknown to this software", self.set))
    }

    /// Parses the use cases from `bytes`, the content of their file.
    ///
    /// # Errors
    /// A message that describes the fault.
    pub(crate) fn parse(&self, mut bytes: &[u8]) -> Result<Vec<AppleUseCase>, String> {
        let set = self.set()?;
        let mut use_cases = Vec::new();
        for UseCaseEntry { name, tables, shards, .. } in &self.use_cases {
            let mut parsed = Vec::new();
            for shard in shards {
                let shape = shard.shape(set, *tables)?;
                let mut buckets = vec![Vec::with_capacity(shape.entries()); shape.tables()];
                for table in &mut buckets {
                    for _ in 0..shape.entries() {
                        let (bucket, rest) = bytes
                            .split_at_checked(shape.entry_size())
                            .ok_or_else(|| format!("the buckets of {name} are cut off"))?;
                        table.push(Bucket::from_bytes(bucket).map_err(|error| format!("{name}: {error}"))?);
                        bytes = rest;
                    }
                }
                let tables = Tables::of_buckets(buckets).map_err(|error| format!("{name}: {error}"))?;
                parsed.push((shape, tables));
            }
            use_cases.push(AppleUseCase { name: name.clone(), shards: parsed });
        }
        Ok(use_cases)
    }
}

impl ShardEntry {
    fn shape(&self, set: Set, tables: usize) -> Result<Shape, String> {
        Shape::new(set, tables, self.buckets, self.bucket_bytes).map_err(|error| error.to_string())
    }
}

/// Returns true if a use case may have this name.
pub(crate) fn valid_use_case(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use spirea_apple::Set;
use spirea_protocols::keyword::Copies;
use spirea_protocols::registry::Choice;
use spirea_protocols::table::{FieldType, KeyForm, MAX_VALUE_BYTES};

use super::draws::Draws;
use super::prove::Proving;
use crate::StoreError;
use crate::expected_rows::ExpectedRows;
use crate::ingest::{Files, Format, RowSource, RowTable, Selection};
use crate::manifest::{NAME_RULE, valid_name};

/// Treatment of an existing target of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// Keep it and fail.
    #[default]
    Refuse,
    /// Replace it, if it is a snapshot, once the new one is complete.
    Replace,
}

/// Treatment of keys that occur in several rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// The table is refused; the error names the keys and their rows.
    #[default]
    Refuse,
    /// The first row, in the order of the input, is stored.
    First,
    /// The last row, in the order of the input, is stored.
    Last,
}

impl FromStr for Duplicates {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "refuse" => Ok(Self::Refuse),
            "first" => Ok(Self::First),
            "last" => Ok(Self::Last),
            _ => {
                Err("of a key in several rows, the table is refused or a row is taken: refuse, first or last"
                    .into())
            }
        }
    }
}

/// The protocol of a snapshot.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// A fixed choice.
    Named(Choice),
    /// A choice made once the table's records are known.
    Chosen(Arc<dyn Chooser>),
}

/// Chooses the protocol of a table.
pub trait Chooser: fmt::Debug + Send + Sync {
    /// Chooses a protocol for `records` records of `record_bytes` bytes each.
    ///
    /// # Errors
    /// [`StoreError::Protocol`] if none fits; [`StoreError::BadOption`] if the data on which the
    /// choice depends is missing.
    fn choose(&self, records: u64, record_bytes: usize) -> Result<Choice, StoreError>;
}

/// Maximum length of a table's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueLimit {
    /// This number of bytes.
    Given(usize),
    /// The length of the longest value from which the table is built, and at least
    /// [`ValueLimit::LEAST`].
    Longest,
}

impl ValueLimit {
    /// Minimum of the default limit, in bytes. Changes may add values of this length even if all
    /// values of the input are shorter. Such values do not make the records of any table large.
    const LEAST: usize = 4 << 10;

    /// Returns the maximum length of a value while the table is built, in bytes.
    pub(super) fn most(self) -> usize {
        match self {
            Self::Given(bytes) => bytes,
            Self::Longest => MAX_VALUE_BYTES,
        }
    }

    /// Returns the limit to store in a table whose longest value has `longest` bytes.
    pub(super) fn of_table(self, longest: usize) -> usize {
        match self {
            Self::Given(bytes) => bytes,
            Self::Longest => longest.max(Self::LEAST),
        }
    }
}

/// Input of a build.
#[derive(Clone, Debug)]
pub enum Input {
    /// Files. Pipes can be read only once, so their content is kept on disk until the table is
    /// built.
    Files(Files),
    /// Rows outside of files.
    Rows(Arc<dyn RowTable>),
}

/// Tables of caller ID to build for Apple's clients.
#[derive(Clone, Debug)]
pub struct AppleOptions {
    /// Bundle identifier of the application's extension. The use cases are its name followed by
    /// `.identity` and `.block`.
    pub bundle: String,
    /// Parameter set.
    pub set: Set,
    /// Number of shards of each use case. A query shows its shard, and costs as much as one shard.
    pub shards: usize,
}

/// Options of a build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Input of the table.
    pub input: Input,
    /// The columns; a table without a key column is looked up by position.
    pub selection: Selection,
    /// Treatment of keys that occur in several rows.
    pub duplicates: Duplicates,
    /// Folder of the snapshot.
    pub out: PathBuf,
    /// Name of the dataset; `None` uses the name of the folder.
    pub name: Option<String>,
    /// The protocol and its parameter sets.
    pub protocol: Protocol,
    /// Maximum length of a value, now and in changes, in bytes; `None` uses the length of the
    /// longest value, and at least 4 KiB.
    pub max_value: Option<usize>,
    /// Inclusion proofs of the records. By default, records carry proofs only where a lying server
    /// could otherwise combine the answers of several queries under one registered key: under
    /// `onion`, and under `hybrid` with several groups.
    pub proving: Option<Proving>,
    /// Types of fields; they override the types that the input gives.
    pub types: Vec<(String, FieldType)>,
    /// Form of the keys; `None` for plain bytes.
    pub key_form: Option<KeyForm>,
    /// Maximum number of queries under one set of registered keys, 64 to 1024; 1024 if `None`.
    pub key_queries: Option<u64>,
    /// Copies of each entry of a table with keys; three need a protocol with bins.
    pub copies: Copies,
    /// Number of rows that the input must have, if known.
    pub expected_rows: Option<ExpectedRows>,
    /// Tables of the same data for Apple's clients, if any.
    pub apple: Option<AppleOptions>,
    /// Treatment of an existing folder.
    pub overwrite: Overwrite,
    /// Seed of the public matrix, the table's salt and the entries' places, for reproducible
    /// builds; `None` draws them at random. An attacker who knows the seed before the table is made
    /// can choose keys that fall into one bucket.
    pub seed: Option<[u8; 32]>,
}

impl BuildOptions {
    /// Creates options for a build of the file `input` into `out`, with defaults for the rest.
    pub fn new(
        input: impl Into<PathBuf>,
        format: Format,
        selection: Selection,
        out: impl Into<PathBuf>,
    ) -> Self {
        Self::of(Input::Files(Files::one(input, format)), selection, out)
    }

    /// Creates options for a build of `input` into `out`, with defaults for the rest.
    pub fn of(input: Input, selection: Selection, out: impl Into<PathBuf>) -> Self {
        Self {
            input,
            selection,
            duplicates: Duplicates::default(),
            out: out.into(),
            name: None,
            protocol: Protocol::Named(Choice::default()),
            max_value: None,
            proving: None,
            types: Vec::new(),
            key_form: None,
            key_queries: None,
            copies: Copies::One,
            expected_rows: None,
            apple: None,
            overwrite: Overwrite::default(),
            seed: None,
        }
    }

    /// Returns the dataset's name.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] if the name is not valid for a dataset.
    pub(super) fn name(&self) -> Result<String, StoreError> {
        let folder = || self.out.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = self.name.clone().or_else(folder).unwrap_or_default();
        match valid_name(&name) {
            true => Ok(name),
            false => {
                Err(StoreError::BadOption(format!("{name:?} cannot name a dataset: give --name {NAME_RULE}")))
            }
        }
    }

    /// Opens the input, unless it can be read only once.
    pub(super) fn open_at_once(&self) -> Result<Option<Box<dyn RowSource + '_>>, StoreError> {
        let reads_once = matches!(&self.input, Input::Files(files) if files.read_once());
        (!reads_once).then(|| self.open(&self.input)).transpose()
    }

    /// Returns the input, with copies in `folder` of files that can be read only once: some formats
    /// need random access, and refused rows are read again.
    pub(super) fn input_in(&self, folder: &Path) -> Result<Input, StoreError> {
        Ok(match &self.input {
            Input::Files(files) => Input::Files(files.kept_in(folder)?),
            Input::Rows(table) => Input::Rows(Arc::clone(table)),
        })
    }

    /// Opens the rows of the input or of its copy.
    pub(super) fn open<'i>(&self, input: &'i Input) -> Result<Box<dyn RowSource + 'i>, StoreError> {
        match input {
            Input::Files(files) => {
                let parent = self.out.parent().filter(|parent| !parent.as_os_str().is_empty());
                Ok(files.open_in(parent.unwrap_or(Path::new(".")), &self.selection)?)
            }
            Input::Rows(table) => table.open(&self.selection),
        }
    }

    /// Returns the input's name in messages.
    pub(super) fn input_name(&self) -> PathBuf {
        match &self.input {
            Input::Files(files) => files.name().into(),
            Input::Rows(table) => table.name().into(),
        }
    }

    /// Returns the maximum length of the table's values.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] above [`MAX_VALUE_BYTES`].
    pub(super) fn value_limit(&self) -> Result<ValueLimit, StoreError> {
        match self.max_value {
            None => Ok(ValueLimit::Longest),
            Some(bytes) if bytes <= MAX_VALUE_BYTES => Ok(ValueLimit::Given(bytes)),
            Some(bytes) => Err(StoreError::BadOption(format!(
                "--max-value is {bytes} bytes, above the limit of {MAX_VALUE_BYTES} of any table"
            ))),
        }
    }

    /// Returns the source of the build's public random values.
    pub(super) fn draws(&self) -> Draws {
        self.seed.map_or(Draws::System, Draws::Derived)
    }
}

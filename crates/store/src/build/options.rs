use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use spirea_protocols::registry::Choice;
use spirea_protocols::table::{FieldType, KeyForm, MAX_VALUE_BYTES};

use super::draws::Draws;
use super::prove::Proving;
use crate::StoreError;
use crate::expected_rows::ExpectedRows;
use crate::ingest::{Files, Format, RowSource, RowTable, Selection};
use crate::manifest::{NAME_RULE, valid_name};

/// What to do if the target of a build exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// Leave it and fail.
    #[default]
    Refuse,
    /// Replace it, if it is a snapshot, when the new one is complete.
    Replace,
}

/// Treatment of keys that stand in several rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// The table is refused, with the keys and their rows named.
    #[default]
    Refuse,
    /// The first row is taken, in the order of the input.
    First,
    /// The last row is taken, in the order of the input.
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
    /// This one.
    Named(Choice),
    /// The one that is chosen when the table's records are known.
    Chosen(Arc<dyn Chooser>),
}

/// Chooses the protocol of a table.
pub trait Chooser: fmt::Debug + Send + Sync {
    /// The choice for so many records of so many bytes each.
    ///
    /// # Errors
    /// [`StoreError::Protocol`] if none fits; [`StoreError::BadOption`] if what it chooses by cannot be had.
    fn choose(&self, records: u64, record_bytes: usize) -> Result<Choice, StoreError>;
}

/// How long a table's values may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueLimit {
    /// So many bytes.
    Given(usize),
    /// As many as the longest of those that the table is built from has, and [`ValueLimit::LEAST`] in any case.
    Longest,
}

impl ValueLimit {
    /// Bytes up to which a value may be longer than all values of the input, unless the operator says otherwise: so
    /// long a value does not make the records of any table large.
    const LEAST: usize = 4 << 10;

    /// The most bytes of a value that is taken while the table is built.
    pub(super) fn most(self) -> usize {
        match self {
            Self::Given(bytes) => bytes,
            Self::Longest => MAX_VALUE_BYTES,
        }
    }

    /// What a table says of the values that it takes, whose longest has so many bytes.
    pub(super) fn of_table(self, longest: usize) -> usize {
        match self {
            Self::Given(bytes) => bytes,
            Self::Longest => longest.max(Self::LEAST),
        }
    }
}

/// What a table is built from.
#[derive(Clone, Debug)]
pub enum Input {
    /// Files. Pipes can be read only once: their content is kept on disk until the table is built.
    Files(Files),
    /// Rows that lie in no file.
    Rows(Arc<dyn RowTable>),
}

/// What to build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// From what.
    pub input: Input,
    /// The columns; a table without a key column is looked up by position.
    pub selection: Selection,
    /// Treatment of keys that stand in several rows.
    pub duplicates: Duplicates,
    /// The snapshot's folder.
    pub out: PathBuf,
    /// Name of the dataset; that of the folder if `None`.
    pub name: Option<String>,
    /// The protocol and its parameter sets.
    pub protocol: Protocol,
    /// The most bytes of a value, now and in changes; those of the longest and at least 4 KiB if `None`.
    pub max_value: Option<usize>,
    /// Inclusion proofs of the records. By default records carry them if a lying server could combine the answers of
    /// several queries under one registered key otherwise: under `onion`, and under `hybrid` with several groups.
    pub proving: Option<Proving>,
    /// Types of fields, where the input does not tell them or tells others.
    pub types: Vec<(String, FieldType)>,
    /// The form of the keys; the bytes that they are if `None`.
    pub key_form: Option<KeyForm>,
    /// Most queries under one set of registered keys, 64 to 1024; 1024 if `None`.
    pub key_queries: Option<u64>,
    /// The number of rows that the input must have, if that is known.
    pub expected_rows: Option<ExpectedRows>,
    /// What to do if the folder exists.
    pub overwrite: Overwrite,
    /// Derives the public matrix, the table's salt and where entries lie, for a build that repeats itself; drawn at
    /// random if `None`. Whoever knows it before the table is made can choose keys that fall into one bucket.
    pub seed: Option<[u8; 32]>,
}

impl BuildOptions {
    /// A build of the file `input` into `out` with defaults for the rest.
    pub fn new(
        input: impl Into<PathBuf>,
        format: Format,
        selection: Selection,
        out: impl Into<PathBuf>,
    ) -> Self {
        Self::of(Input::Files(Files::one(input, format)), selection, out)
    }

    /// A build of `input` into `out` with defaults for the rest.
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
            expected_rows: None,
            overwrite: Overwrite::default(),
            seed: None,
        }
    }

    /// The dataset's name.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] if it cannot name one.
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

    /// The rows of the input, unless it can be read only once.
    pub(super) fn open_at_once(&self) -> Result<Option<Box<dyn RowSource + '_>>, StoreError> {
        let reads_once = matches!(&self.input, Input::Files(files) if files.read_once());
        (!reads_once).then(|| self.open(&self.input)).transpose()
    }

    /// The input, with copies in `folder` of files that can be read only once: formats are read at any place, and refused rows
    /// are read again.
    pub(super) fn input_in(&self, folder: &Path) -> Result<Input, StoreError> {
        Ok(match &self.input {
            Input::Files(files) => Input::Files(files.kept_in(folder)?),
            Input::Rows(table) => Input::Rows(Arc::clone(table)),
        })
    }

    /// The rows of the input, or of its copy.
    pub(super) fn open<'i>(&self, input: &'i Input) -> Result<Box<dyn RowSource + 'i>, StoreError> {
        match input {
            Input::Files(files) => {
                let parent = self.out.parent().filter(|parent| !parent.as_os_str().is_empty());
                Ok(files.open_in(parent.unwrap_or(Path::new(".")), &self.selection)?)
            }
            Input::Rows(table) => table.open(&self.selection),
        }
    }

    /// What the input is called in messages.
    pub(super) fn input_name(&self) -> PathBuf {
        match &self.input {
            Input::Files(files) => files.name().into(),
            Input::Rows(table) => table.name().into(),
        }
    }

    /// How long the table's values may be.
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

    /// Where the build's public random values come from.
    pub(super) fn draws(&self) -> Draws {
        self.seed.map_or(Draws::System, Draws::Derived)
    }
}

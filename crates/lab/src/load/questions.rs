//! Questions, and the right answers if these are known.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use chacha20::ChaCha20Rng;
use clap::Args;
use rand_core::{Rng as _, SeedableRng as _};
use spirea_client::{ClientError, Round, Session};
use spirea_console::input::InputOptions;
use spirea_protocols::{Table, TableKind};
use spirea_store::ingest::{Row, Selection};

/// Maximum number of rows of a table to ask for, sampled from all rows.
const SAMPLE: usize = 100_000;

/// Source of questions and right answers.
#[derive(Args)]
pub struct Source {
    /// Ask for the keys in this file, one a line. The values are not known, so a wrong answer is
    /// detected only if it fails its checksum.
    #[arg(long, value_name = "FILE", conflicts_with = "expect")]
    keys: Option<PathBuf>,
    /// The table that the database was built from, as for `spirea build --input`: its rows are
    /// looked up, and every answer is compared. Give several tables for versions that take turns:
    /// an answer is right if one of the tables has it.
    #[arg(long, value_name = "FILE")]
    expect: Vec<PathBuf>,
    /// Column of the keys, as for `spirea build`.
    #[arg(long, requires = "expect")]
    key: Option<String>,
    /// Columns of the values, as for `spirea build`.
    #[arg(long, num_args = 1.., requires = "expect")]
    value: Vec<String>,
    #[command(flatten)]
    file: InputOptions,
}

/// Fields of a value; `None` if a key has no value.
type Fields = Option<Vec<Vec<u8>>>;

/// Item to look up.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Ask {
    /// A key.
    Key(Vec<u8>),
    /// A position.
    Index(u64),
}

impl Ask {
    /// Makes the requests.
    pub fn round(&self, session: &mut Session) -> Result<Round, ClientError> {
        match self {
            Self::Key(key) => session.query_keys(&[key]),
            Self::Index(index) => session.query_indices(&[*index]),
        }
    }
}

/// A look-up and its right answers.
pub struct Question {
    /// Item to look up.
    pub ask: Ask,
    /// Right answers; empty if they are not known.
    right: Vec<Fields>,
}

/// Set of questions.
pub enum Questions {
    /// A list of questions.
    Listed(Vec<Question>),
    /// Any row of a table without keys; the values are not known.
    Indices(u64),
}

impl Questions {
    /// Reads the questions of `source` for a table.
    pub fn open(source: &Source, table: &Table, seed: u64) -> anyhow::Result<Self> {
        let questions = match (&source.keys, source.expect.split_first(), table.kind) {
            (Some(path), ..) => {
                ensure!(
                    table.kind == TableKind::Keyword,
                    "--keys: this table has no keys; leave the option away"
                );
                let text =
                    std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
                let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
                let keys = lines.filter(|line| !line.is_empty());
                keys.map(|key| Question { ask: Ask::Key(key.into()), right: Vec::new() }).collect()
            }
            (None, Some((first, others)), kind) => {
                ensure!(
                    source.key.is_some() == (kind == TableKind::Keyword),
                    "--key: the database's values are found {}",
                    if kind == TableKind::Keyword {
                        "by key: name its column"
                    } else {
                        "by position: omit it"
                    }
                );
                source.tables(first, others, seed)?
            }
            (None, None, TableKind::Index) => return Ok(Self::Indices(table.entries)),
            (None, None, TableKind::Keyword) => {
                bail!(
                    "this table has keys: give some with --keys FILE, or the whole table with --expect FILE"
                )
            }
        };
        ensure!(!questions.is_empty(), "there is no row or key to ask for");
        Ok(Self::Listed(questions))
    }

    /// Draws a look-up; returns also the number of the listed question.
    pub fn draw(&self, rng: &mut impl rand_core::Rng) -> (Ask, Option<usize>) {
        match self {
            Self::Listed(questions) => {
                let which = (rng.next_u64() % questions.len() as u64) as usize;
                (questions[which].ask.clone(), Some(which))
            }
            Self::Indices(records) => (Ask::Index(rng.next_u64() % records), None),
        }
    }

    /// Returns true for a right answer to a question; `None` if the right answers are not known.
    pub fn check(&self, which: Option<usize>, fields: &Fields) -> Option<bool> {
        let Self::Listed(questions) = self else { return None };
        let right = &questions[which?].right;
        (!right.is_empty()).then(|| right.contains(fields))
    }

    /// True if the right answers are known.
    pub fn known(&self) -> bool {
        matches!(self, Self::Listed(questions) if !questions[0].right.is_empty())
    }
}

impl Source {
    /// Reads a sample of rows of the first table, with their values in each of the tables.
    fn tables(&self, first: &Path, others: &[PathBuf], seed: u64) -> anyhow::Result<Vec<Question>> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let (mut questions, mut rows) = (Vec::new(), 0u64);
        self.each_row(first, |ask, fields| {
            let question = || Question { ask, right: vec![Some(fields)] };
            rows += 1;
            if questions.len() < SAMPLE {
                questions.push(question());
                return;
            }
            // Reservoir sampling (Vitter's algorithm R): every row is equally likely in the sample.
            if let Some(place) = questions.get_mut((rng.next_u64() % rows) as usize) {
                *place = question();
            }
        })?;
        for path in others {
            let mut values: HashMap<Ask, Fields> =
                questions.iter().map(|question| (question.ask.clone(), None)).collect();
            self.each_row(path, |ask, fields| {
                if let Some(value) = values.get_mut(&ask) {
                    *value = Some(fields);
                }
            })?;
            for question in &mut questions {
                question.right.extend(values.remove(&question.ask));
            }
        }
        Ok(questions)
    }

    fn each_row(&self, path: &Path, mut take: impl FnMut(Ask, Vec<Vec<u8>>)) -> anyhow::Result<()> {
        let (key, values, nulls) = (self.key.clone(), self.value.clone(), self.file.nulls);
        let mut source = self.file.files(&[path.into()])?.open(&Selection { key, values, nulls })?;
        let (mut row, mut index) = (Row::default(), 0);
        while source.next(&mut row)? {
            let ask = row.key().map_or(Ask::Index(index), |key| Ask::Key(key.into()));
            take(ask, row.fields().map(<[u8]>::to_vec).collect());
            index += 1;
        }
        Ok(())
    }
}

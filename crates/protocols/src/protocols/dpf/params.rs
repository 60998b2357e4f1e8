//! Parameters: the function, the type of a share, and the positions of records.

use serde::{Deserialize, Serialize};
use spirea_backend::{MAX_KEYS, RowLayout};
use spirea_dpf::{Domain, OutputKind, PrfKind};

use crate::bins::Bins;
use crate::choice::MAX_BINS;
use crate::choice::{Choice, Words};
use crate::grid::{Grid, Spread};
use crate::parameters::{Failure, FirstFold, Parameters, Profile, Sets, Stored};
use crate::steps::hint::exact_bits;
use crate::steps::{Unit, Work};
use crate::{ProtocolError, Sizes};

/// Type of shares: the values of [`OutputKind`] that a protocol allows.
pub trait Shares: Copy + PartialEq + Send + Sync + 'static {
    /// The protocol's name.
    const PROTOCOL: &'static str;

    /// Returns the type of shares that a choice selects.
    fn chosen(choice: &Choice) -> Self;

    /// Writes this type into a choice.
    fn choose(self, choice: Choice) -> Choice;

    /// Returns the output kind of the point functions.
    fn output(self) -> OutputKind;
}

/// Shares of `dpf-xor`: bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bits {
    /// A share is a bit.
    #[default]
    Bit,
}

impl Shares for Bits {
    const PROTOCOL: &'static str = "dpf-xor";

    fn chosen(_: &Choice) -> Self {
        Self::Bit
    }

    fn choose(self, choice: Choice) -> Choice {
        choice
    }

    fn output(self) -> OutputKind {
        OutputKind::Bit
    }
}

impl Shares for Words {
    const PROTOCOL: &'static str = "dpf-sum";

    fn chosen(choice: &Choice) -> Self {
        choice.words
    }

    fn choose(self, choice: Choice) -> Choice {
        Choice { words: self, ..choice }
    }

    fn output(self) -> OutputKind {
        match self {
            Self::U32 => OutputKind::U32,
            Self::U64 => OutputKind::U64,
        }
    }
}

/// Parameters of a database under `dpf-xor`.
pub type XorParams = Params<Bits>;
/// Parameters of a database under `dpf-sum`.
pub type SumParams = Params<Words>;

/// Parameters of a database that two servers hold. Public, and part of a snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params<S> {
    /// The pseudorandom function.
    pub prf: PrfKind,
    /// Type of shares.
    pub shares: S,
    /// Positions of the records: a unit is a row, and a column has one unit.
    pub grid: Grid,
    /// Number of bins. All bins have the same number of consecutive rows, so rows without records
    /// may follow the last record. A query has a key for each bin. Omitted in JSON if 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub bins: usize,
}

fn one() -> usize {
    1
}

fn is_one(bins: &usize) -> bool {
    *bins == 1
}

impl<S: Shares> Params<S> {
    /// Maximum bytes of a batch's answers, and of a query for several bins.
    const MAX_BYTES: usize = 64 << 20;
    /// Returns the number of rows of a bin.
    pub fn bin_rows(&self) -> usize {
        self.grid.columns / self.bins
    }

    /// Returns the bins of records, without bins that have no records.
    pub fn record_bins(&self) -> Bins {
        let bin_records = self.bin_rows() as u64 * self.grid.records_per_unit() as u64;
        Bins::consecutive(self.grid.records, bin_records)
    }

    /// Returns the domain of the point functions: a point for each row of a bin.
    ///
    /// # Panics
    /// If the parameters have not been validated.
    pub fn domain(&self) -> Domain {
        self.checked_domain().expect("validated parameters have a domain")
    }

    fn checked_domain(&self) -> Result<Domain, ProtocolError> {
        Domain::new(self.bin_rows() as u64, self.shares.output())
            .map_err(|error| ProtocolError::malformed("parameters", error.to_string()))
    }

    /// Returns the layout of the rows.
    ///
    /// # Panics
    /// If the parameters have not been validated.
    pub fn layout(&self) -> RowLayout {
        self.checked_layout().expect("validated parameters have a layout")
    }

    fn checked_layout(&self) -> Result<RowLayout, ProtocolError> {
        RowLayout::new(self.grid.columns, self.grid.unit_rows, self.grid.parts())
            .and_then(|layout| layout.in_bins(self.bins))
            .map_err(|error| ProtocolError::malformed("parameters", error.to_string()))
    }

    /// Returns the maximum number of queries in one call of the backend.
    pub fn max_batch(&self) -> usize {
        (Self::MAX_BYTES / self.sizes().answer_bytes).clamp(1, MAX_KEYS)
    }

    /// Returns the sizes of queries, answers, hint and keys in bytes.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            // Saturates instead of overflowing on any word size, because the parameters may not be
            // validated yet.
            query_bytes: self.bins.saturating_mul(self.domain().key_bytes()),
            answer_bytes: self.bins.saturating_mul(self.layout().answer_bytes()),
            hint_bytes: 0,
            keys_bytes: 0,
        }
    }

    /// Returns the server's work for one query.
    fn work(&self) -> Vec<Work> {
        let (layout, output) = (self.layout(), self.shares.output());
        vec![
            Work::new("share_fold", Unit::SharedRow(output), layout.rows() * layout.parts()),
            Work::new("share_fold", Unit::SharedByte(output), layout.bytes()),
        ]
    }

    /// Returns the names of the functions.
    fn set(&self) -> String {
        let functions = format!("{}, {}", self.prf, self.shares.output().name());
        if self.bins == 1 { functions } else { format!("{functions}, {} bins", self.bins) }
    }
}

/// Returns the number of bytes of a row's word.
pub(super) fn word_bytes<S: Shares>(shares: S) -> usize {
    shares.output().bits().div_ceil(8) as usize
}

impl<S: Shares> Parameters for Params<S> {
    fn validate(&self) -> Result<(), ProtocolError> {
        let wrong = |detail: &str| Err(ProtocolError::malformed("parameters", detail));
        self.grid.validate(Spread::Rows)?;
        if self.grid.groups != 1 {
            return wrong("rows have one group");
        }
        if self.bins == 0 || self.bins > MAX_BINS || !self.grid.columns.is_multiple_of(self.bins) {
            return wrong("there must be 1 to 2^16 bins of as many rows each");
        }
        self.checked_domain()?;
        let layout = self.checked_layout()?;
        if !layout.row_bytes().is_multiple_of(word_bytes(self.shares)) {
            return wrong("rows must be whole words");
        }
        let Sizes { query_bytes, answer_bytes, .. } = self.sizes();
        if self.bins > 1 && query_bytes.max(answer_bytes) > Self::MAX_BYTES {
            return wrong("the keys and the records of all bins must have at most 64 MiB each");
        }
        Ok(())
    }

    fn profile(&self) -> Profile {
        let (layout, grid) = (self.layout(), self.grid);
        Profile {
            name: S::PROTOCOL,
            set: self.set(),
            parties: 2,
            grid,
            bins: self.bins,
            stored: Stored::Units { grid },
            first_fold: FirstFold::Rows { layout, prf: self.prf, domain: self.domain(), bins: self.bins },
            // There is no lattice. Privacy rests on the secret bits of a key's seed.
            sets: Sets { lwe: None, ring: None },
            security_bits: 127.0,
            key_shape: None,
            key_delivery: None,
            combined_answer_bits: 0.0,
            sizes: self.sizes(),
            hint_bits: exact_bits(),
            hint_determines_records: false,
            server_bytes: 0,
            memory_bytes: layout.bytes() as u64,
            work: self.work(),
            failure: None,
            worst_failure: None,
        }
    }

    /// Returns `None`: without noise, a record never decodes incorrectly.
    fn exceedance(&self, _: f64) -> Option<Failure> {
        None
    }
}

//! Parameters: the set, the shape, and the positions of records.

use serde::{Deserialize, Serialize};
use spirea_backend::{MAX_BATCH, PANEL_ROWS, PanelLayout, RING_DEGREE};
use spirea_lattice::noise::{self, HintRounding};
use spirea_lattice::{LweSet, PublicMatrix};
use spirea_math::random::Seed;

use crate::choice::HintForm;
use crate::grid::{Grid, MAX_SIDE, Spread};
use crate::parameters::{Failure, Parameters, Sets, Stored};
use crate::steps::hint::{exact_bits, is_exact, validate_bits};
use crate::steps::query::QueryLayout;
use crate::steps::scalar_fold::{ROUNDED_BITS, ROUNDED_BYTES};
use crate::steps::{Unit, Work};
use crate::table::hint_rows::HintRows;
use crate::{ProtocolError, Sizes};

/// Parameters of a database under SimplePIR. Public, and part of a snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Name of the LWE set.
    pub set: String,
    /// Seed of the public matrix.
    #[serde(with = "crate::hex")]
    pub seed: Seed,
    /// Number of records.
    pub records: u64,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Rows of the matrix, a multiple of 32.
    pub rows: usize,
    /// Columns of the matrix, a multiple of 256.
    pub columns: usize,
    /// Number of upper bits of each word of the hint; 32, the default, if it is not rounded.
    #[serde(default = "exact_bits", skip_serializing_if = "is_exact")]
    pub hint_bits: u32,
}

impl Params {
    /// Maximum bound on the probability that a record decodes incorrectly, as log2.
    pub const MAX_FAILURE_LOG2: f64 = -60.0;
    /// Maximum number of columns of one record.
    pub const MAX_RECORD_COLUMNS: usize = 64;
    /// Maximum number of columns of a matrix, limited by the failure bound.
    pub(super) const MAX_COLUMNS: usize = 1 << 20;

    /// Returns the LWE set.
    ///
    /// # Panics
    /// If the parameters have not been validated.
    pub fn lwe_set(&self) -> LweSet {
        LweSet::by_name(&self.set).expect("validated parameters name a set")
    }

    /// Returns the public matrix.
    ///
    /// # Panics
    /// If the parameters have not been validated.
    pub fn public_matrix(&self) -> PublicMatrix {
        PublicMatrix::new(self.lwe_set(), self.seed, self.columns)
    }

    /// Returns the layout of the stored matrix.
    ///
    /// # Panics
    /// If the parameters have not been validated.
    pub fn layout(&self) -> PanelLayout {
        PanelLayout::covering(self.rows, self.columns).expect("validated parameters have a layout")
    }

    /// Returns log2 of a bound on the probability that an error exceeds the fraction `share` of the
    /// tolerated error, for every database. The hint has `hint_bits` bits a word.
    fn exceedance_log2(&self, hint_bits: u32, share: f64) -> f64 {
        let hint = HintRounding { entries: self.lwe_set().degree(), bits: hint_bits };
        noise::exceedance_log2(self.columns, hint, ROUNDED_BITS, self.record_bytes, share)
    }

    /// Returns the parameters with the bits of a hint of this form.
    pub(super) fn with_hint(self, form: HintForm) -> Self {
        let hint_bits = form.bits(Self::MAX_FAILURE_LOG2, |bits| self.exceedance_log2(bits, 1.0));
        Self { hint_bits, ..self }
    }

    /// Returns the layout of a query's bytes.
    pub(super) fn query_layout(&self) -> QueryLayout {
        let first = self.record_columns() * self.columns;
        QueryLayout { first, dropped_bits: 0, second: 0, ciphertext: 0 }
    }

    /// Returns the number of columns that a record takes, which is the number of encrypted unit
    /// vectors in a query.
    pub fn record_columns(&self) -> usize {
        self.record_bytes.div_ceil(self.rows)
    }

    /// Returns the number of records that share a column.
    pub fn records_per_column(&self) -> usize {
        (self.rows / self.record_bytes).max(1)
    }

    /// Returns the maximum number of queries in one call of the backend.
    pub fn max_batch(&self) -> usize {
        MAX_BATCH / self.record_columns()
    }

    /// Returns the offset in the stored matrix of byte `byte` of record `index`.
    ///
    /// # Panics
    /// If the parameters have not been validated.
    pub fn offset(&self, index: u64, byte: usize) -> usize {
        self.stored().offset(index, byte) as usize
    }
}

impl Parameters for Params {
    fn name(&self) -> &'static str {
        "simple"
    }

    fn set(&self) -> String {
        self.set.clone()
    }

    fn stored(&self) -> Stored {
        Stored::Panels { layout: self.layout(), grid: self.grid(), spread: Spread::Columns }
    }

    fn grid(&self) -> Grid {
        let Self { records, record_bytes, rows, columns, .. } = *self;
        Grid { records, record_bytes, unit_rows: rows, groups: 1, columns }
    }

    fn server_bytes(&self) -> u64 {
        0
    }

    fn validate(&self) -> Result<(), ProtocolError> {
        let wrong = |detail: String| Err(ProtocolError::malformed("parameters", detail));
        if LweSet::by_name(&self.set).is_none() {
            let known = LweSet::ALL.map(LweSet::name).join(", ");
            return wrong(format!("no LWE set is called {:?}; there are {known}", self.set));
        }
        if self.rows == 0 || !self.rows.is_multiple_of(PANEL_ROWS) {
            return wrong(format!("rows must be a positive multiple of {PANEL_ROWS}"));
        }
        if self.columns == 0 || !self.columns.is_multiple_of(RING_DEGREE) || self.columns > Self::MAX_COLUMNS
        {
            return wrong(format!(
                "columns must be a positive multiple of {RING_DEGREE} up to {}",
                Self::MAX_COLUMNS
            ));
        }
        if self.rows as u128 > MAX_SIDE || PanelLayout::covering(self.rows, self.columns).is_err() {
            return wrong("the matrix is larger than any this software holds".into());
        }
        validate_bits(self.hint_bits)?;
        if self.record_bytes == 0 || self.record_bytes.div_ceil(self.rows) > Self::MAX_RECORD_COLUMNS {
            return wrong(format!("a record must take between 1 and {} columns", Self::MAX_RECORD_COLUMNS));
        }
        let capacity = (self.columns / self.record_columns()) as u128 * self.records_per_column() as u128;
        if self.records == 0 || u128::from(self.records) > capacity {
            return wrong(format!("the matrix holds {capacity} records, not {}", self.records));
        }
        if let Some(failure) = self.failure().filter(|failure| failure.log2 > Self::MAX_FAILURE_LOG2) {
            return wrong(format!(
                "a record would decode wrongly with probability up to {failure}, above 2^-60"
            ));
        }
        Ok(())
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            query_bytes: self.query_layout().bytes(),
            answer_bytes: self.record_columns() * self.rows * (ROUNDED_BYTES),
            hint_bytes: self.rows as u64 * HintRows::of(self.lwe_set(), self.hint_bits).row_bytes() as u64,
            keys_bytes: 0,
        }
    }

    /// Compares equations and unknowns: for each row of the matrix, the hint gives n equations in
    /// `columns` unknowns.
    fn hint_determines_records(&self) -> bool {
        self.columns <= self.lwe_set().degree()
    }

    fn work(&self) -> Vec<Work> {
        vec![Work::new("scalar_fold", Unit::ScannedByte, self.rows * self.columns * self.record_columns())]
    }

    fn memory_bytes(&self) -> u64 {
        self.layout().bytes() as u64
    }

    fn hint_bits(&self) -> u32 {
        self.hint_bits
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        Some(Failure::bound(self.exceedance_log2(self.hint_bits, share)))
    }

    fn sets(&self) -> Sets {
        Sets { lwe: Some(self.lwe_set()), ring: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Choice;
    use crate::protocol::Protocol as _;
    use proptest::prelude::*;

    fn chosen(records: u64, record_bytes: usize) -> Params {
        Params::choose(&Choice::default(), Seed::default(), records, record_bytes).unwrap()
    }

    proptest! {
        #[test]
        fn chosen_shapes_are_valid_and_waste_little(records in 1u64..1 << 24, log_bytes in 0u32..21, jitter in 0usize..1000) {
            let record_bytes = ((1usize << log_bytes) + jitter * (1 << log_bytes) / 1000).max(9);
            prop_assume!(u128::from(records) * (record_bytes as u128) < 1 << 36);
            let params = chosen(records, record_bytes);
            prop_assert!(params.validate().is_ok());
            let (stored, raw) = ((params.rows * params.columns) as f64, records as f64 * record_bytes as f64);
            // A matrix has at least one panel and one block of columns; a large matrix wastes
            // little.
            prop_assert!(stored <= 1.3 * raw + 8192.0 + 32.0 * 64.0 * params.columns as f64 + 256.0 * params.rows as f64, "{params:?}");
        }

        #[test]
        fn records_do_not_overlap(records in 1u64..400, record_bytes in 1usize..700) {
            let params = chosen(records, record_bytes);
            let layout = params.layout();
            let mut taken = vec![false; layout.bytes()];
            for index in 0..records {
                for byte in 0..record_bytes {
                    let offset = params.offset(index, byte);
                    prop_assert!(!std::mem::replace(&mut taken[offset], true));
                }
            }
        }
    }

    #[test]
    fn a_gibibyte_has_a_near_square_shape() {
        let params = chosen(1 << 22, 256);
        assert!((1 << 14..1 << 16).contains(&params.rows), "{params:?}");
        let whole = Params { hint_bits: 32, ..params.clone() };
        assert!(whole.failure().unwrap().log2 < -1000.0);
        let rounded = params.failure().unwrap().log2;
        assert!((-200.0..-180.0).contains(&rounded), "{rounded}");
    }

    #[test]
    fn parameters_out_of_range_are_refused_by_name() {
        let good = chosen(1000, 100);
        type Change = fn(&mut Params);
        let broken: [(Change, &str); 11] = [
            (|p| p.set = "toy".into(), "no LWE set"),
            (|p| p.rows = 33, "rows"),
            (|p| p.rows = 0, "rows"),
            (|p| p.columns = 100, "columns"),
            (|p| p.columns = 1 << 40, "columns"),
            (|p| p.record_bytes = 0, "record"),
            (|p| p.record_bytes = usize::MAX, "record"),
            (|p| p.records = u64::MAX, "holds"),
            (|p| p.hint_bits = 16, "decode wrongly"),
            (|p| p.hint_bits = 15, "hint_bits"),
            (|p| p.hint_bits = 33, "hint_bits"),
        ];
        for (change, message) in broken {
            let mut params = good.clone();
            change(&mut params);
            let error = params.validate().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
    #[test]
    fn hints_have_the_fewest_bits_that_the_bound_admits() {
        for set in LweSet::ALL {
            let choice = Choice { set: Some(set.name().into()), ..Choice::default() };
            for (records, record_bytes) in [(40, 50), (1 << 22, 256), (1 << 10, 1 << 20), (1 << 27, 256)] {
                let params = Params::choose(&choice, Seed::default(), records, record_bytes).unwrap();
                assert_eq!(params.hint_bits, 17, "{params:?}");
                let whole = Choice { hint: HintForm::Whole, ..choice.clone() };
                let whole = Params::choose(&whole, Seed::default(), records, record_bytes).unwrap();
                assert_eq!(whole, Params { hint_bits: 32, ..params.clone() });
                let bytes = params.rows as u64 * set.degree() as u64 * 17 / 8;
                assert_eq!(params.sizes().hint_bytes, bytes);
                assert_eq!(params.hint_rows().unwrap().row_bytes() as u64, bytes / params.rows as u64);
                let fewer = Params { hint_bits: 16, ..params };
                assert!(fewer.validate().unwrap_err().to_string().contains("decode wrongly"));
            }
        }
        // In wide matrices of large records, less of the tolerated error is left for the rounding.
        let wide = |columns, record_bytes| {
            let params = Params { columns, record_bytes, rows: 1 << 20, ..chosen(1, 1) };
            params.with_hint(HintForm::Rounded).hint_bits
        };
        assert_eq!([wide(1 << 15, 1), wide(1 << 20, 1), wide(1 << 20, 1 << 10)], [17, 18, 20]);
        // For 1 GiB, rounding reduces a hint of 131 MB to 69.6 MB.
        let gibibyte = Params { rows: 25_600, columns: 41_984, ..chosen(1 << 22, 256) };
        let whole = Params { hint_bits: 32, ..gibibyte.clone() };
        assert_eq!([whole, gibibyte].map(|params| params.sizes().hint_bytes), [131_072_000, 69_632_000]);
    }

    #[test]
    fn parameters_of_whole_hints_are_written_and_read_as_before() {
        let whole = Choice { hint: HintForm::Whole, ..Choice::default() };
        let params = Params::choose(&whole, Seed::default(), 1000, 100).unwrap();
        let json = serde_json::to_string(&params).unwrap();
        assert!(!json.contains("hint") && params.hint_bits == 32, "{json}");
        assert_eq!(serde_json::from_str::<Params>(&json).unwrap(), params);
        // Parameters that are derived from these have whole hints too.
        assert_eq!(params.choice().hint, HintForm::Whole);
        assert_eq!(chosen(1000, 100).choice().hint, HintForm::Rounded);
    }
}

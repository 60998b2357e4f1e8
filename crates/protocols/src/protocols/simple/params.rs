//! Parameters: the set, the shape, and the positions of records.

use serde::{Deserialize, Serialize};
use spirea_lattice::noise::{self, HintRounding};
use spirea_math::random::Seed;

use crate::grid::Grid;
use crate::parameters::{Failure, Parameters, Profile};
use crate::steps::folded::{Folded, FoldedParams};
use crate::steps::hint::{exact_bits, is_exact};
use crate::steps::query::QueryLayout;
use crate::steps::scalar_fold::{ROUNDED_BITS, ROUNDED_BYTES};
use crate::steps::shape::{MAX_FAILURE_LOG2, malformed};
use crate::steps::{Unit, Work};
use crate::table::hint_rows::HintRows;
use crate::{ProtocolError, Sizes};

/// SimplePIR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simple;

/// Parameters of a database under SimplePIR.
pub type Params = FoldedParams<Simple>;

/// The parameters in JSON. A column of the matrix is a unit.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    set: String,
    #[serde(with = "crate::hex")]
    seed: Seed,
    records: u64,
    record_bytes: usize,
    rows: usize,
    columns: usize,
    #[serde(default = "exact_bits", skip_serializing_if = "is_exact")]
    hint_bits: u32,
}

impl From<Folded> for Form {
    fn from(Folded { set, seed, hint_bits, grid, .. }: Folded) -> Self {
        let Grid { records, record_bytes, unit_rows: rows, columns, .. } = grid;
        Self { set, seed, records, record_bytes, rows, columns, hint_bits }
    }
}

impl From<Form> for Folded {
    fn from(Form { set, seed, records, record_bytes, rows, columns, hint_bits }: Form) -> Self {
        let grid = Grid { records, record_bytes, unit_rows: rows, groups: 1, columns };
        Self { hint_bits, ..Self::without_ring(set, seed, grid) }
    }
}

/// Returns log2 of a bound on the probability that an error exceeds the fraction `share` of the
/// tolerated error, for every database. The hint has `hint_bits` bits a word.
pub(super) fn exceedance_log2(folded: &Folded, hint_bits: u32, share: f64) -> f64 {
    let Grid { columns, record_bytes, .. } = folded.grid;
    let hint = HintRounding { entries: folded.lwe_set().degree(), bits: hint_bits };
    noise::exceedance_log2(columns, hint, ROUNDED_BITS, record_bytes, share)
}

impl Params {
    /// Maximum number of columns of one record.
    pub(super) const MAX_RECORD_COLUMNS: usize = 64;

    /// Returns the number of columns that a record takes, which is the number of encrypted unit
    /// vectors in a query.
    pub(super) fn record_columns(&self) -> usize {
        self.0.grid.parts()
    }

    /// Returns the layout of a query's bytes.
    pub(super) fn query_layout(&self) -> QueryLayout {
        let first = self.record_columns() * self.0.grid.columns;
        QueryLayout { first, dropped_bits: 0, second: 0, ciphertext: 0 }
    }

    /// Returns the sizes of queries, answers, hint and keys in bytes.
    pub(crate) fn sizes(&self) -> Sizes {
        let (rows, hint_rows) = (self.0.grid.unit_rows, HintRows::of(self.0.lwe_set(), self.0.hint_bits));
        Sizes {
            query_bytes: self.query_layout().bytes(),
            answer_bytes: self.record_columns() * rows * ROUNDED_BYTES,
            hint_bytes: rows as u64 * hint_rows.row_bytes() as u64,
            keys_bytes: 0,
        }
    }
}

impl Parameters for Params {
    fn validate(&self) -> Result<(), ProtocolError> {
        self.0.validate(Self::SPREAD)?;
        if self.record_columns() > Self::MAX_RECORD_COLUMNS {
            let most = Self::MAX_RECORD_COLUMNS;
            return Err(malformed(format!("a record must take between 1 and {most} columns")));
        }
        match self.exceedance(1.0) {
            Some(failure) if failure.log2 > MAX_FAILURE_LOG2 => Err(malformed(format!(
                "a record would decode wrongly with probability up to {failure}, above 2^-60"
            ))),
            _ => Ok(()),
        }
    }

    fn profile(&self) -> Profile {
        let Grid { unit_rows, columns, .. } = self.0.grid;
        let scanned = unit_rows * columns * self.record_columns();
        Profile {
            // The hint gives n equations in `columns` unknowns for each row of the matrix.
            hint_determines_records: columns <= self.0.lwe_set().degree(),
            work: vec![Work::new("scalar_fold", Unit::ScannedByte, scanned)],
            ..self.folded_profile(self.sizes())
        }
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        Some(Failure::bound(exceedance_log2(&self.0, self.0.hint_bits, share)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spirea_lattice::LweSet;

    use super::*;
    use crate::choice::{Choice, HintForm};
    use crate::protocol::Protocol as _;
    use crate::steps::folded::FoldedProtocol as _;

    fn chosen(records: u64, record_bytes: usize) -> Params {
        Params::choose(&Choice::default(), Seed::default(), records, record_bytes).unwrap()
    }

    fn with_bits(params: &Params, hint_bits: u32) -> Params {
        let mut params = params.clone();
        params.0.hint_bits = hint_bits;
        params
    }

    proptest! {
        #[test]
        fn chosen_shapes_are_valid_and_waste_little(records in 1u64..1 << 24, log_bytes in 0u32..21, jitter in 0usize..1000) {
            let record_bytes = ((1usize << log_bytes) + jitter * (1 << log_bytes) / 1000).max(9);
            prop_assume!(u128::from(records) * (record_bytes as u128) < 1 << 36);
            let params = chosen(records, record_bytes);
            prop_assert!(params.validate().is_ok());
            let Grid { unit_rows: rows, columns, .. } = params.0.grid;
            let (stored, raw) = ((rows * columns) as f64, records as f64 * record_bytes as f64);
            // A matrix has at least one panel and one block of columns; a large matrix wastes
            // little.
            prop_assert!(stored <= 1.3 * raw + 8192.0 + 32.0 * 64.0 * columns as f64 + 256.0 * rows as f64, "{params:?}");
        }

        #[test]
        fn records_do_not_overlap(records in 1u64..400, record_bytes in 1usize..700) {
            let params = chosen(records, record_bytes);
            let stored = params.profile().stored;
            let mut taken = vec![false; stored.bytes() as usize];
            for index in 0..records {
                for byte in 0..record_bytes {
                    let offset = stored.offset(index, byte) as usize;
                    prop_assert!(!std::mem::replace(&mut taken[offset], true));
                }
            }
        }
    }

    #[test]
    fn a_gibibyte_has_a_near_square_shape() {
        let params = chosen(1 << 22, 256);
        assert!((1 << 14..1 << 16).contains(&params.0.grid.unit_rows), "{params:?}");
        let whole = with_bits(&params, 32);
        assert!(whole.profile().failure.unwrap().log2 < -1000.0);
        let rounded = params.profile().failure.unwrap().log2;
        assert!((-200.0..-180.0).contains(&rounded), "{rounded}");
    }

    #[test]
    fn parameters_out_of_range_are_refused_by_name() {
        let good = chosen(1000, 100);
        type Change = fn(&mut Folded);
        let broken: [(Change, &str); 11] = [
            (|p| p.set = "toy".into(), "no LWE set"),
            (|p| p.grid.unit_rows += 1, "rows"),
            (|p| p.grid.unit_rows = 0, "rows"),
            (|p| p.grid.columns += 1, "columns"),
            (|p| p.grid.columns = 1 << 40, "columns"),
            (|p| p.grid.record_bytes = 0, "record"),
            (|p| p.grid.record_bytes = usize::MAX, "record"),
            (|p| p.grid.records = u64::MAX, "holds"),
            (|p| p.hint_bits = 16, "decode wrongly"),
            (|p| p.hint_bits = 15, "hint_bits"),
            (|p| p.hint_bits = 33, "hint_bits"),
        ];
        for (change, message) in broken {
            let mut params = good.clone();
            change(&mut params.0);
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
                assert_eq!(params.0.hint_bits, 17, "{params:?}");
                let whole = Choice { hint: HintForm::Whole, ..choice.clone() };
                let whole = Params::choose(&whole, Seed::default(), records, record_bytes).unwrap();
                assert_eq!(whole, with_bits(&params, 32));
                let bytes = params.0.grid.unit_rows as u64 * set.degree() as u64 * 17 / 8;
                assert_eq!(params.sizes().hint_bytes, bytes);
                assert_eq!(
                    params.profile().hint_rows().unwrap().row_bytes() as u64,
                    bytes / params.0.grid.unit_rows as u64
                );
                let fewer = with_bits(&params, 16);
                assert!(fewer.validate().unwrap_err().to_string().contains("decode wrongly"));
            }
        }
        // In wide matrices of large records, less of the tolerated error is left for the rounding.
        let wide = |columns, record_bytes| {
            let Params { 0: mut folded, .. } = chosen(1, 1);
            folded.grid = Grid { columns, record_bytes, unit_rows: 1 << 20, ..folded.grid };
            Simple::hint_bits(HintForm::Rounded, &folded)
        };
        assert_eq!([wide(1 << 15, 1), wide(1 << 20, 1), wide(1 << 20, 1 << 10)], [17, 18, 20]);
        // For 1 GiB, rounding reduces a hint of 131 MB to 69.6 MB.
        let mut gibibyte = chosen(1 << 22, 256);
        gibibyte.0.grid = Grid { unit_rows: 25_600, columns: 41_984, ..gibibyte.0.grid };
        let whole = with_bits(&gibibyte, 32);
        assert_eq!([whole, gibibyte].map(|params| params.sizes().hint_bytes), [131_072_000, 69_632_000]);
    }

    #[test]
    fn parameters_of_whole_hints_are_written_and_read_as_before() {
        let whole = Choice { hint: HintForm::Whole, ..Choice::default() };
        let params = Params::choose(&whole, Seed::default(), 1000, 100).unwrap();
        let json = serde_json::to_string(&params).unwrap();
        assert!(!json.contains("hint") && params.0.hint_bits == 32, "{json}");
        assert_eq!(serde_json::from_str::<Params>(&json).unwrap(), params);
        // Parameters that are derived from these have whole hints too.
        assert_eq!(params.choice().hint, HintForm::Whole);
        assert_eq!(chosen(1000, 100).choice().hint, HintForm::Rounded);
    }
}

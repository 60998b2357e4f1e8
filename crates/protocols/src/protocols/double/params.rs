//! Parameters and shapes.

use crate::parameters::{Failure, Parameters, Profile};
use crate::steps::folded::FoldedParams;
use crate::steps::hint::is_exact;
use crate::steps::query::QueryLayout;
use crate::steps::reinterpret::{SPREAD, SecondShape, dynamic_bytes};
use crate::steps::scalar_fold::{Knowledge, ROUNDED_BYTES};
use crate::steps::shape::{MAX_FAILURE_LOG2, malformed, validate_outcome};
use crate::table::hint_rows::HintRows;
use crate::{ProtocolError, Sizes};

/// DoublePIR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Double;

/// Parameters of a database under DoublePIR.
pub type Params = FoldedParams<Double>;

impl Params {
    pub(super) fn second(&self) -> SecondShape {
        self.0.second()
    }

    /// Returns log2 of the failure bound of the fixed rows, whose hint clients keep, for every
    /// content.
    fn fixed_log2(&self) -> f64 {
        self.0.fixed_bound_log2(Knowledge::Matrix, self.0.hint_bits, 1.0)
    }

    /// Returns the layout of a query's bytes.
    pub(super) fn layout(&self) -> QueryLayout {
        self.0.two_folds_layout(0)
    }

    /// Returns the sizes of queries, answers, hint and keys in bytes.
    pub(crate) fn sizes(&self) -> Sizes {
        let second = self.second();
        Sizes {
            query_bytes: self.layout().bytes(),
            answer_bytes: second.fixed_rows() * ROUNDED_BYTES + dynamic_bytes(&second),
            hint_bytes: second.fixed_rows() as u64
                * HintRows::of(self.0.lwe_set(), self.0.hint_bits).row_bytes() as u64,
            keys_bytes: 0,
        }
    }
}

impl Parameters for Params {
    fn validate(&self) -> Result<(), ProtocolError> {
        self.0.validate_two_folds()?;
        if self.0.ring.is_some() {
            return Err(malformed("the protocol has no ring".into()));
        }
        if !is_exact(&self.0.hint_bits) && self.fixed_log2() > MAX_FAILURE_LOG2 {
            return Err(malformed(format!("{} hint_bits are too few for every database", self.0.hint_bits)));
        }
        validate_outcome(self.sizes(), self.exceedance(1.0))
    }

    fn profile(&self) -> Profile {
        let folded = &self.0;
        Profile {
            server_bytes: folded.fixed_bytes(),
            memory_bytes: folded.stored(SPREAD).bytes() + folded.fixed_bytes(),
            work: folded.two_folds_work(),
            ..self.folded_profile(self.sizes())
        }
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        Some(Failure::bound(self.0.two_folds_bound_log2(Knowledge::None, share)))
    }

    fn worst_failure(&self) -> Option<Failure> {
        Some(Failure::bound(self.0.two_folds_bound_log2(Knowledge::Matrix, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use spirea_lattice::LweSet;
    use spirea_math::random::Seed;

    use super::*;
    use crate::choice::{Choice, HintForm};
    use crate::grid::Grid;
    use crate::parameters::Claim;
    use crate::protocol::Protocol as _;
    use crate::registry::ProtocolParams;
    use crate::steps::Folded;

    #[test]
    fn units_have_limits() {
        // A record fills a unit of 1024 bytes.
        let grid = Grid { records: 256, record_bytes: 1024, unit_rows: 1024, groups: 256, columns: 256 };
        let params = |grid| Folded::without_ring("module-1280".into(), Seed::default(), grid);
        params(grid).validate_two_folds().unwrap();
        let refused = [
            (Grid { unit_rows: 1025, ..grid }, "at most 1024 bytes"),
            (Grid { groups: 384, ..grid }, "a multiple of 256 units"),
            (Grid { record_bytes: 257 * 1024, columns: 512, ..grid }, "more columns than a batch"),
        ];
        for (grid, named) in refused {
            let error = params(grid).validate_two_folds().unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    /// A rounded hint has 6.6 MiB instead of 12.5 MiB for each byte of a unit. The failure bound
    /// rises by less than a thousandth of a bit, because the words rounded between the folds
    /// dominate it.
    #[test]
    fn rounded_hints_leave_the_bound_as_it_is() {
        for set in ["module-1280", "module-1536"] {
            let of = |hint| {
                let choice =
                    Choice { protocol: "double".into(), set: Some(set.into()), hint, ..Choice::default() };
                ProtocolParams::choose(&choice, Seed::new([7; 32]), 1 << 20, 3).unwrap()
            };
            let [rounded, whole] = HintForm::ALL.map(of);
            assert_eq!((rounded.hint_bits, whole.hint_bits), (17, 32));
            assert_eq!(rounded.sizes.hint_bytes * 32, whole.sizes.hint_bytes * 17);
            assert_eq!(rounded.grid, whole.grid);
            let [rounded, whole] = [rounded, whole].map(|params| params.worst_failure.unwrap().log2);
            assert!(rounded >= whole && rounded - whole < 0.001, "{set}: {rounded}, {whole}");
        }
    }

    /// Compares with tails of Gaussians that have the average variances, and with the bound for
    /// content that is chosen against the matrix.
    #[test]
    fn content_that_does_not_depend_on_the_matrix_has_a_bound_near_the_average() {
        let choose = |set: LweSet, records, record_bytes| {
            let choice =
                Choice { protocol: "double".into(), set: Some(set.name().into()), ..Choice::default() };
            Params::choose(&choice, Seed::new([7; 32]), records, record_bytes)
        };
        let mut checked = 0;
        for set in LweSet::ALL {
            for power in (10..36).step_by(4) {
                for record_bytes in [1, 9, 40, 264, 1032] {
                    let Ok(params) = choose(set, 1 << power, record_bytes) else { continue };
                    let (bound, worst) = (params.profile().failure.unwrap(), params.worst_failure().unwrap());
                    let second = params.second();
                    let moving = second.parts * second.moving_rows();
                    let average = |rows| params.0.two_folds_exceedance_log2(rows, 1.0);
                    let name = format!("{}, 2^{power} records of {record_bytes} bytes", set.name());
                    assert_eq!([bound.claim, worst.claim], [Claim::Bound; 2]);
                    assert!(bound.log2 <= MAX_FAILURE_LOG2 && bound.log2 < worst.log2, "{name}: {bound}");
                    // Words of the fixed rows keep one more bit than `average` assumes. `average`
                    // counts the rounding of answers as noise, and the bound counts its maximum.
                    let least = 1.03 * average(moving);
                    let most = 0.9 * average(second.fixed_rows() + moving) + 10.0;
                    assert!((least..most).contains(&bound.log2), "{name}: {bound}, {least} to {most}");
                    let half = params.exceedance(0.5).unwrap().log2;
                    assert!(half > bound.log2 / 3.0 - 10.0, "{name}: {half}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 30, "{checked}");
        // docs/protocols/double.md: 2^-147 for records of one byte.
        let gibibyte = choose(LweSet::Module1280, 1 << 30, 1).unwrap();
        assert_eq!([gibibyte.0.grid.groups, gibibyte.0.grid.columns], [1 << 15; 2]);
        let failure = gibibyte.profile().failure.unwrap();
        assert!((-148.0..-147.0).contains(&failure.log2), "{failure}");
    }

    #[test]
    fn shapes_are_chosen_by_the_bound_for_every_database() {
        let choose = |set: &str, records: u64, record_bytes| {
            let choice = Choice { protocol: "double".into(), set: Some(set.into()), ..Choice::default() };
            ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes)
        };
        for (set, records, record_bytes) in
            [("module-1280", 1 << 20, 40), ("module-1280", 1 << 20, 256), ("module-1536", 1 << 10, 3)]
        {
            let worst = choose(set, records, record_bytes).unwrap().worst_failure.unwrap();
            assert!(worst.log2 <= -40.0, "{set}, {record_bytes} bytes: {worst}");
        }
        for (set, record_bytes) in [("module-1280", 1 << 13), ("module-1536", 256)] {
            let refusal = choose(set, 1 << 20, record_bytes).unwrap_err().to_string();
            assert!(refusal.contains("chosen against the public matrix"), "{set}: {refusal}");
        }
    }
}

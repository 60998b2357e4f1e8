//! Parameters and shapes.

use crate::packing::scheme::PackedRows;
use crate::packing::{PackingShape, packed_exceedance_log2};
use crate::parameters::{Failure, Parameters, Profile};
use crate::steps::folded::FoldedParams;
use crate::steps::query::QueryLayout;
use crate::steps::reinterpret::{SPREAD, SecondShape, dynamic_bytes};
use crate::steps::scalar_fold::FoldedColumns;
use crate::steps::shape::validate_outcome;
use crate::steps::{Work, noise};
use crate::{ProtocolError, Sizes};

/// ExpPack (D).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExppackDouble;

/// Parameters of a database under ExpPack (D).
pub type Params = FoldedParams<ExppackDouble>;

impl Params {
    pub(super) fn ring_shape(&self) -> PackingShape {
        PackingShape::new(&self.0, self.blocks(), 1)
    }

    pub(super) fn second(&self) -> SecondShape {
        self.0.second()
    }

    /// Returns the layout of a query's bytes.
    pub(super) fn layout(&self) -> QueryLayout {
        self.0.two_folds_layout(self.ring_shape().query_bytes())
    }

    /// Returns the rows that are packed: the fixed ones.
    pub(super) fn rows(&self) -> PackedRows {
        PackedRows { parts: 1, rows: self.second().fixed_rows() }
    }

    /// Returns the number of RLWE ciphertexts into which the fixed rows are packed.
    pub(super) fn blocks(&self) -> usize {
        self.rows().blocks(0).len()
    }

    /// Returns the sizes of queries, answers, hint and keys in bytes.
    pub(crate) fn sizes(&self) -> Sizes {
        let (second, shape) = (self.second(), self.ring_shape());
        Sizes {
            query_bytes: self.layout().bytes(),
            answer_bytes: self.blocks() * shape.response_bytes() + dynamic_bytes(&second),
            hint_bytes: shape.hint_bytes(),
            keys_bytes: shape.keys_bytes(),
        }
    }

    /// Returns the server's work for one query.
    fn work(&self) -> Vec<Work> {
        let shape = self.ring_shape();
        let mut work = self.0.two_folds_work();
        work.extend(shape.unpack_work());
        work.extend(shape.fold_work(1, self.blocks()));
        work.extend(shape.switch_work(self.blocks()));
        work
    }
}

impl Parameters for Params {
    fn validate(&self) -> Result<(), ProtocolError> {
        self.0.validate_two_folds()?;
        self.0.validate_ring()?;
        validate_outcome(self.sizes(), self.exceedance(1.0))
    }

    fn profile(&self) -> Profile {
        let (folded, shape) = (&self.0, self.ring_shape());
        Profile {
            key_shape: shape.key_shape(),
            server_bytes: folded.fixed_bytes(),
            memory_bytes: folded.stored(SPREAD).bytes()
                + folded.fixed_bytes()
                + shape.plain_bytes(self.blocks())
                + shape.digits_bytes()
                + shape.leaves_bytes() as u64,
            work: self.work(),
            ..self.folded_profile(self.sizes())
        }
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        let (second, shape) = (self.second(), self.ring_shape());
        let (set, rows) = (self.0.lwe_set(), second.fixed_rows());
        let packed =
            packed_exceedance_log2(&*shape, set, FoldedColumns::whole(self.0.grid.groups), rows, share);
        let moving = self.0.two_folds_exceedance_log2(second.parts * second.moving_rows(), share);
        Some(Failure::estimate(noise::either(packed, moving)))
    }
}

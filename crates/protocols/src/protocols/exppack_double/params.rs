//! Parameters and shapes.

use spirea_lattice::rlwe::KeyShape;

use crate::choice::KeyDelivery;
use crate::grid::Grid;
use crate::packing::scheme::PackedRows;
use crate::packing::{PackingShape, packed_exceedance_log2};
use crate::parameters::{Failure, Parameters, Sets, Stored};
use crate::steps::folded::{FoldedParams, FoldedProtocol};
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
}

impl Parameters for Params {
    fn name(&self) -> &'static str {
        ExppackDouble::NAME
    }

    fn set(&self) -> String {
        self.0.set_names()
    }

    fn stored(&self) -> Stored {
        self.0.stored(SPREAD)
    }

    fn grid(&self) -> Grid {
        self.0.grid
    }

    fn server_bytes(&self) -> u64 {
        self.0.fixed_bytes()
    }

    fn validate(&self) -> Result<(), ProtocolError> {
        self.0.validate_two_folds()?;
        self.0.validate_ring()?;
        validate_outcome(self.sizes(), self.failure())
    }

    fn key_shape(&self) -> Option<KeyShape> {
        self.ring_shape().key_shape()
    }

    fn key_delivery(&self) -> Option<KeyDelivery> {
        Some(self.0.keys)
    }

    fn sizes(&self) -> Sizes {
        let (second, shape) = (self.second(), self.ring_shape());
        Sizes {
            query_bytes: self.layout().bytes(),
            answer_bytes: self.blocks() * shape.response_bytes() + dynamic_bytes(&second),
            hint_bytes: shape.hint_bytes(),
            keys_bytes: shape.keys_bytes(),
        }
    }

    fn work(&self) -> Vec<Work> {
        let shape = self.ring_shape();
        let mut work = self.0.two_folds_work();
        work.extend(shape.unpack_work());
        work.extend(shape.fold_work(1, self.blocks()));
        work.extend(shape.switch_work(self.blocks()));
        work
    }

    fn memory_bytes(&self) -> u64 {
        let shape = self.ring_shape();
        self.stored().bytes()
            + self.0.fixed_bytes()
            + shape.plain_bytes(self.blocks())
            + shape.digits_bytes()
            + shape.leaves_bytes() as u64
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        let (second, shape) = (self.second(), self.ring_shape());
        let (set, rows) = (self.0.lwe_set(), second.fixed_rows());
        let packed =
            packed_exceedance_log2(&*shape, set, FoldedColumns::whole(self.0.grid.groups), rows, share);
        let moving = self.0.two_folds_exceedance_log2(second.parts * second.moving_rows(), share);
        Some(Failure::estimate(noise::either(packed, moving)))
    }

    fn sets(&self) -> Sets {
        self.0.sets()
    }
}

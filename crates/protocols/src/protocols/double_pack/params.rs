//! Parameters and shapes.

use spirea_backend::PanelLayout;
use spirea_lattice::PublicMatrix;

use crate::choice::KeyDelivery;
use crate::grid::Grid;
use crate::packing::expanded::ExpandedShape;
use crate::packing::packed_exceedance_log2;
use crate::packing::scheme::PackedRows;
use crate::parameters::{Failure, Parameters, Profile};
use crate::steps::folded::{FoldedParams, MAX_COLUMNS};
use crate::steps::query::QueryLayout;
use crate::steps::ring::Shape;
use crate::steps::scalar_fold::FoldedColumns;
use crate::steps::shape::{malformed, validate_outcome};
use crate::steps::{Unit, Work, noise};
use crate::{ProtocolError, Sizes};

/// Double packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoublePack;

/// Parameters of a database under double packing.
pub type Params = FoldedParams<DoublePack>;

impl Params {
    pub(super) fn ring_shape(&self) -> ExpandedShape {
        ExpandedShape::packing(self.0.lwe_set(), self.0.ring_set(), 1)
    }

    /// Returns the rows of the first fold, which are packed first.
    pub(super) fn rows(&self) -> PackedRows {
        PackedRows { parts: self.0.grid.parts(), rows: self.0.grid.rows(Self::SPREAD) }
    }

    /// Returns the layout of a query's bytes.
    pub(super) fn layout(&self) -> QueryLayout {
        let Grid { columns, groups, .. } = self.0.grid;
        let (dropped_bits, ciphertext) = (self.0.dropped_bits, self.ring_shape().query_bytes());
        QueryLayout { first: columns, dropped_bits, second: groups, ciphertext }
    }

    /// Returns the layout of a second matrix. A column holds the bytes of a packed ciphertext.
    pub(super) fn second_layout(&self) -> PanelLayout {
        PanelLayout::covering(self.ring_shape().response_bytes(), self.0.grid.groups)
            .expect("validated parameters have a layout")
    }

    /// Returns the number of RLWE ciphertexts into which a second matrix's answers are packed.
    pub(super) fn second_blocks(&self) -> usize {
        self.ring_shape().response_bytes() / self.ring_shape().degree()
    }

    /// Returns the public matrix of the second fold.
    pub(super) fn second_matrix(&self) -> PublicMatrix {
        self.0.second_matrix(self.0.grid.groups)
    }

    /// Returns the sizes of queries, answers, hint and keys in bytes.
    pub(crate) fn sizes(&self) -> Sizes {
        let (shape, grid) = (self.ring_shape(), self.0.grid);
        Sizes {
            query_bytes: self.layout().bytes(),
            answer_bytes: grid.parts() * self.second_blocks() * shape.response_bytes(),
            hint_bytes: 0,
            keys_bytes: shape.keys_bytes(),
        }
    }

    /// Returns the server's work for one query.
    fn work(&self) -> Vec<Work> {
        let (shape, grid, parts) = (self.ring_shape(), self.0.grid, self.0.grid.parts());
        let (set, second) = (shape.set, self.second_blocks());
        let scanned = grid.rows(Self::SPREAD) * grid.columns;
        let words = parts * self.second_layout().rows() * (shape.columns + 1);
        let mut work = vec![Work::new("scalar_fold", Unit::ScannedByte, scanned)];
        work.extend(shape.unpack_work());
        work.extend(shape.fold_work(parts, grid.groups));
        work.push(Work::switching(set, parts * (grid.groups + second)));
        work.push(Work::new("encode_fold", Unit::ProductWord, words));
        work.push(Work::new("encode_fold", Unit::EncodedPolynomial(set), parts * second * shape.columns));
        work.extend(
            shape.fold_work(parts, second).into_iter().map(|work| Work { step: "encode_fold", ..work }),
        );
        work
    }
}

impl Parameters for Params {
    fn validate(&self) -> Result<(), ProtocolError> {
        self.0.validate_blocks()?;
        if self.0.keys != KeyDelivery::Registered {
            return Err(malformed("queries of double-pack bring no keys".into()));
        }
        if !self.ring_shape().response_bytes().is_multiple_of(self.ring_shape().degree()) {
            return Err(malformed("a response must fill whole ciphertexts of the second packing".into()));
        }
        if self.0.grid.groups > MAX_COLUMNS {
            return Err(malformed(format!("groups must be at most {MAX_COLUMNS}")));
        }
        validate_outcome(self.sizes(), self.exceedance(1.0))
    }

    fn profile(&self) -> Profile {
        let (folded, shape) = (&self.0, self.ring_shape());
        let blocks = folded.grid.parts() * folded.grid.groups + self.second_blocks();
        Profile {
            key_shape: shape.key_shape(),
            server_bytes: folded.grid.rows(Self::SPREAD) as u64 * folded.lwe_set().degree() as u64 * 4,
            memory_bytes: folded.stored(Self::SPREAD).bytes()
                + shape.plain_bytes(blocks)
                + shape.leaves_bytes() as u64,
            work: self.work(),
            ..self.folded_profile(self.sizes())
        }
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        let (shape, grid) = (self.ring_shape(), self.0.grid);
        let set = self.0.lwe_set();
        let first = packed_exceedance_log2(&shape, set, self.0.folded_columns(), grid.record_bytes, share);
        // All bytes of the inner ciphertexts must decode correctly.
        let inner_bytes = grid.parts() * shape.response_bytes();
        let groups = FoldedColumns::whole(grid.groups);
        let second = packed_exceedance_log2(&shape, set, groups, inner_bytes, share);
        Some(Failure::estimate(noise::either(first, second)))
    }
}

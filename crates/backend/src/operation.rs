//! The operations of backends by name and shape, for observers.

use spirea_math::Rotations;

#[cfg(doc)]
use crate::{Backend, RingBackend, ShareBackend};
use crate::{FixedPacking, FoldedBlocks, PanelLayout, RowLayout, SwitchedBits};

/// Operation of a backend, with its shape as far as the call states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// [`Backend::upload`].
    Upload(PanelLayout),
    /// [`Backend::open`].
    Open(PanelLayout),
    /// [`Backend::scalar_fold`].
    ScalarFold {
        /// Layout of the matrix.
        layout: PanelLayout,
        /// Words of all queries.
        words: usize,
    },
    /// [`Backend::words`].
    Words,
    /// [`Backend::folded`].
    Folded {
        /// Number of queries.
        queries: usize,
    },
    /// [`Backend::module_fold`].
    ModuleFold {
        /// Layout of the matrix.
        layout: PanelLayout,
        /// Columns of blocks of the public matrix.
        rank: usize,
    },
    /// [`ShareBackend::upload_rows`].
    UploadRows(RowLayout),
    /// [`ShareBackend::open_rows`].
    OpenRows(RowLayout),
    /// [`ShareBackend::share_fold`] and [`ShareBackend::share_folds`].
    ShareFold {
        /// Layout of the rows.
        layout: RowLayout,
        /// Number of keys.
        keys: usize,
    },
    /// [`RingBackend::tables`].
    Tables,
    /// [`RingBackend::keys`].
    Keys,
    /// [`RingBackend::encode`].
    Encode {
        /// Rows of polynomials.
        rows: usize,
        /// Columns of polynomials.
        columns: usize,
    },
    /// [`RingBackend::expand`].
    Expand {
        /// Number of queries.
        queries: usize,
        /// Number of leaves of each query.
        leaves: usize,
    },
    /// [`RingBackend::expand_leaf`].
    ExpandLeaf {
        /// Number of queries.
        queries: usize,
        /// Number of leaves of each query.
        leaves: usize,
    },
    /// [`RingBackend::rotate`].
    Rotate {
        /// Number of queries.
        queries: usize,
        /// The rotations.
        rotations: Rotations,
    },
    /// [`RingBackend::poly_fold`].
    PolyFold,
    /// [`RingBackend::sum_rotated`].
    SumRotated {
        /// Number of queries.
        queries: usize,
        /// The rotations.
        rotations: Rotations,
    },
    /// [`RingBackend::add_bodies`].
    AddBodies {
        /// Words of each query.
        words: usize,
    },
    /// [`RingBackend::selectors`].
    Selectors {
        /// Number of queries.
        queries: usize,
        /// Number of bits of each query's index.
        depth: usize,
    },
    /// [`RingBackend::rgsw_fold`].
    RgswFold,
    /// [`RingBackend::ciphertext_words`].
    CiphertextWords,
    /// [`RingBackend::ciphertexts`].
    Ciphertexts {
        /// Number of queries.
        queries: usize,
    },
    /// [`RingBackend::mod_switch`].
    ModSwitch(SwitchedBits),
    /// [`RingBackend::reinterpret`].
    Reinterpret(PanelLayout),
    /// [`RingBackend::scalar_fold_own`].
    ScalarFoldOwn {
        /// Words of all queries.
        words: usize,
    },
    /// [`RingBackend::columns`].
    Columns(PanelLayout),
    /// [`RingBackend::encode_fold`].
    EncodeFold(FoldedBlocks),
    /// [`RingBackend::fix_uniform`].
    FixUniform(FixedPacking),
    /// [`RingBackend::pack_fixed`].
    PackFixed {
        /// Number of queries.
        queries: usize,
    },
    /// An operation of a trait outside this crate.
    Other {
        /// Name of the method.
        name: &'static str,
        /// Name of its step.
        step: &'static str,
    },
}

impl Operation {
    /// Returns the name of the operation's step, as in the documentation of steps.
    pub fn step(self) -> &'static str {
        match self {
            Self::Upload(_) | Self::Reinterpret(_) => "reinterpret",
            Self::Open(_) | Self::UploadRows(_) | Self::OpenRows(_) => "open",
            Self::ScalarFold { .. } | Self::ScalarFoldOwn { .. } | Self::Words | Self::Folded { .. } => {
                "scalar_fold"
            }
            Self::ModuleFold { .. } => "module_fold",
            Self::ShareFold { .. } => "share_fold",
            Self::Tables | Self::Columns(_) => "tables",
            Self::Keys => "keys",
            Self::Encode { .. } | Self::FixUniform(_) => "encode",
            Self::Expand { .. } | Self::ExpandLeaf { .. } => "expand",
            Self::Rotate { .. } | Self::SumRotated { .. } => "rotate",
            Self::PolyFold => "poly_fold",
            Self::AddBodies { .. } => "add_bodies",
            Self::Selectors { .. } => "selectors",
            Self::RgswFold | Self::CiphertextWords | Self::Ciphertexts { .. } => "rgsw_fold",
            Self::ModSwitch(_) => "mod_switch",
            Self::EncodeFold(_) => "encode_fold",
            Self::PackFixed { .. } => "pack_fixed",
            Self::Other { step, .. } => step,
        }
    }
}

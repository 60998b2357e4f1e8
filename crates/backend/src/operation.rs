//! The operations of backends by name and shape, for who watches them.

use spirea_math::Rotations;

#[cfg(doc)]
use crate::{Backend, RingBackend, ShareBackend};
use crate::{FixedPacking, FoldedBlocks, PanelLayout, RowLayout, SwitchedBits};

/// An operation of a backend, with its shape as far as the call states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// [`Backend::upload`].
    Upload(PanelLayout),
    /// [`Backend::open`].
    Open(PanelLayout),
    /// [`Backend::scalar_fold`].
    ScalarFold {
        /// Of the matrix.
        layout: PanelLayout,
        /// Words of all queries.
        words: usize,
    },
    /// [`Backend::words`].
    Words,
    /// [`Backend::folded`].
    Folded {
        /// How many.
        queries: usize,
    },
    /// [`Backend::module_fold`].
    ModuleFold {
        /// Of the matrix.
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
        /// Of the rows.
        layout: RowLayout,
        /// How many.
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
        /// How many.
        queries: usize,
        /// Leaves of each.
        leaves: usize,
    },
    /// [`RingBackend::expand_leaf`].
    ExpandLeaf {
        /// How many.
        queries: usize,
        /// Leaves of each.
        leaves: usize,
    },
    /// [`RingBackend::rotate`].
    Rotate {
        /// How many.
        queries: usize,
        /// Which.
        rotations: Rotations,
    },
    /// [`RingBackend::poly_fold`].
    PolyFold,
    /// [`RingBackend::sum_rotated`].
    SumRotated {
        /// How many.
        queries: usize,
        /// Which.
        rotations: Rotations,
    },
    /// [`RingBackend::add_bodies`].
    AddBodies {
        /// Words of each query.
        words: usize,
    },
    /// [`RingBackend::selectors`].
    Selectors {
        /// How many.
        queries: usize,
        /// Bits of each.
        depth: usize,
    },
    /// [`RingBackend::rgsw_fold`].
    RgswFold,
    /// [`RingBackend::ciphertext_words`].
    CiphertextWords,
    /// [`RingBackend::ciphertexts`].
    Ciphertexts {
        /// How many.
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
        /// How many.
        queries: usize,
    },
}

impl Operation {
    /// The step that it is a part of, by the name that the documentation of steps gives it.
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
        }
    }
}

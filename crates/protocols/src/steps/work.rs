//! What a protocol's server does for a query, counted in units that a machine's rates are measured in.

use spirea_dpf::OutputKind;
use spirea_lattice::RingSet;

/// A unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A byte of a matrix that is larger than the caches, in `scalar_fold`.
    ScannedByte,
    /// A product of a byte and a word in `scalar_fold` of many queries, where reading the matrix costs nothing.
    Product,
    /// A word of a product in `scalar_fold` of many queries and a matrix of few columns.
    ProductWord,
    /// A column in `module_fold` for each of the module's rank, whose part of the public matrix is transformed.
    PublicColumn,
    /// A byte of a matrix in `module_fold`.
    TransformedByte,
    /// A substitution of `expand`.
    Substitution(RingSet),
    /// A polynomial that `poly_fold` reads: a plaintext, or one of a leaf's two.
    FoldedPolynomial(RingSet),
    /// A substitution of a b half in `pack_fixed`, whose digits are known.
    FixedSubstitution(RingSet),
    /// A polynomial that `pack_fixed` reads: a plaintext, or a leaf's b half.
    FixedPolynomial(RingSet),
    /// A plaintext polynomial in `encode`.
    EncodedPolynomial(RingSet),
    /// A digit of a selector: an expanded ciphertext converted by RGSW(s).
    Conversion(RingSet),
    /// An external product of a tournament.
    ExternalProduct(RingSet),
    /// A ciphertext in `mod_switch`.
    SwitchedCiphertext(RingSet),
    /// A row in `share_fold`, its share included.
    SharedRow(OutputKind),
    /// A byte of a row in `share_fold`.
    SharedByte(OutputKind),
}

impl Unit {
    /// Bytes of the database, of what was computed of it, or of leaves that one of it reads; 0 for arithmetic on what
    /// caches hold.
    pub fn read_bytes(self) -> usize {
        match self {
            Self::ScannedByte | Self::TransformedByte | Self::SharedByte(_) => 1,
            Self::FoldedPolynomial(set) | Self::FixedPolynomial(set) => set.ring().words() * 4,
            Self::FixedSubstitution(set) => {
                set.expansion_gadget().levels(set.ring()) * set.ring().words() * 4
            }
            _ => 0,
        }
    }

    /// The ring set that it is work on, if any.
    pub fn ring_set(self) -> Option<RingSet> {
        match self {
            Self::ScannedByte
            | Self::Product
            | Self::ProductWord
            | Self::PublicColumn
            | Self::TransformedByte
            | Self::SharedRow(_)
            | Self::SharedByte(_) => None,
            Self::Substitution(set)
            | Self::FoldedPolynomial(set)
            | Self::FixedSubstitution(set)
            | Self::FixedPolynomial(set)
            | Self::EncodedPolynomial(set)
            | Self::Conversion(set)
            | Self::ExternalProduct(set)
            | Self::SwitchedCiphertext(set) => Some(set),
        }
    }

    /// Its name, such as `scanned-byte`, `substitution/fast` or `shared-row/bit`.
    pub fn name(self) -> String {
        match self {
            Self::ScannedByte => "scanned-byte".into(),
            Self::Product => "product".into(),
            Self::ProductWord => "product-word".into(),
            Self::PublicColumn => "public-column".into(),
            Self::TransformedByte => "transformed-byte".into(),
            Self::Substitution(set) => format!("substitution/{}", set.name()),
            Self::FoldedPolynomial(set) => format!("folded-polynomial/{}", set.name()),
            Self::FixedSubstitution(set) => format!("fixed-substitution/{}", set.name()),
            Self::FixedPolynomial(set) => format!("fixed-polynomial/{}", set.name()),
            Self::EncodedPolynomial(set) => format!("encoded-polynomial/{}", set.name()),
            Self::Conversion(set) => format!("conversion/{}", set.name()),
            Self::ExternalProduct(set) => format!("external-product/{}", set.name()),
            Self::SwitchedCiphertext(set) => format!("switched-ciphertext/{}", set.name()),
            Self::SharedRow(output) => format!("shared-row/{}", output.name()),
            Self::SharedByte(output) => format!("shared-byte/{}", output.name()),
        }
    }
}

/// An amount of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// The step that does it.
    pub step: &'static str,
    /// In which unit.
    pub unit: Unit,
    /// How many.
    pub count: f64,
}

impl Work {
    /// Switching so many ciphertexts.
    pub(crate) fn switching(set: RingSet, ciphertexts: usize) -> Self {
        Self::new("mod_switch", Unit::SwitchedCiphertext(set), ciphertexts)
    }

    /// `count` of `unit` in `step`.
    pub fn new(step: &'static str, unit: Unit, count: usize) -> Self {
        Self { step, unit, count: count as f64 }
    }
}

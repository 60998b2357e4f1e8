//! A server's work for a query, counted in units whose rates are measured for each machine.

use spirea_dpf::OutputKind;
use spirea_lattice::RingSet;

/// A unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A byte of a matrix that is larger than the caches, in `scalar_fold`.
    ScannedByte,
    /// A product of a byte and a word in `scalar_fold` with so many queries that reading the matrix
    /// is negligible.
    Product,
    /// A word of a result in `scalar_fold` of many queries and a matrix of few columns.
    ProductWord,
    /// A column in `module_fold`, counted once for each unit of the module's rank: the column's
    /// part of the public matrix is transformed.
    PublicColumn,
    /// A byte of a matrix in `module_fold`.
    TransformedByte,
    /// A substitution of `expand`.
    Substitution(RingSet),
    /// A polynomial that `poly_fold` reads: a plaintext, or half of a leaf.
    FoldedPolynomial(RingSet),
    /// A substitution of half `b` of a ciphertext in `pack_fixed`, with known digits.
    FixedSubstitution(RingSet),
    /// A polynomial that `pack_fixed` reads: a plaintext, or half `b` of a leaf.
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
    /// Returns the number of bytes that one unit reads of the database, of precomputed data or of
    /// leaves; 0 for arithmetic on cached data.
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

    /// Returns the ring set of the unit, if any.
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

    /// Returns its name, such as `scanned-byte`, `substitution/fast` or `shared-row/bit`.
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
    /// Step that does the work.
    pub step: &'static str,
    /// Unit of the count.
    pub unit: Unit,
    /// Number of units.
    pub count: f64,
}

impl Work {
    /// Returns the work of switching `ciphertexts` ciphertexts.
    pub(crate) fn switching(set: RingSet, ciphertexts: usize) -> Self {
        Self::new("mod_switch", Unit::SwitchedCiphertext(set), ciphertexts)
    }

    /// Returns the work of `count` units in `step`.
    pub fn new(step: &'static str, unit: Unit, count: usize) -> Self {
        Self { step, unit, count: count as f64 }
    }
}

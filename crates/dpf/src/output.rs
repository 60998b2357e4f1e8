use bytemuck::{Pod, cast, cast_ref};
use serde::{Deserialize, Serialize};
use subtle::ConditionallySelectable;

use crate::{DpfError, LEAF_BLOCKS, Leaf, Party};

/// Kind of a function's output at a point: the group that contains the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    /// A bit; shares add by exclusive or.
    Bit,
    /// A 32-bit word; shares add modulo 2^32.
    U32,
    /// A 64-bit word; shares add modulo 2^64.
    U64,
    /// A 128-bit word; shares add modulo 2^128.
    U128,
}

impl OutputKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Bit, Self::U32, Self::U64, Self::U128];

    /// Returns the name: `bit`, `u32`, `u64`, `u128`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bit => "bit",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::U128 => "u128",
        }
    }

    /// Returns the number of bits of an output.
    pub fn bits(self) -> u64 {
        match self {
            Self::Bit => 1,
            Self::U32 => 32,
            Self::U64 => 64,
            Self::U128 => 128,
        }
    }

    /// Returns the number of points whose outputs a leaf holds: a power of two.
    pub fn per_leaf(self) -> u64 {
        LEAF_BLOCKS as u64 * 128 / self.bits()
    }

    /// Adds `others` to `sums`. Both hold shares as whole outputs in little-endian bytes, one after
    /// another.
    ///
    /// # Panics
    /// If their lengths differ.
    pub fn add_to(self, sums: &mut [u8], others: &[u8]) {
        assert_eq!(sums.len(), others.len());
        match self {
            Self::Bit => sums.iter_mut().zip(others).for_each(|(sum, other)| *sum ^= other),
            Self::U32 => add_words(sums, others, |a, b| {
                u32::from_le_bytes(a).wrapping_add(u32::from_le_bytes(b)).to_le_bytes()
            }),
            Self::U64 => add_words(sums, others, |a, b| {
                u64::from_le_bytes(a).wrapping_add(u64::from_le_bytes(b)).to_le_bytes()
            }),
            Self::U128 => add_words(sums, others, |a, b| {
                u128::from_le_bytes(a).wrapping_add(u128::from_le_bytes(b)).to_le_bytes()
            }),
        }
    }

    /// Returns the leaf that holds a point, and the point's place in it. Shifts and masks are used
    /// because the time of divisions may depend on the point.
    pub(crate) fn leaf_and_place(self, point: u64) -> (u64, u64) {
        (point >> self.per_leaf().trailing_zeros(), point & (self.per_leaf() - 1))
    }
}

fn add_words<const W: usize>(sums: &mut [u8], others: &[u8], add: impl Fn([u8; W], [u8; W]) -> [u8; W]) {
    let words = sums.as_chunks_mut::<W>().0.iter_mut().zip(others.as_chunks::<W>().0);
    words.for_each(|(sum, &other)| *sum = add(*sum, other));
}

impl std::str::FromStr for OutputKind {
    type Err = DpfError;

    fn from_str(name: &str) -> Result<Self, DpfError> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| DpfError::Unknown {
            what: "output",
            name: name.into(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// Element of the group in which shares are added, and its place in leaves.
///
/// A leaf is the sequence of its outputs, lowest first, in little-endian order.
pub trait Output: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// Kind of the output.
    const KIND: OutputKind;

    /// Returns the output at `place` of a leaf, 0 to [`OutputKind::per_leaf`] - 1.
    fn of(leaf: &Leaf, place: usize) -> Self;

    /// Returns the leaf with `self` at `place` and zero elsewhere, in time that does not depend on
    /// either.
    fn at(self, place: u64) -> Leaf;

    /// Returns the sum.
    fn add(self, other: Self) -> Self;

    /// Returns the sums of two leaves' outputs, output by output.
    fn add_leaves(a: &Leaf, b: &Leaf) -> Leaf;

    /// Returns the negatives of a leaf's outputs.
    fn negate_leaf(leaf: &Leaf) -> Leaf;

    /// Returns a party's share of a leaf: the seed's expansion, with the correction added if the
    /// seed's control bit is set (`mask` all ones, else 0), negated for [`Party::One`].
    #[inline(always)]
    fn share(expanded: &Leaf, mask: u128, correction: &Leaf, party: Party) -> Leaf {
        let masked = correction.map(|block| block & mask);
        let sum = Self::add_leaves(expanded, &masked);
        match party {
            Party::Zero => sum,
            Party::One => Self::negate_leaf(&sum),
        }
    }
}

/// One bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bit(
    /// True if the bit is set.
    pub bool,
);

impl Output for Bit {
    const KIND: OutputKind = OutputKind::Bit;

    fn of(leaf: &Leaf, place: usize) -> Self {
        Self(leaf[place / 128] >> (place % 128) & 1 == 1)
    }

    fn at(self, place: u64) -> Leaf {
        // Shifts of 64 bits are a single instruction everywhere; wider shifts may be a function
        // that branches.
        let bit = u64::from(self.0) << (place % 64);
        let words: [u64; 8] = std::array::from_fn(|i| {
            let here = subtle::ConstantTimeEq::ct_eq(&(i as u64), &(place / 64));
            u64::conditional_select(&0, &bit, here)
        });
        cast(words)
    }

    fn add(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    #[inline(always)]
    fn add_leaves(a: &Leaf, b: &Leaf) -> Leaf {
        std::array::from_fn(|i| a[i] ^ b[i])
    }

    #[inline(always)]
    fn negate_leaf(leaf: &Leaf) -> Leaf {
        *leaf
    }
}

/// Implements outputs that are words of a leaf, for words of any width.
macro_rules! words {
    ($($word:ty, $kind:ident;)*) => {$(
        impl Output for $word {
            const KIND: OutputKind = OutputKind::$kind;

            fn of(leaf: &Leaf, place: usize) -> Self {
                cast_ref::<Leaf, Words<$word>>(leaf)[place]
            }

            fn at(self, place: u64) -> Leaf {
                let words: Words<$word> = std::array::from_fn(|i| {
                    let here = subtle::ConstantTimeEq::ct_eq(&(i as u64), &place);
                    <$word>::conditional_select(&0, &self, here)
                });
                cast(words)
            }

            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn add_leaves(a: &Leaf, b: &Leaf) -> Leaf {
                let (a, b): (&Words<$word>, &Words<$word>) = (cast_ref(a), cast_ref(b));
                let sums: Words<$word> = std::array::from_fn(|i| a[i].wrapping_add(b[i]));
                cast(sums)
            }

            #[inline(always)]
            fn negate_leaf(leaf: &Leaf) -> Leaf {
                let words: &Words<$word> = cast_ref(leaf);
                cast::<Words<$word>, Leaf>(words.map(<$word>::wrapping_neg))
            }
        }

        impl PerLeaf for $word {
            type Words = [$word; size_of::<Leaf>() / size_of::<$word>()];
        }
    )*};
}

/// The array of a leaf's words.
trait PerLeaf {
    type Words: Pod;
}

type Words<W> = <W as PerLeaf>::Words;

words! {
    u32, U32;
    u64, U64;
    u128, U128;
}

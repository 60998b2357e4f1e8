//! The steps on rings: expansion, products with plaintext polynomials, tournaments, modulus switching.
//!
//! A ciphertext (a, b) is two polynomials, a first, with phase b + a s. All arithmetic is exact modulo the
//! ring's primes, so that every backend gives the same words.

use std::ops::Range;
use std::sync::Arc;

use spirea_math::{Expansion, Gadget, Ring, Rotations};

use crate::{Backend, BackendError, FixedPacking, PanelLayout};

/// A client's evaluation keys: ciphertexts as values (transformed), one after another.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationKeys<'a> {
    /// The gadget of the substitutions.
    pub expansion_gadget: Gadget,
    /// For each level of the expansion, for each digit i, a ciphertext of phase `factor_i s(X^k)` with the
    /// level's exponent k.
    pub expansion: &'a [u32],
    /// The same for each of the exponents of [`Rotations::keys`]; empty if nothing is rotated.
    pub rotations: &'a [u32],
    /// The gadget of the conversion to RGSW.
    pub conversion_gadget: Gadget,
    /// For each digit i a ciphertext of phase `factor_i s`, then for each digit one of phase `factor_i s^2`:
    /// the RGSW encryption of s. Empty if nothing is converted.
    pub conversion: &'a [u32],
}

impl EvaluationKeys<'_> {
    /// Levels of expansion that the keys serve.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they are not whole keys of the ring.
    pub fn levels(&self, ring: &Ring) -> Result<u32, BackendError> {
        let substitution = self.expansion_gadget.levels(ring) * 2 * ring.words();
        let conversion = 2 * self.conversion_gadget.levels(ring) * 2 * ring.words();
        let whole = self.expansion.len().is_multiple_of(substitution)
            && (self.rotations.is_empty() || self.rotations.len() == Rotations::KEYS * substitution)
            && (self.conversion.is_empty() || self.conversion.len() == conversion);
        if !whole {
            return Err(BackendError::Shape("evaluation keys are not whole keys of the ring".into()));
        }
        Ok((self.expansion.len() / substitution) as u32)
    }
}

/// Writes the coefficients of the plaintext polynomial at (row, column), in order; each of magnitude up to
/// 2^31.
pub type FillPolynomial<'a> = dyn Fn(usize, usize, &mut [i32]) + Sync + 'a;

/// How many bits a switched ciphertext has for each coefficient of a and of b: 1 to 56 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SwitchedBits {
    /// Bits of a coefficient of a.
    pub a: u32,
    /// Bits of a coefficient of b.
    pub b: u32,
}

impl SwitchedBits {
    /// Bytes of a switched ciphertext: its N coefficients of a, then those of b, each in its number of bits,
    /// lowest bit first, without gaps.
    pub fn bytes(&self, degree: usize) -> usize {
        (self.a + self.b) as usize * degree / 8
    }

    /// The bytes of all a halves of switched ciphertexts, and those of all b halves.
    pub fn halves(&self, degree: usize, ciphertexts: &[u8]) -> [Vec<u8>; 2] {
        let of_a = self.a as usize * degree / 8;
        let halves = || ciphertexts.chunks_exact(self.bytes(degree)).map(|bytes| bytes.split_at(of_a));
        [halves().flat_map(|(a, _)| a).copied().collect(), halves().flat_map(|(_, b)| b).copied().collect()]
    }
}

/// The upper `bits` bits of a word, 1 to 31, rounded, as the representative of least magnitude modulo 2^bits. An
/// uncentred lift would add noise coherently (VIPIR appendix C.1).
pub fn centred(word: u32, bits: u32) -> i32 {
    // The carry out of the top is a multiple of 2^32 and vanishes, as it must modulo 2^bits.
    word.wrapping_add(1 << (31 - bits)) as i32 >> (32 - bits)
}

/// What [`RingBackend::encode_fold`] makes of a fold: `blocks` rows of polynomials of `degree` coefficients of `bits`
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FoldedBlocks {
    /// Rows of polynomials.
    pub blocks: usize,
    /// Bits of a coefficient.
    pub bits: u32,
}

impl FoldedBlocks {
    /// Checks that columns for matrices in one layout can be folded with a matrix in another one, and fill the blocks.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they cannot.
    pub fn check(
        &self,
        matrix: PanelLayout,
        columns: PanelLayout,
        degree: usize,
    ) -> Result<(), BackendError> {
        let Self { blocks, bits } = *self;
        let rows = blocks.checked_mul(degree).filter(|&rows| rows > 0 && rows <= matrix.rows());
        if matrix != columns || rows.is_none() || !(1..=31).contains(&bits) {
            return Err(BackendError::Shape(format!(
                "{blocks} blocks of {degree} coefficients of {bits} bits of a fold of {matrix:?} with columns for \
                 {columns:?}"
            )));
        }
        Ok(())
    }
}

/// Which words of a fold's answers are the bodies of a batch of queries: the same ones of each query's answer, and answers
/// lie one after another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bodies {
    /// Those of the first query, among the words of all answers.
    pub first: Range<usize>,
    /// Words from one query's to the next one's.
    pub stride: usize,
}

impl Bodies {
    /// All words of answers of `words` words each, from number `answer` on.
    pub fn whole(answer: usize, words: usize) -> Self {
        Self { first: answer * words..(answer + 1) * words, stride: words }
    }

    /// The words of one query.
    pub fn of(&self, query: usize) -> Range<usize> {
        let skipped = query * self.stride;
        self.first.start + skipped..self.first.end + skipped
    }

    /// Checks that these are words among `answers` words, at most `coefficients` for each of `queries` queries.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they are not.
    pub fn check(&self, queries: usize, answers: usize, coefficients: usize) -> Result<(), BackendError> {
        let skipped = queries.saturating_sub(1).checked_mul(self.stride);
        let end = skipped.and_then(|skipped| self.first.end.checked_add(skipped));
        let there = self.first.start <= self.first.end && end.is_some_and(|end| end <= answers);
        if !there || self.first.len() > coefficients {
            return Err(BackendError::Shape(format!(
                "{self:?} of {queries} queries with {coefficients} coefficients each, of {answers} words of answers"
            )));
        }
        Ok(())
    }
}

/// How packed ciphertexts end: with which bodies added, in how many bits.
#[derive(Debug)]
pub struct PackedEnds<'a, F> {
    /// The answers of a fold.
    pub folded: &'a F,
    /// Which of their words are bodies, see [`RingBackend::add_bodies`].
    pub bodies: &'a Bodies,
    /// Bits of the plaintext modulus.
    pub plaintext_bits: u32,
    /// Bits of the response.
    pub switched: SwitchedBits,
}

/// Checks that two operands of a batch are of the same number of queries.
///
/// # Errors
/// [`BackendError::Shape`] if they are not.
pub fn check_batches(one: usize, other: usize) -> Result<(), BackendError> {
    if one == other {
        return Ok(());
    }
    Err(BackendError::Shape(format!("operands of {one} and of {other} queries")))
}

/// Checks that a ring has the subring that is rotated.
///
/// # Errors
/// [`BackendError::Shape`] if it has not.
pub fn check_rotations(ring: &Ring, rotations: Rotations) -> Result<(), BackendError> {
    if rotations.entries() <= ring.degree() {
        return Ok(());
    }
    Err(BackendError::Shape(format!("chunks of {} entries in degree {}", rotations.entries(), ring.degree())))
}

/// How many ciphertexts of a ring each of `queries` queries has in these words, in the form of
/// [`RingBackend::ciphertext_words`].
///
/// # Errors
/// [`BackendError::Shape`] if they are not as many whole ciphertexts of each, or a value is not below its prime.
pub fn check_ciphertexts(ring: &Ring, queries: usize, words: &[u32]) -> Result<usize, BackendError> {
    let of_queries = queries.saturating_mul(2 * ring.words());
    let below = |polynomial: &[u32]| {
        let limbs = polynomial.chunks_exact(ring.degree()).zip(ring.limbs());
        limbs.into_iter().all(|(values, limb)| values.iter().all(|&value| value < limb.prime().value()))
    };
    if of_queries == 0
        || !words.len().is_multiple_of(of_queries)
        || !words.chunks_exact(ring.words()).all(below)
    {
        let words = words.len();
        return Err(BackendError::Shape(format!(
            "{words} words that are not ciphertexts of {queries} queries, or not below the ring's primes"
        )));
    }
    Ok(words.len() / of_queries)
}

/// The operations of a PIR server on rings.
///
/// Leaves, selectors, ciphertexts and matrices are values of a whole batch: of one query after another, each of a client
/// with keys of its own. Every operation takes all of them at once.
pub trait RingBackend: Backend {
    /// The tables of a ring.
    type Tables: Send + Sync;
    /// A client's evaluation keys.
    type Keys: Send + Sync;
    /// A matrix of plaintext polynomials in transformed form (step `encode`), the same for all queries.
    type Plain: Send + Sync;
    /// Columns of a public matrix that matrices are folded with.
    type Columns: Send + Sync;
    /// The leaves of a batch of expanded queries, as many of each query.
    type Leaves: Send + Sync;
    /// Ciphertexts of a batch, as many of each query, in order.
    type Ciphertexts: Send + Sync;
    /// RGSW encryptions of the bits of each query's index.
    type Selectors: Send + Sync;
    /// Matrices of switched ciphertexts (step `reinterpret`), one of each query.
    type Matrices: Send + Sync;
    /// What packing needs of uniform halves that are constants, see [`RingBackend::fix_uniform`].
    type Fixed: Send + Sync;

    /// Bytes of memory that the leaves of a batch may have: whoever has more queries expands them in groups.
    fn leaves_memory(&self) -> u64;

    /// The tables of `ring`.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no room for them.
    fn tables(&self, ring: &Arc<Ring>) -> Result<Self::Tables, BackendError>;

    /// Takes a client's evaluation keys.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they are not whole keys of the ring.
    fn keys(&self, tables: &Self::Tables, keys: EvaluationKeys<'_>) -> Result<Self::Keys, BackendError>;

    /// Step `encode`: a matrix of plaintext polynomials, to fold with; `fill` gives their coefficients.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no room for it.
    fn encode(
        &self,
        tables: &Self::Tables,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<Self::Plain, BackendError>;

    /// Step `expand`: each query's ciphertext (values) with its client's keys.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a ciphertext is not of the ring or keys do not serve the expansion's levels.
    fn expand(
        &self,
        tables: &Self::Tables,
        expansion: Expansion,
        queries: &[(&Self::Keys, &[u32])],
    ) -> Result<Self::Leaves, BackendError>;

    /// Goes on with the expansion of a batch at one leaf of each query, with its client's keys: one of `keys` for each.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there is no such leaf, or not as many keys as queries, or keys do not serve the
    /// expansion's levels.
    fn expand_leaf(
        &self,
        tables: &Self::Tables,
        expansion: Expansion,
        keys: &[&Self::Keys],
        leaves: &Self::Leaves,
        leaf: usize,
    ) -> Result<Self::Leaves, BackendError>;

    /// Step `rotate`: the images of each query's first leaves, its chunks, under the small automorphisms, in the order
    /// that [`Rotations::of_chunk`] says. The image under 5^(i + 1) is made of that under 5^i, and each one under -5^i of
    /// that under 5^i.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there are fewer leaves than chunks, or not as many keys as queries, or keys without
    /// rotations.
    fn rotate(
        &self,
        tables: &Self::Tables,
        rotations: Rotations,
        keys: &[&Self::Keys],
        leaves: &Self::Leaves,
    ) -> Result<Self::Leaves, BackendError>;

    /// Steps `poly_fold` and, before bodies are added, `pack`: for each query and each row r of each of `plain` in turn,
    /// the ciphertext that is the sum over columns c of `plain[r][c] * leaves[c]`.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there are fewer leaves than columns.
    fn poly_fold(
        &self,
        tables: &Self::Tables,
        plain: &[Self::Plain],
        leaves: &Self::Leaves,
    ) -> Result<Self::Ciphertexts, BackendError>;

    /// The rest of packing by rotations: for each [`Rotations::big`] ciphertexts c_0, c_1, ... of a query in a row, the
    /// sum of the images of c_j under the big automorphisms, by Horner's rule from the last one on.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a query has not so many for each sum, or not as many keys as queries, or keys without
    /// rotations.
    fn sum_rotated(
        &self,
        tables: &Self::Tables,
        rotations: Rotations,
        keys: &[&Self::Keys],
        ciphertexts: Self::Ciphertexts,
    ) -> Result<Self::Ciphertexts, BackendError>;

    /// The rest of step `pack`: adds floor(q / 2^bits) times the upper `bits` bits of each word of `bodies` in
    /// `folded`, rounded, to b; N words for each ciphertext, fewer of which stand for zeros at the end.
    ///
    /// # Errors
    /// [`BackendError::Shape`] as [`Bodies::check`], or for more than 31 bits.
    fn add_bodies(
        &self,
        tables: &Self::Tables,
        ciphertexts: &mut Self::Ciphertexts,
        folded: &Self::Folded,
        bodies: &Bodies,
        bits: u32,
    ) -> Result<(), BackendError>;

    /// RGSW encryptions of `depth` bits, for `gadget`. Leaf `first + bit * levels + i` of a query encrypts factor i of
    /// the gadget times the bit; the conversion keys of its client, one of `keys` for each query, multiply it by s.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there are not as many leaves, or not as many keys as queries, or no conversion keys.
    fn selectors(
        &self,
        tables: &Self::Tables,
        keys: &[&Self::Keys],
        leaves: &Self::Leaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<Self::Selectors, BackendError>;

    /// Step `rgsw_fold`: of each query the ciphertext whose number its selectors encrypt, lowest bit first, by a
    /// tournament of external products: `c0 + bit * (c1 - c0)`. One without a partner goes on as it is.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a query has none or more than 2^depth ciphertexts, or the selectors are of another
    /// number of queries.
    fn rgsw_fold(
        &self,
        tables: &Self::Tables,
        selectors: &Self::Selectors,
        ciphertexts: Self::Ciphertexts,
    ) -> Result<Self::Ciphertexts, BackendError>;

    /// The words of ciphertexts, for whoever needs them beside the backend: query by query, of each ciphertext a's values
    /// and then b's, prime by prime, below the primes, in the order of the ring's transform.
    ///
    /// # Errors
    /// [`BackendError::Device`] if what computed them failed.
    fn ciphertext_words(
        &self,
        tables: &Self::Tables,
        ciphertexts: &Self::Ciphertexts,
    ) -> Result<Vec<u32>, BackendError>;

    /// Ciphertexts of these words, as many of each of `queries` queries: what [`Self::ciphertext_words`] gives, here or
    /// elsewhere, where this backend goes on with it.
    ///
    /// # Errors
    /// [`BackendError::Shape`] as [`check_ciphertexts`]; [`BackendError::Unavailable`] if there is no room.
    fn ciphertexts(
        &self,
        tables: &Self::Tables,
        queries: usize,
        words: &[u32],
    ) -> Result<Self::Ciphertexts, BackendError>;

    /// Step `mod_switch`: coefficients x to round(x 2^bits / q) mod 2^bits, halves upwards, in the form of
    /// [`SwitchedBits::bytes`]. Gives the bytes of each query: those of its ciphertexts in each of `parts`, one after
    /// another. A device has all of them queued before the host waits for any.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the parts are of different numbers of queries, or the bits out of range.
    fn mod_switch(
        &self,
        tables: &Self::Tables,
        parts: &[&Self::Ciphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError>;

    /// Step `reinterpret` of switched ciphertexts: for each query a matrix with the bytes of [`Self::mod_switch`] of
    /// ciphertext c down column c; what is left of `layout` is zeros.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the layout has fewer rows than bytes or fewer columns than ciphertexts.
    fn reinterpret(
        &self,
        tables: &Self::Tables,
        ciphertexts: &Self::Ciphertexts,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<Self::Matrices, BackendError>;

    /// Step `scalar_fold` of each query with a matrix of its own: as [`Backend::scalar_fold`] otherwise.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there are not as many queries as matrices.
    fn scalar_fold_own(
        &self,
        matrices: &Self::Matrices,
        queries: &[u32],
    ) -> Result<Self::Folded, BackendError>;

    /// Takes columns of a public matrix that matrices in `layout` are going to be folded with: `layout.columns()`
    /// words each.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they are not whole columns, at least one.
    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<Self::Columns, BackendError>;

    /// Steps `scalar_fold`, `encode` and `poly_fold` in one, of each query with a matrix of its own: the ciphertexts
    /// that [`Self::poly_fold`] makes of its leaves and of the plaintext polynomials of the fold of its matrix with
    /// each of `columns`. Coefficient j of polynomial (block, k) is word `block N + j` of the answer to column k,
    /// rounded and [`centred`]. The polynomials are large, and nobody needs them but for one query's product: a
    /// backend holds those of one query at a time.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the columns are not for matrices of this layout, its rows do not fill the blocks, or
    /// there are fewer leaves than columns; [`BackendError::Unavailable`] if there is no room.
    fn encode_fold(
        &self,
        tables: &Self::Tables,
        matrices: &Self::Matrices,
        columns: &Self::Columns,
        folded: FoldedBlocks,
        leaves: &Self::Leaves,
    ) -> Result<Self::Ciphertexts, BackendError>;

    /// Computes what all queries have in common whose uniform halves, and those of the keys that they bring, are
    /// `uniform` (values, in the order of [`FixedPacking`]), and whose results are packed with `plain`: digits of every
    /// substitution, so that a query takes no transform but for what is added and what is sent. Gives it with the a
    /// halves of all results, in the bits of a response.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if these are not the polynomials of a query, or plaintexts are for other rotations;
    /// [`BackendError::Unavailable`] if there is no room.
    fn fix_uniform(
        &self,
        tables: &Self::Tables,
        packing: FixedPacking,
        uniform: &[u32],
        plain: &[Self::Plain],
        bits: SwitchedBits,
    ) -> Result<(Self::Fixed, Vec<u8>), BackendError>;

    /// Steps `expand`, `rotate`, `poly_fold`, `pack` and `mod_switch` of queries whose uniform halves are constants: for
    /// each of them, of its b halves (values below the primes, in the order of [`FixedPacking`]), the b halves of its
    /// results with bodies added, in the bits of a response, one after another. The same bytes as of whole ciphertexts.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if these are not the polynomials of queries, or plaintexts are others than those that
    /// were fixed, or as [`Self::add_bodies`].
    fn pack_fixed(
        &self,
        tables: &Self::Tables,
        fixed: &Self::Fixed,
        plain: &[Self::Plain],
        queries: &[&[u32]],
        ends: PackedEnds<'_, Self::Folded>,
    ) -> Result<Vec<Vec<u8>>, BackendError>;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::sync::Arc;

    use spirea_math::Modulus;

    use super::*;
    use crate::NaiveBackend;

    #[test]
    fn words_are_ciphertexts_below_the_primes() {
        let primes = [Modulus::new(12289), Modulus::new(7681)];
        let ring = Arc::new(Ring::new(16, &primes));
        // Two queries of three ciphertexts each, every value as large as it can be.
        let limbs = [vec![12288; 16], vec![7680; 16]].concat();
        let words = limbs.repeat(2 * 3 * 2);
        assert_eq!(check_ciphertexts(&ring, 2, &words).unwrap(), 3);
        let ciphertexts = NaiveBackend.ciphertexts(&ring, 2, &words).unwrap();
        assert_eq!(NaiveBackend.ciphertext_words(&ring, &ciphertexts).unwrap(), words);
        let mut large = words.clone();
        large[31] = 7681;
        for (queries, words) in [(0, &words[..]), (5, &words), (2, &words[1..]), (2, &large)] {
            assert!(matches!(check_ciphertexts(&ring, queries, words), Err(BackendError::Shape(_))));
        }
    }

    proptest! {
        #[test]
        fn centred_words_are_near_the_word(word: u32, bits in 1u32..=31) {
            let value = centred(word, bits);
            prop_assert!(i64::from(value).abs() <= 1 << (bits - 1));
            let back = (value as u32) << (32 - bits);
            prop_assert!(i64::from(back.wrapping_sub(word) as i32).abs() <= 1 << (31 - bits));
        }
    }
}

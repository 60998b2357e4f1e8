//! The steps on rings: expansion, products with plaintext polynomials, tournaments, modulus
//! switching.
//!
//! A ciphertext (`a`, `b`) consists of two polynomials in this order, and has the phase b + a s.
//! All arithmetic is exact modulo the ring's primes, so every backend gives the same words.

use std::ops::Range;
use std::sync::Arc;

use spirea_math::{Expansion, Gadget, Ring, Rotations};

use crate::{Backend, BackendError, FixedPacking, PanelLayout};

/// A client's evaluation keys: ciphertexts in transformed form (values), one after another.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationKeys<'a> {
    /// The gadget of the substitutions.
    pub expansion_gadget: Gadget,
    /// For each level of the expansion, for each digit i, a ciphertext of phase `factor_i s(X^k)`,
    /// where k is the level's exponent.
    pub expansion: &'a [u32],
    /// Ciphertexts as in `expansion`, for each of the exponents of [`Rotations::keys`]; empty if
    /// nothing is rotated.
    pub rotations: &'a [u32],
    /// The gadget of the conversion to RGSW.
    pub conversion_gadget: Gadget,
    /// RGSW encryption of s: for each digit i a ciphertext of phase `factor_i s`, then for each
    /// digit i a ciphertext of phase `factor_i s^2`. Empty if nothing is converted.
    pub conversion: &'a [u32],
}

impl EvaluationKeys<'_> {
    /// Returns the number of levels of expansion that the keys serve.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if these are not whole keys of the ring.
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

/// Writes the coefficients of the plaintext polynomial at (row, column), in order. Each has a
/// magnitude of at most 2^31.
pub type FillPolynomial<'a> = dyn Fn(usize, usize, &mut [i32]) + Sync + 'a;

/// Numbers of bits of a switched ciphertext's coefficients: 1 to 56 for `a`, and 1 to 56 for `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SwitchedBits {
    /// Bits of a coefficient of `a`.
    pub a: u32,
    /// Bits of a coefficient of `b`.
    pub b: u32,
}

impl SwitchedBits {
    /// Returns the number of bytes of a switched ciphertext. It stores the N coefficients of `a`,
    /// then those of `b`, each in its number of bits, lowest bit first, without gaps.
    pub fn bytes(&self, degree: usize) -> usize {
        (self.a + self.b) as usize * degree / 8
    }

    /// Returns the bytes of the halves `a` of all switched ciphertexts, and the bytes of the halves
    /// `b`.
    pub fn halves(&self, degree: usize, ciphertexts: &[u8]) -> [Vec<u8>; 2] {
        let of_a = self.a as usize * degree / 8;
        let halves = || ciphertexts.chunks_exact(self.bytes(degree)).map(|bytes| bytes.split_at(of_a));
        [halves().flat_map(|(a, _)| a).copied().collect(), halves().flat_map(|(_, b)| b).copied().collect()]
    }
}

/// Returns the upper `bits` bits of a word, 1 to 31, rounded, as the representative of least
/// magnitude modulo 2^bits. An uncentred lift would add noise coherently (VIPIR appendix C.1).
pub fn centred(word: u32, bits: u32) -> i32 {
    // A carry out of the top bit is a multiple of 2^32 and vanishes, which is correct modulo
    // 2^bits.
    word.wrapping_add(1 << (31 - bits)) as i32 >> (32 - bits)
}

/// Shape of a fold in [`RingBackend::encode_fold`]: `blocks` rows of polynomials with coefficients
/// of `bits` bits. A polynomial has as many coefficients as the ring's degree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FoldedBlocks {
    /// Rows of polynomials.
    pub blocks: usize,
    /// Bits of a coefficient.
    pub bits: u32,
}

impl FoldedBlocks {
    /// Checks that `columns` are for matrices of layout `matrix`, and that the matrix has the rows
    /// of all blocks.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they are not, if rows are missing, or if the bits are not 1 to
    /// 31.
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

/// Positions of a batch's bodies among the words of a fold's answers. The answers lie one after
/// another; the positions within each query's answer are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bodies {
    /// Bodies of the first query, among the words of all answers.
    pub first: Range<usize>,
    /// Words from one query's bodies to the next query's.
    pub stride: usize,
}

impl Bodies {
    /// Returns positions for answers of `words` words, all of which are bodies. The first query's
    /// answer has the number `answer`.
    pub fn whole(answer: usize, words: usize) -> Self {
        Self { first: answer * words..(answer + 1) * words, stride: words }
    }

    /// Returns the range of one query's bodies.
    pub fn of(&self, query: usize) -> Range<usize> {
        let skipped = query * self.stride;
        self.first.start + skipped..self.first.end + skipped
    }

    /// Checks that the bodies of `queries` queries lie within `answers` words, with at most
    /// `coefficients` words for each query.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they do not.
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

/// Last operands of packing: the bodies to add and the bits of the response.
#[derive(Debug)]
pub struct PackedEnds<'a, F> {
    /// The answers of a fold.
    pub folded: &'a F,
    /// Positions of the bodies in `folded`, see [`RingBackend::add_bodies`].
    pub bodies: &'a Bodies,
    /// Bits of the plaintext modulus.
    pub plaintext_bits: u32,
    /// Bits of the response.
    pub switched: SwitchedBits,
}

/// Checks that two operands belong to the same number of queries.
///
/// # Errors
/// [`BackendError::Shape`] if they do not.
pub fn check_batches(one: usize, other: usize) -> Result<(), BackendError> {
    if one == other {
        return Ok(());
    }
    Err(BackendError::Shape(format!("operands of {one} and of {other} queries")))
}

/// Checks that a ring contains the subring of the rotations.
///
/// # Errors
/// [`BackendError::Shape`] if it does not.
pub fn check_rotations(ring: &Ring, rotations: Rotations) -> Result<(), BackendError> {
    if rotations.entries() <= ring.degree() {
        return Ok(());
    }
    Err(BackendError::Shape(format!("chunks of {} entries in degree {}", rotations.entries(), ring.degree())))
}

/// Returns the number of ciphertexts that each of `queries` queries has in `words`, which are in
/// the form of [`RingBackend::ciphertext_words`].
///
/// # Errors
/// [`BackendError::Shape`] if the queries do not have equal numbers of whole ciphertexts, or a
/// value is not below its prime.
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
/// Leaves, selectors, ciphertexts and matrices are values of a whole batch, query after query; each
/// query belongs to a client with its own keys. Every operation processes the whole batch at once.
pub trait RingBackend: Backend {
    /// The tables of a ring.
    type Tables: Send + Sync;
    /// A client's evaluation keys.
    type Keys: Send + Sync;
    /// A matrix of plaintext polynomials in transformed form (step `encode`), the same for all
    /// queries.
    type Plain: Send + Sync;
    /// Columns of a public matrix, with which matrices are folded.
    type Columns: Send + Sync;
    /// Leaves of a batch of expanded queries, the same number for each query.
    type Leaves: Send + Sync;
    /// Ciphertexts of a batch in order, the same number for each query.
    type Ciphertexts: Send + Sync;
    /// RGSW encryptions of the bits of each query's index.
    type Selectors: Send + Sync;
    /// Matrices of switched ciphertexts (step `reinterpret`), one for each query.
    type Matrices: Send + Sync;
    /// Values computed from constant uniform halves, for packing; see [`RingBackend::fix_uniform`].
    type Fixed: Send + Sync;

    /// Returns the limit, in bytes, on the memory of a batch's leaves. A caller with more queries
    /// expands them in groups.
    fn leaves_memory(&self) -> u64;

    /// Computes the tables of `ring`.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no room for them.
    fn tables(&self, ring: &Arc<Ring>) -> Result<Self::Tables, BackendError>;

    /// Uploads a client's evaluation keys.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if these are not whole keys of the ring.
    fn keys(&self, tables: &Self::Tables, keys: EvaluationKeys<'_>) -> Result<Self::Keys, BackendError>;

    /// Step `encode`: builds a matrix of plaintext polynomials for folds; `fill` writes their
    /// coefficients.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no room for the matrix.
    fn encode(
        &self,
        tables: &Self::Tables,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<Self::Plain, BackendError>;

    /// Step `expand`: expands each query's ciphertext (values) with its client's keys.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a ciphertext does not belong to the ring or the keys do not serve
    /// the expansion's levels.
    fn expand(
        &self,
        tables: &Self::Tables,
        expansion: Expansion,
        queries: &[(&Self::Keys, &[u32])],
    ) -> Result<Self::Leaves, BackendError>;

    /// Creates leaves from ciphertexts (values) that need no expansion. All `queries` queries have
    /// the same number of ciphertexts.
    ///
    /// # Errors
    /// Those of [`Self::ciphertexts`].
    fn leaves(
        &self,
        tables: &Self::Tables,
        queries: usize,
        words: &[u32],
    ) -> Result<Self::Leaves, BackendError>;

    /// Continues the expansion of a batch at one leaf of each query, with the keys of the query's
    /// client. `keys` has one element for each query.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there is no such leaf, the numbers of keys and queries differ, or
    /// the keys do not serve the expansion's levels.
    fn expand_leaf(
        &self,
        tables: &Self::Tables,
        expansion: Expansion,
        keys: &[&Self::Keys],
        leaves: &Self::Leaves,
        leaf: usize,
    ) -> Result<Self::Leaves, BackendError>;

    /// Step `rotate`: computes the images of each query's chunks, which are its first leaves, under
    /// the small automorphisms, in the order of [`Rotations::of_chunk`]. The images under 5^(i + 1)
    /// and under -5^i are computed from the image under 5^i.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there are fewer leaves than chunks, the numbers of keys and
    /// queries differ, or keys have no rotations.
    fn rotate(
        &self,
        tables: &Self::Tables,
        rotations: Rotations,
        keys: &[&Self::Keys],
        leaves: &Self::Leaves,
    ) -> Result<Self::Leaves, BackendError>;

    /// Step `poly_fold`, and the part of step `pack` that precedes the addition of bodies. For each
    /// query, it takes the matrices of `plain` in turn. For each row r of a matrix, it computes one
    /// ciphertext, the sum over columns c of `matrix[r][c] * leaves[c]`.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there are fewer leaves than columns.
    fn poly_fold(
        &self,
        tables: &Self::Tables,
        plain: &[Self::Plain],
        leaves: &Self::Leaves,
    ) -> Result<Self::Ciphertexts, BackendError>;

    /// Last part of packing by rotations: for each run of [`Rotations::big`] ciphertexts c_0, c_1,
    /// ... of a query, computes the sum of the images of c_j under the big automorphisms, by
    /// Horner's rule from the last ciphertext on.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a query's ciphertexts are not whole runs, the numbers of keys and
    /// queries differ, or keys have no rotations.
    fn sum_rotated(
        &self,
        tables: &Self::Tables,
        rotations: Rotations,
        keys: &[&Self::Keys],
        ciphertexts: Self::Ciphertexts,
    ) -> Result<Self::Ciphertexts, BackendError>;

    /// Last part of step `pack`: rounds each word of `bodies` in `folded` to its upper `bits` bits
    /// and adds them, times floor(q / 2^bits), to b. Each ciphertext takes N words; if words are
    /// missing at the end, they count as zeros.
    ///
    /// # Errors
    /// Errors of [`Bodies::check`]; [`BackendError::Shape`] for more than 31 bits.
    fn add_bodies(
        &self,
        tables: &Self::Tables,
        ciphertexts: &mut Self::Ciphertexts,
        folded: &Self::Folded,
        bodies: &Bodies,
        bits: u32,
    ) -> Result<(), BackendError>;

    /// Builds RGSW encryptions of `depth` bits, for `gadget`. Leaf `first + bit * levels + i` of a
    /// query encrypts factor i of the gadget times the bit. The conversion keys of the query's
    /// client multiply these leaves by s. `keys` has one element for each query.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there are too few leaves, the numbers of keys and queries differ,
    /// or there are no conversion keys.
    fn selectors(
        &self,
        tables: &Self::Tables,
        keys: &[&Self::Keys],
        leaves: &Self::Leaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<Self::Selectors, BackendError>;

    /// Step `rgsw_fold`: selects from each query the ciphertext whose number its selectors encrypt,
    /// lowest bit first, by a tournament of external products: `c0 + bit * (c1 - c0)`. A ciphertext
    /// without a partner advances unchanged.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a query has no ciphertexts or more than 2^depth, or the selectors
    /// belong to another number of queries.
    fn rgsw_fold(
        &self,
        tables: &Self::Tables,
        selectors: &Self::Selectors,
        ciphertexts: Self::Ciphertexts,
    ) -> Result<Self::Ciphertexts, BackendError>;

    /// Returns the words of ciphertexts, for use outside the backend. Query by query, each
    /// ciphertext has the values of `a`, then those of `b`, prime by prime, below the primes, in
    /// the order of the ring's transform.
    ///
    /// # Errors
    /// [`BackendError::Device`] if their computation failed.
    fn ciphertext_words(
        &self,
        tables: &Self::Tables,
        ciphertexts: &Self::Ciphertexts,
    ) -> Result<Vec<u32>, BackendError>;

    /// Returns ciphertexts made of `words`, the same number for each of `queries` queries, so that
    /// this backend can continue with them. The words come from [`Self::ciphertext_words`], here or
    /// elsewhere.
    ///
    /// # Errors
    /// Errors of [`check_ciphertexts`]; [`BackendError::Unavailable`] if there is no room.
    fn ciphertexts(
        &self,
        tables: &Self::Tables,
        queries: usize,
        words: &[u32],
    ) -> Result<Self::Ciphertexts, BackendError>;

    /// Step `mod_switch`: maps each coefficient x to round(x 2^bits / q) mod 2^bits, with ties
    /// rounded up, in the form of [`SwitchedBits::bytes`]. Returns the bytes of each query: those
    /// of its ciphertexts in each of `parts`, one after another. A device queues all parts before
    /// the host waits for any.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the parts belong to different numbers of queries, or the bits are
    /// out of range.
    fn mod_switch(
        &self,
        tables: &Self::Tables,
        parts: &[&Self::Ciphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError>;

    /// Step `reinterpret` for switched ciphertexts: builds a matrix for each query, with the bytes
    /// of [`Self::mod_switch`] of ciphertext c in column c. The rest of `layout` is zeros.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the layout has fewer rows than bytes or fewer columns than
    /// ciphertexts.
    fn reinterpret(
        &self,
        tables: &Self::Tables,
        ciphertexts: &Self::Ciphertexts,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<Self::Matrices, BackendError>;

    /// Step `scalar_fold` with a separate matrix for each query; otherwise as
    /// [`Backend::scalar_fold`].
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the numbers of queries and matrices differ.
    fn scalar_fold_own(
        &self,
        matrices: &Self::Matrices,
        queries: &[u32],
    ) -> Result<Self::Folded, BackendError>;

    /// Uploads columns of a public matrix, with which matrices in `layout` are folded. Each column
    /// has `layout.columns()` words.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if `words` is not a whole number of columns, at least 1.
    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<Self::Columns, BackendError>;

    /// Steps `scalar_fold`, `encode` and `poly_fold` in one, with a separate matrix for each query.
    /// Folds the query's matrix with each of `columns`, and encodes the fold as plaintext
    /// polynomials. Returns [`Self::poly_fold`] of these polynomials and the query's leaves.
    /// Coefficient j of polynomial (block, k) is word `block N + j` of the answer to column k,
    /// rounded and [`centred`]. The polynomials are large and needed for one query's product only,
    /// so a backend holds those of one query at a time.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the columns are not for matrices of this layout, its rows do not
    /// fill the blocks, or there are fewer leaves than columns; [`BackendError::Unavailable`] if
    /// there is no room.
    fn encode_fold(
        &self,
        tables: &Self::Tables,
        matrices: &Self::Matrices,
        columns: &Self::Columns,
        folded: FoldedBlocks,
        leaves: &Self::Leaves,
    ) -> Result<Self::Ciphertexts, BackendError>;

    /// Computes the values common to all queries with the same uniform halves. `uniform` holds the
    /// uniform halves of a query and its keys (values, in the order of [`FixedPacking`]). Results
    /// are packed with `plain`. The computed values are the digits of every substitution. With
    /// them, a query needs transforms only for the bodies that are added and the results that are
    /// sent. Returns the values, and the a halves of all results in the bits of a response.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if these are not the polynomials of a query, or the plaintexts are
    /// for other rotations; [`BackendError::Unavailable`] if there is no room.
    fn fix_uniform(
        &self,
        tables: &Self::Tables,
        packing: FixedPacking,
        uniform: &[u32],
        plain: &[Self::Plain],
        bits: SwitchedBits,
    ) -> Result<(Self::Fixed, Vec<u8>), BackendError>;

    /// Steps `expand`, `rotate`, `poly_fold`, `pack` and `mod_switch` for queries whose uniform
    /// halves are constants. Takes each query's b halves (values below the primes, in the order of
    /// [`FixedPacking`]). Returns the b halves of its results with bodies added, in the bits of a
    /// response, one after another. The bytes are the same as with whole ciphertexts.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if these are not the polynomials of queries, or the plaintexts
    /// differ from those given to [`Self::fix_uniform`]; errors of [`Self::add_bodies`].
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
        // Two queries of three ciphertexts each, with every value at its maximum.
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

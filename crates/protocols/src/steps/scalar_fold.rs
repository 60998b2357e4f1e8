//! Step `scalar_fold`: its rounded results, a client's decoding of them, and its noise.

use std::ops::Range;
use std::sync::Arc;

use spirea_backend::{Backend, FileRows, PanelLayout, QueryWords, Share, StoredFile};
use spirea_lattice::LweSet;
use spirea_lattice::lwe::{ENCODING_ERROR, FIELD_ORDER, SCALE_BITS};
use spirea_lattice::noise::{HintRounding, sub_gaussian_tail_log2, worst_fold_deviation};
use spirea_lattice::rlwe::noise::lwe_rounding;

use super::noise::field_exceedance_log2;
use super::query::QueryLayout;
use crate::ProtocolError;
use crate::bytes::{extend_words, words_to_bytes};
use crate::opening::Opening;
use crate::query::Query;
use crate::responder::Rows;

/// Bits of a fold's result that are kept for a second fold or a client. The noise of the fold is
/// far below 2^15. Rounding the 1280 or 1536 words of a phase adds a deviation of 8.4 or 9.2 units
/// of 2^16; decoding a byte tolerates 128 units.
pub(crate) const ROUNDED_BITS: u32 = 16;
/// Bytes of a rounded word.
pub(crate) const ROUNDED_BYTES: usize = ROUNDED_BITS as usize / 8;

/// Returns the upper 16 bits of a word, rounded.
pub(crate) fn round(word: u32) -> u16 {
    (word.wrapping_add(1 << (31 - ROUNDED_BITS)) >> (32 - ROUNDED_BITS)) as u16
}

/// Returns the bytes of each rounded word.
pub(crate) fn rounded(words: &[u32]) -> impl Iterator<Item = [u8; ROUNDED_BYTES]> + '_ {
    words.iter().map(|&word| round(word).to_le_bytes())
}

/// Returns the rounded words as bytes.
pub(crate) fn round_words(words: &[u32]) -> Vec<u8> {
    rounded(words).collect::<Vec<_>>().into_flattened()
}

/// Returns the word that a rounded word stands for.
pub(crate) fn unround(bytes: [u8; ROUNDED_BYTES]) -> u32 {
    u32::from(u16::from_le_bytes(bytes)) << (32 - ROUNDED_BITS)
}

/// Converts a phase modulo 2^32 to a fraction of 2^64.
pub(crate) fn fraction(phase: u32) -> u64 {
    u64::from(phase) << 32
}

/// Decodes a phase to a byte.
pub(crate) fn nearest_byte(phase: u32) -> u8 {
    (phase.wrapping_add(1 << (SCALE_BITS - 1)) >> SCALE_BITS) as u8
}

/// Returns the distance of a phase from the phase of its decoded byte, as a fraction of the
/// distance that decoding tolerates.
pub(crate) fn byte_error(phase: u32) -> f64 {
    let distance = phase.wrapping_sub(u32::from(nearest_byte(phase)) << SCALE_BITS) as i32;
    f64::from(distance) / f64::from(1 << (SCALE_BITS - 1))
}

/// Columns of a fold, and the number of low bits dropped from its bodies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoldedColumns {
    pub columns: usize,
    pub dropped_bits: u32,
}

impl FoldedColumns {
    /// Returns `columns` columns with unrounded bodies.
    pub fn whole(columns: usize) -> Self {
        Self { columns, dropped_bits: 0 }
    }

    /// Returns the variance of the fold for the worst database, relative to the square of the
    /// modulus.
    pub fn variance(self) -> f64 {
        (worst_fold_deviation(self.columns, self.dropped_bits) / 2f64.powi(32)).powi(2)
    }
}

/// Returns log2 of the estimated failure probability of `entries` bytes, if all words of their LWE
/// ciphertexts under `set` are rounded.
pub(crate) fn rounded_exceedance_log2(set: LweSet, folded: FoldedColumns, entries: usize, share: f64) -> f64 {
    field_exceedance_log2(folded.variance() + lwe_rounding(set, ROUNDED_BITS), entries, share)
}

/// Returns the rounding of a hint whose words keep 16 bits, like the words between two folds.
pub(crate) fn rounded_entirely(set: LweSet) -> HintRounding {
    HintRounding { entries: set.degree(), bits: ROUNDED_BITS }
}

/// Knowledge of the public matrix by those who chose a database's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// The content was fixed before the matrix was drawn.
    None,
    /// The content may be chosen against the matrix.
    Matrix,
}

/// Returns log2 of a bound on the probability that the error of any of `entries` numbers of the
/// field exceeds the fraction `share` of the error that decoding tolerates. The numbers are decoded
/// after a fold over `columns` columns, from an answer rounded to 16 bits and a hint rounded as
/// `hint` says. The bound holds for every database that was chosen with this knowledge of the
/// matrix.
///
/// The rounding of the hint does not depend on the secret, so it is sub-Gaussian
/// ([`HintRounding::proxy`], [`HintRounding::independent_tail_log2`]). The rounding of the answer
/// depends on the secret, so its maximum is subtracted.
pub(crate) fn rounded_bound_log2(
    knowledge: Knowledge,
    columns: usize,
    hint: HintRounding,
    entries: usize,
    share: f64,
) -> f64 {
    let rounding = 2f64.powi(31 - ROUNDED_BITS as i32);
    let tolerated = share * 2f64.powi(32) / f64::from(2 * FIELD_ORDER) - ENCODING_ERROR - rounding;
    let folded = worst_fold_deviation(columns, 0).powi(2);
    let of_number = match knowledge {
        Knowledge::None => hint.independent_tail_log2(tolerated, folded),
        Knowledge::Matrix => sub_gaussian_tail_log2(tolerated / (folded + hint.proxy()).sqrt()),
    };
    (of_number + (entries as f64).log2()).min(0.0)
}

/// The rows of a share of the database's matrix, for the first fold.
pub(crate) struct MatrixRows<B: Backend> {
    pub backend: Arc<B>,
    share: Share,
    /// Layout of the whole matrix.
    layout: PanelLayout,
    /// For each bin that has rows in this share: the bin's number and these rows.
    matrices: Vec<(usize, B::Matrix)>,
    query: FirstQueries,
}

/// Positions of the first folds' columns in a query's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstQueries {
    /// Layout of each part of a query, which has one or several parts.
    pub layout: QueryLayout,
    /// Number of columns in all parts.
    pub columns: usize,
    /// Number of bins, into which the rows and a part's words are divided evenly.
    pub bins: usize,
}

impl<B: Backend> MatrixRows<B> {
    /// Opens the rows of a matrix in a file.
    pub fn open(
        backend: &Arc<B>,
        layout: PanelLayout,
        query: FirstQueries,
        file: &StoredFile,
        opening: Opening,
    ) -> Result<Self, ProtocolError> {
        let share = opening.role.share();
        let (own, bin_rows) = (opening.role.folds(share.rows(layout)), layout.rows() / query.bins);
        let rows = |bin: usize| own.start.max(bin * bin_rows)..own.end.min((bin + 1) * bin_rows);
        let bins = (0..query.bins).map(|bin| (bin, rows(bin))).filter(|(_, rows)| !rows.is_empty());
        let open = |(bin, rows): (usize, Range<usize>)| {
            let stored = FileRows { layout, rows, file, residence: opening.residence };
            Ok((bin, backend.open(stored)?))
        };
        let matrices = bins.map(open).collect::<Result<_, ProtocolError>>()?;
        Ok(Self { backend: Arc::clone(backend), share, layout, matrices, query })
    }

    /// Returns the positions of the first folds' columns in a query.
    pub fn query(&self) -> FirstQueries {
        self.query
    }
}

/// The words of one bin in a batch's queries for the first fold.
struct FirstWords<'a> {
    layout: QueryLayout,
    /// The bin's words in each part.
    words: Range<usize>,
    /// Bytes of the parts of all queries.
    parts: &'a [&'a [u8]],
}

impl QueryWords for FirstWords<'_> {
    fn count(&self) -> usize {
        self.parts.len() * self.words.len()
    }

    fn write(&self, mut first: usize, mut to: &mut [u32]) {
        while !to.is_empty() {
            let (part, start) = (first / self.words.len(), first % self.words.len());
            let (piece, rest) = to.split_at_mut((self.words.len() - start).min(to.len()));
            self.layout.write_first(self.parts[part], self.words.start + start, piece);
            first += piece.len();
            to = rest;
        }
    }
}

impl<B: Backend> Rows for MatrixRows<B> {
    /// The answers' words.
    type Folded = B::Folded;

    fn share(&self) -> Share {
        self.share
    }

    fn fold(&self, queries: &[Query<'_>]) -> Result<Option<B::Folded>, ProtocolError> {
        let FirstQueries { layout, bins, .. } = self.query;
        let parts: Vec<_> =
            queries.iter().flat_map(|query| query.bytes.chunks_exact(layout.bytes())).collect();
        let (parts, each) = (&parts[..], layout.first / bins);
        let fold = |(bin, matrix): &(usize, B::Matrix)| {
            let words = FirstWords { layout, words: bin * each..(bin + 1) * each, parts };
            self.backend.scalar_fold_from(matrix, &words)
        };
        let mut folded = self.matrices.iter().map(fold).collect::<Result<Vec<_>, _>>()?;
        match folded.len() {
            0 | 1 => Ok(folded.pop()),
            _ => self.below_each_other(queries.len() * self.query.columns, folded).map(Some),
        }
    }

    fn folded_bytes(&self, share: Share) -> usize {
        self.query.columns * share.rows(self.layout).len() * 4
    }

    fn to_bytes(&self, folded: B::Folded) -> Result<Vec<u8>, ProtocolError> {
        Ok(self.backend.read_words(folded, words_to_bytes)?)
    }

    /// Concatenates each answer's words in the order of the shares.
    fn join(&self, queries: &[Query<'_>], parts: &[(Share, &[u8])]) -> Result<B::Folded, ProtocolError> {
        let answers = queries.len() * self.query.columns;
        let mut words = Vec::with_capacity(answers * self.layout.rows());
        for answer in 0..answers {
            for (share, bytes) in parts {
                let own = share.rows(self.layout).len() * 4;
                extend_words(&mut words, &bytes[answer * own..(answer + 1) * own]);
            }
        }
        Ok(self.backend.folded(answers, words)?)
    }
}

impl<B: Backend> MatrixRows<B> {
    /// Joins the folds of all bins: for each of `answers` answers, concatenates the words of all
    /// bins' rows.
    fn below_each_other(&self, answers: usize, folded: Vec<B::Folded>) -> Result<B::Folded, ProtocolError> {
        let rows = |(_, matrix): &(usize, B::Matrix)| self.backend.layout(matrix).rows();
        let all: usize = self.matrices.iter().map(rows).sum();
        let (mut words, mut first) = (vec![0; answers * all], 0);
        for (own, folded) in self.matrices.iter().map(rows).zip(folded) {
            self.backend.read_words(folded, |read| {
                for (answer, read) in words.chunks_exact_mut(all).zip(read.chunks_exact(own)) {
                    answer[first..first + own].copy_from_slice(read);
                }
            })?;
            first += own;
        }
        Ok(self.backend.folded(answers, words)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spirea_backend::GROUP_WORDS;

    proptest! {
        #[test]
        fn rounding_is_to_the_nearest(word: u32) {
            let back = unround(round(word).to_le_bytes());
            prop_assert!((back.wrapping_sub(word) as i32).abs() <= 1 << 15);
        }

        #[test]
        fn words_of_a_batch_are_written_from_any_group_on(
            dropped_bits in 0u32..=16,
            groups in 1usize..5,
            bins in 1usize..4,
            bin in 0usize..4,
            parts in 1usize..4,
            from in 0usize..12,
            count in 0usize..12,
            seed: u32,
        ) {
            let each = groups * GROUP_WORDS;
            let (first, own) = (bins * each, bin % bins * each..(bin % bins + 1) * each);
            let layout = QueryLayout { first, dropped_bits, second: 1, ciphertext: 3 };
            let word = |i: usize| seed.wrapping_add(i as u32).wrapping_mul(0x9e37_79b1) >> dropped_bits << dropped_bits;
            let words: Vec<u32> = (0..parts * first).map(word).collect();
            let queries: Vec<_> = words.chunks(first).map(|words| layout.join(&[words.to_vec()], &[5], &[6, 7, 8])).collect();
            let parts: Vec<&[u8]> = queries.iter().map(Vec::as_slice).collect();
            let source = FirstWords { layout, words: own.clone(), parts: &parts };
            let of_bin: Vec<u32> = words.chunks(first).flat_map(|words| &words[own.clone()]).copied().collect();
            prop_assert_eq!(source.count(), of_bin.len());
            let from = (from * GROUP_WORDS).min(of_bin.len());
            let to = (from + count * GROUP_WORDS).min(of_bin.len());
            let mut written = vec![0; to - from];
            source.write(from, &mut written);
            prop_assert_eq!(written, &of_bin[from..to]);
        }

        #[test]
        fn rounded_words_follow_each_other(words: Vec<u32>) {
            let bytes = round_words(&words);
            prop_assert_eq!(bytes.len(), words.len() * ROUNDED_BYTES);
            for (i, &word) in words.iter().enumerate() {
                prop_assert_eq!(&bytes[i * ROUNDED_BYTES..][..ROUNDED_BYTES], round(word).to_le_bytes());
            }
        }
    }

    #[test]
    fn bounds_are_above_the_estimate_for_every_set() {
        let bound_of = |knowledge, columns, set, entries| {
            rounded_bound_log2(knowledge, columns, rounded_entirely(set), entries, 1.0)
        };
        for set in LweSet::ALL {
            for (columns, entries) in [(256, 1), (32_768, 3), (1 << 16, 4096)] {
                let [none, matrix] =
                    [Knowledge::None, Knowledge::Matrix].map(|known| bound_of(known, columns, set, entries));
                let estimate = rounded_exceedance_log2(set, FoldedColumns::whole(columns), entries, 1.0);
                assert!(matrix > none && none > estimate, "{}: {matrix}, {none}, {estimate}", set.name());
                assert!(matrix < -20.0, "{}: {matrix}", set.name());
            }
        }
        // By hand: 8322948 / sqrt(146876^2 + 2/3 1280 2^30) = 8.594, and 1 - 8.594^2 / 2 log2(e) +
        // log2(3).
        let of_a_byte = bound_of(Knowledge::Matrix, 32_768, LweSet::Module1280, 3);
        assert!((of_a_byte + 50.69).abs() < 0.05, "{of_a_byte}");
    }
}

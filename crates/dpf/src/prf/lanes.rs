use bytemuck::{Pod, cast, cast_slice_mut};

use crate::Block;

/// Computation of a function for `LANES` seeds at once. A seed has `SEED` words, and a call of the
/// function returns `CALL` words.
///
/// Word i of all seeds is one array, and code that is straight-line for one seed is a loop over
/// lanes. In this form a compiler can use vectors of any length.
pub(super) trait Lanes<Word: Pod, const LANES: usize, const SEED: usize, const CALL: usize> {
    /// Returns words `call * CALL` to `call * CALL + CALL - 1` of every seed's expansion.
    fn call(seeds: &[[Word; LANES]; SEED], call: u64) -> [[Word; LANES]; CALL];
}

/// Computes the first N blocks of any number of seeds; the last group is padded with zeros.
#[inline(always)]
pub(super) fn blocks<F, Word, const LANES: usize, const SEED: usize, const CALL: usize, const N: usize>(
    seeds: &[Block],
    expanded: &mut [[Block; N]],
) where
    F: Lanes<Word, LANES, SEED, CALL>,
    Word: Pod,
    [Word; SEED]: Pod,
{
    assert_eq!(seeds.len(), expanded.len());
    for (seeds, expanded) in seeds.chunks(LANES).zip(expanded.chunks_mut(LANES)) {
        let mut group = [[Word::zeroed(); LANES]; SEED];
        for (lane, seed) in seeds.iter().enumerate() {
            store(&mut group, lane, cast(*seed));
        }
        for call in 0..(N * SEED).div_ceil(CALL) {
            let computed = F::call(&group, call as u64);
            for (lane, blocks) in expanded.iter_mut().enumerate() {
                let words: &mut [Word] = cast_slice_mut(blocks.as_mut_slice());
                let words = words[call * CALL..].iter_mut();
                words.zip(&computed).for_each(|(to, words)| *to = words[lane]);
            }
        }
    }
}

/// Returns one seed's words.
#[inline(always)]
pub(super) fn load<Word: Copy, const LANES: usize, const WORDS: usize>(
    words: &[[Word; LANES]; WORDS],
    lane: usize,
) -> [Word; WORDS] {
    std::array::from_fn(|i| words[i][lane])
}

/// Writes one seed's words back.
#[inline(always)]
pub(super) fn store<Word: Copy, const LANES: usize, const WORDS: usize>(
    words: &mut [[Word; LANES]; WORDS],
    lane: usize,
    seed: [Word; WORDS],
) {
    words.iter_mut().zip(seed).for_each(|(words, word)| words[lane] = word);
}

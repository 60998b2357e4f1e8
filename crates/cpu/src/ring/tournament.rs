//! External products: RGSW selectors from leaves, and the tournament that they decide.

use rayon::prelude::*;
use spirea_backend::BackendError;
use spirea_math::Gadget;

use super::ciphertexts::RingCiphertexts;
use super::lanes::{Kernel, WordLanes};
use super::layout::RingLeaves;
use super::modular::Prime;
use super::product::{DigitKeys, Finish, RGSW, Scratch, multiply};
use super::tables::RingTables;

/// RGSW encryptions of the bits of an index, lowest first.
#[derive(Debug)]
pub struct RingSelectors(Vec<DigitKeys>);

/// Adds the product to a ciphertext.
struct AddTo<'a>(&'a mut [u32]);

impl Finish for AddTo<'_> {
    #[inline(always)]
    fn finish<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        tile: usize,
        product: [L::Vector; 2],
    ) {
        let to = &mut self.0.as_chunks_mut::<W>().0[2 * tile..2 * tile + 2];
        lanes.store(prime.add(lanes, lanes.load(&to[0]), product[0]), &mut to[0]);
        lanes.store(prime.add(lanes, lanes.load(&to[1]), product[1]), &mut to[1]);
    }
}

/// `selectors`: rows of b are the leaves themselves, rows of a their products with the conversion key.
#[allow(clippy::too_many_arguments, reason = "those of the operation")]
pub(super) fn selectors<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    conversion: Option<&DigitKeys>,
    leaves: &RingLeaves,
    first: usize,
    depth: usize,
    gadget: Gadget,
) -> Result<RingSelectors, BackendError> {
    let levels = gadget.levels(tables.ring());
    let end = depth.checked_mul(levels).and_then(|leaves| leaves.checked_add(first));
    let (Some(conversion), true) = (conversion, end.is_some_and(|end| end <= leaves.count())) else {
        return Err(BackendError::Shape("too few leaves or no keys to make selectors of".into()));
    };
    let selector = |scratch: &mut Scratch, bit: usize| {
        let mut keys = DigitKeys::new(tables, gadget, RGSW)?;
        let mut product = vec![0; 2 * tables.words()];
        for i in 0..levels {
            let image = scratch.image(tables, conversion);
            let leaf = || leaves.leaf(tables, first + bit * levels + i).map(|tile| tile.split_at(W));
            for (source, to) in RGSW.iter().zip(image.chunks_exact_mut(tables.words())) {
                for (to, (a, b)) in to.chunks_exact_mut(W).zip(leaf()) {
                    to.copy_from_slice([a, b][*source]);
                }
            }
            keys.set(tables, i, leaf().map(|(a, b)| [a, b]));
            product.fill(0);
            multiply(lanes, tables, conversion, scratch, &mut AddTo(&mut product));
            keys.set(tables, levels + i, product.chunks_exact(2 * W).map(|tile| [&tile[..W], &tile[W..]]));
        }
        Ok(keys)
    };
    let selectors: Result<_, BackendError> =
        (0..depth).into_par_iter().map_init(Scratch::default, selector).collect();
    Ok(RingSelectors(selectors?))
}

/// `rgsw_fold`, depth first: an external product as soon as both inputs are there, so that what is won is still
/// in the cache when it meets its next opponent (IVE, section IV). The winner takes the first one's place.
pub(super) fn rgsw_fold<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    selectors: &RingSelectors,
    mut ciphertexts: RingCiphertexts,
) -> Result<RingCiphertexts, BackendError> {
    let (count, selectors) = (ciphertexts.count(), &selectors.0);
    if count == 0 || selectors.len() < usize::BITS as usize && count > 1 << selectors.len() {
        return Err(BackendError::Shape("as many ciphertexts as selectors can tell apart".into()));
    }
    let one = 2 * tables.words();
    // Subtrees for the threads: several for each, so that none waits long for the last.
    let subtree = (count / (4 * rayon::current_num_threads())).max(1).next_power_of_two();
    let (low, high) = selectors.split_at((subtree.trailing_zeros() as usize).min(selectors.len()));
    let words = ciphertexts.words_mut();
    words[..count * one].par_chunks_mut(subtree * one).for_each_init(Scratch::default, |scratch, words| {
        tournament(lanes, tables, low, scratch, words);
    });
    for (round, selector) in high.iter().enumerate() {
        let distance = (subtree << round) * one;
        words[..count * one].par_chunks_mut(2 * distance).for_each_init(
            Scratch::default,
            |scratch, words| {
                if let Some((first, second)) = words.split_at_mut_checked(distance)
                    && !second.is_empty()
                {
                    play(lanes, tables, selector, scratch, &mut first[..one], &second[..one]);
                }
            },
        );
    }
    Ok(ciphertexts.first())
}

/// The winner among ciphertexts one after another, to the place of the first.
fn tournament<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    selectors: &[DigitKeys],
    scratch: &mut Scratch,
    words: &mut [u32],
) {
    let Some((last, lower)) = selectors.split_last() else { return };
    let one = 2 * tables.words();
    let half = one << lower.len();
    if words.len() <= half {
        return tournament(lanes, tables, lower, scratch, words);
    }
    let (first, second) = words.split_at_mut(half);
    tournament(lanes, tables, lower, scratch, first);
    tournament(lanes, tables, lower, scratch, second);
    play(lanes, tables, last, scratch, &mut first[..one], &second[..one]);
}

/// `first + bit * (second - first)`.
fn play<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    selector: &DigitKeys,
    scratch: &mut Scratch,
    first: &mut [u32],
    second: &[u32],
) {
    let image = scratch.image(tables, selector);
    lanes.run(Difference { tables, first, second, to: image });
    multiply(lanes, tables, selector, scratch, &mut AddTo(first));
}

/// The sources of `second - first` for [`RGSW`] keys.
struct Difference<'a> {
    tables: &'a RingTables,
    first: &'a [u32],
    second: &'a [u32],
    to: &'a mut [u32],
}

impl Kernel for Difference<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let Self { tables, first, second, to } = self;
        let (of_b, of_a) = to.split_at_mut(tables.words());
        let to = of_a.as_chunks_mut::<W>().0.iter_mut().zip(of_b.as_chunks_mut::<W>().0);
        let pairs = first
            .as_chunks::<W>()
            .0
            .as_chunks::<2>()
            .0
            .iter()
            .zip(second.as_chunks::<W>().0.as_chunks::<2>().0);
        for (tile, ((a, b), (first, second))) in to.zip(pairs).enumerate() {
            let prime = Prime::new(lanes, tables.prime_of(tile));
            lanes.store(prime.sub(lanes, lanes.load(&second[0]), lanes.load(&first[0])), a);
            lanes.store(prime.sub(lanes, lanes.load(&second[1]), lanes.load(&first[1])), b);
        }
    }
}

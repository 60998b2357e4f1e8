//! External products: RGSW selectors from leaves, and the tournament that they decide.

use rayon::prelude::*;
use spirea_backend::{BackendError, check_batches};
use spirea_math::{Gadget, Modulus};

use super::ciphertexts::RingCiphertexts;
use super::keys::RingKeys;
use super::lanes::{Kernel, WordLanes};
use super::layout::{self, Read, RingLeaves, store_tile};
use super::modular::Prime;
use super::pool::{Lent, WorkingMemory};
use super::product::{DigitKeys, Operands, RGSW, Results, multiply};
use super::scratch::Scratch;
use super::tables::RingTables;
use crate::parallel::Each as _;

/// RGSW encryptions of the bits of each query's index, lowest first.
#[derive(Debug)]
pub struct RingSelectors {
    queries: usize,
    depth: usize,
    /// Encryptions of the bits, query by query.
    bits: Vec<DigitKeys>,
}

impl RingSelectors {
    fn of(&self, query: usize) -> &[DigitKeys] {
        &self.bits[query * self.depth..][..self.depth]
    }
}

/// Ciphertexts stored one after another, which their products replace.
struct Replaced<'a> {
    tables: &'a RingTables,
    words: &'a mut [u32],
}

impl Operands for Replaced<'_> {
    type Results<'b>
        = &'b mut [u32]
    where
        Self: 'b;

    fn count(&self) -> usize {
        self.words.len() / (2 * self.tables.words())
    }

    fn write<L: WordLanes<W>, const W: usize>(&self, _: L, i: usize, polynomial: usize, to: &mut [u32]) {
        let ciphertext = &self.words[2 * i * self.tables.words()..];
        for (to, from) in to.chunks_exact_mut(W).zip(layout::polynomial(self.tables, ciphertext, polynomial))
        {
            to.copy_from_slice(from);
        }
    }

    fn results(&mut self, i: usize, prime: usize) -> &mut [u32] {
        let of_prime = 2 * self.tables.degree();
        &mut self.words[(i * self.tables.primes().len() + prime) * of_prime..][..of_prime]
    }
}

impl Results for &mut [u32] {
    #[inline(always)]
    fn store<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        _: Prime<L::Vector>,
        vector: usize,
        product: [L::Vector; 2],
    ) {
        store_tile(lanes, self, vector * 2 * W, product, Read::Soon);
    }
}

/// Implements `selectors`. The rows for `b` are the leaves themselves; the rows for `a` are the
/// leaves' products with the conversion key.
#[allow(clippy::too_many_arguments, reason = "those of the operation")]
pub(super) fn selectors<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    memory: &WorkingMemory,
    keys: &[&RingKeys],
    leaves: &[RingLeaves],
    first: usize,
    depth: usize,
    gadget: Gadget,
) -> Result<RingSelectors, BackendError> {
    check_batches(keys.len(), leaves.len())?;
    let levels = gadget.levels(tables.ring());
    let end = depth.checked_mul(levels).and_then(|leaves| leaves.checked_add(first));
    let enough = |leaves: &RingLeaves| end.is_some_and(|end| end <= leaves.count());
    let conversions: Option<Vec<&DigitKeys>> = keys.iter().map(|keys| keys.conversion.as_ref()).collect();
    let (Some(conversions), true) = (conversions, leaves.iter().all(enough)) else {
        return Err(BackendError::Shape("too few leaves or no keys to make selectors of".into()));
    };
    let selector = |(scratch, rows): &mut (Lent<Scratch>, Vec<u32>), (query, bit): (usize, usize)| {
        rows.clear();
        let leaf = |i| leaves[query].leaf(tables, first + bit * levels + i).flatten();
        (0..levels).for_each(|i| rows.extend(leaf(i)));
        let mut keys = DigitKeys::new(tables, gadget, RGSW)?;
        keys.set(tables, 0, rows);
        multiply(lanes, tables, conversions[query], scratch, &mut Replaced { tables, words: rows });
        keys.set(tables, levels, rows);
        Ok(keys)
    };
    let queries = leaves.len();
    let places: Vec<_> = (0..queries).flat_map(|query| (0..depth).map(move |bit| (query, bit))).collect();
    let bits: Result<_, BackendError> =
        places.into_par_iter().collected_with(&|| (memory.scratch(), Vec::new()), &selector);
    Ok(RingSelectors { queries, depth, bits: bits? })
}

/// Ciphertexts of a subtree whose rounds are played before the next subtree's: 3 MiB for three
/// primes and degree 4096, a part of a third-level cache.
const SUBTREE: usize = 32;
/// Games played together, which share one read of the selector for each prime.
const GROUP: usize = 4;

/// Implements `rgsw_fold`.
pub(super) fn rgsw_fold<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    memory: &WorkingMemory,
    selectors: &RingSelectors,
    ciphertexts: Vec<RingCiphertexts>,
) -> Result<Vec<RingCiphertexts>, BackendError> {
    check_batches(selectors.queries, ciphertexts.len())?;
    let of_query = |(query, ciphertexts)| select(lanes, tables, memory, selectors.of(query), ciphertexts);
    ciphertexts.into_iter().enumerate().map(of_query).collect()
}

/// Plays the tournament of one query, subtree by subtree, so that winners are still in the caches
/// when they meet their next opponents (IVE, section IV). A winner takes the place of the first
/// player.
fn select<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    memory: &WorkingMemory,
    selectors: &[DigitKeys],
    mut ciphertexts: RingCiphertexts,
) -> Result<RingCiphertexts, BackendError> {
    let count = ciphertexts.count();
    if count == 0 || selectors.len() < usize::BITS as usize && count > 1 << selectors.len() {
        return Err(BackendError::Shape("more ciphertexts than the selectors tell apart, or none".into()));
    }
    let one = 2 * tables.words();
    let words = &mut ciphertexts.words_mut()[..count * one];
    let subtree = count.div_ceil(rayon::current_num_threads()).next_power_of_two().min(SUBTREE);
    let (lower, upper) = selectors.split_at(selectors.len().min(subtree.trailing_zeros() as usize));
    words.par_chunks_mut(subtree * one).each_with(&|| memory.scratch(), &|scratch, words| {
        for (round, selector) in lower.iter().enumerate() {
            for words in words.chunks_mut((2 * GROUP * one) << round) {
                let mut games = Games { tables, words, distance: 1 << round };
                multiply(lanes, tables, selector, scratch, &mut games);
            }
        }
    });
    for (round, selector) in upper.iter().enumerate() {
        let distance = subtree << round;
        words.par_chunks_mut(2 * distance * one).each_with(&|| memory.scratch(), &|scratch, words| {
            multiply(lanes, tables, selector, scratch, &mut Games { tables, words, distance });
        });
        if distance >= count {
            break;
        }
    }
    Ok(ciphertexts.keep(1))
}

/// Games between neighbours among ciphertexts `distance` apart: `first + bit * (second - first)`,
/// written to the place of the first. A ciphertext without a neighbour stays.
struct Games<'a> {
    tables: &'a RingTables,
    words: &'a mut [u32],
    distance: usize,
}

impl Games<'_> {
    /// Returns the index of player `i`.
    fn place(&self, i: usize) -> usize {
        i * self.distance * 2 * self.tables.words()
    }
}

impl Operands for Games<'_> {
    type Results<'b>
        = Sum<'b>
    where
        Self: 'b;

    fn count(&self) -> usize {
        let ciphertexts = self.words.len() / (2 * self.tables.words());
        ciphertexts.div_ceil(self.distance) / 2
    }

    fn write<L: WordLanes<W>, const W: usize>(&self, lanes: L, i: usize, polynomial: usize, to: &mut [u32]) {
        let (degree, ciphertext) = (self.tables.degree(), 2 * self.tables.words());
        let player = |i| self.words[self.place(i)..][..ciphertext].chunks_exact(2 * degree);
        let players = player(2 * i).zip(player(2 * i + 1));
        for ((prime, to), (first, second)) in
            self.tables.primes().iter().zip(to.chunks_exact_mut(degree)).zip(players)
        {
            lanes.run(Difference { q: prime.q, polynomial, first, second, to });
        }
    }

    fn results(&mut self, i: usize, prime: usize) -> Sum<'_> {
        let of_prime = 2 * self.tables.degree();
        let first = self.place(2 * i) + prime * of_prime;
        Sum(&mut self.words[first..][..of_prime])
    }
}

/// Kernel for a polynomial of the second player minus the first, modulo one prime.
struct Difference<'a> {
    q: Modulus,
    polynomial: usize,
    first: &'a [u32],
    second: &'a [u32],
    to: &'a mut [u32],
}

impl Kernel for Difference<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let prime = Prime::new(lanes, self.q);
        let (first, second) = (self.first.as_chunks::<W>().0, self.second.as_chunks::<W>().0);
        let pairs = first.as_chunks::<2>().0.iter().zip(second.as_chunks::<2>().0);
        for (to, (first, second)) in self.to.as_chunks_mut().0.iter_mut().zip(pairs) {
            let [first, second] = [first, second].map(|tile| &tile[self.polynomial]);
            lanes.store(prime.sub(lanes, lanes.load(second), lanes.load(first)), to);
        }
    }
}

/// Destination that adds the product to a ciphertext modulo one prime.
pub(super) struct Sum<'a>(pub &'a mut [u32]);

impl Results for Sum<'_> {
    #[inline(always)]
    fn store<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        vector: usize,
        [a, b]: [L::Vector; 2],
    ) {
        let to = &mut self.0.as_chunks_mut::<W>().0.as_chunks_mut::<2>().0[vector];
        lanes.store(prime.add(lanes, lanes.load(&to[0]), a), &mut to[0]);
        lanes.store(prime.add(lanes, lanes.load(&to[1]), b), &mut to[1]);
    }
}

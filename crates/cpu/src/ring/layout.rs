//! Storage of ciphertexts in the order in which the kernels read them.
//!
//! A *tile* is a vector of slots modulo one prime; tiles are ordered by prime, then by slot. A
//! ciphertext (`a`, `b`) is stored tile by tile: the words of `a`, then those of `b`. If `a` is
//! constant, only the words of `b` are stored. A ciphertext therefore has two *halves* or one. The
//! leaves of an expanded query form *blocks* of [`BLOCK`] leaves. A block is stored tile by tile,
//! each with the words of all its leaves: a fold reads a tile of a block as one stream. One thread
//! writes a block.

use rayon::prelude::*;
use spirea_backend::BackendError;

use super::lanes::{Kernel, WordLanes};
use super::modular::{Factor, Prime};
use super::pool::{Words, WorkingMemory};
use super::tables::RingTables;
use crate::parallel::Each as _;

/// Leaves of a block.
pub(super) const BLOCK: usize = 64;

/// Tiles copied together.
const TILES: usize = 8;

/// The leaves of one expanded query: ciphertexts, or their b halves alone, as values below the
/// primes.
#[derive(Debug)]
pub struct RingLeaves<const HALVES: usize = 2> {
    count: usize,
    words: Words,
}

/// Places of a ciphertext's tiles: the start of the first tile, and the distance to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct TilePlace {
    start: usize,
    stride: usize,
}

/// Leaves stored together, fewer than [`BLOCK`] at the end of a query.
pub(super) struct LeafBlock<'a, const HALVES: usize = 2> {
    tables: &'a RingTables,
    words: &'a mut [u32],
}

impl<const HALVES: usize> RingLeaves<HALVES> {
    /// Allocates room for leaves, with arbitrary content.
    pub(super) fn room(
        tables: &RingTables,
        memory: &WorkingMemory,
        count: usize,
    ) -> Result<Self, BackendError> {
        let words = count.checked_mul(HALVES * tables.words());
        Ok(Self { count, words: memory.words(words, "the leaves")? })
    }

    /// Returns the number of leaves.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn blocks_mut<'a>(
        &'a mut self,
        tables: &'a RingTables,
    ) -> impl IndexedParallelIterator<Item = LeafBlock<'a, HALVES>> {
        let blocks = self.words.as_words_mut().par_chunks_mut(BLOCK * HALVES * tables.words());
        blocks.map(move |words| LeafBlock { tables, words })
    }

    /// Iterates over the blocks, with the leaves of each block in one tile.
    pub(super) fn tile<'a>(&'a self, tables: &'a RingTables, tile: usize) -> impl Iterator<Item = &'a [u32]> {
        self.words.as_words().chunks(BLOCK * HALVES * tables.words()).map(move |block| {
            let length = block.len() / tables.tiles();
            &block[tile * length..][..length]
        })
    }

    /// Copies a leaf to a ciphertext.
    pub(super) fn copy(&self, tables: &RingTables, leaf: usize, ciphertext: &mut [u32]) {
        let tiles = ciphertext.chunks_exact_mut(HALVES * tables.lanes());
        tiles.zip(self.leaf(tables, leaf)).for_each(|(to, from)| to.copy_from_slice(from));
    }

    /// Iterates over a leaf's tiles.
    pub(super) fn leaf<'a>(&'a self, tables: &'a RingTables, leaf: usize) -> impl Iterator<Item = &'a [u32]> {
        let block = self.words.as_words().chunks(BLOCK * HALVES * tables.words()).nth(leaf / BLOCK);
        let block = block.expect("a leaf that is there");
        let width = HALVES * tables.lanes();
        let start = leaf % BLOCK * width;
        block.chunks_exact(block.len() / tables.tiles()).map(move |tile| &tile[start..][..width])
    }
}

impl RingLeaves {
    /// Creates leaves from ciphertexts. Each has the words of `a`, then those of `b`, in the order
    /// of the plans; the words may exceed the primes.
    pub(super) fn of<L: WordLanes<W>, const W: usize>(
        lanes: L,
        tables: &RingTables,
        memory: &WorkingMemory,
        words: &[u32],
    ) -> Result<Self, BackendError> {
        let of_one = 2 * tables.words();
        let mut leaves = Self::room(tables, memory, words.len() / of_one)?;
        let blocks = leaves.blocks_mut(tables).zip(words.par_chunks(BLOCK * of_one));
        blocks.each(&|(block, ciphertexts)| lanes.run(SetReduced { block, ciphertexts }));
        Ok(leaves)
    }
}

/// Kernel that sets all leaves of a block to ciphertexts. Each has the words of `a`, then those of
/// `b`; the words may exceed the primes.
struct SetReduced<'a> {
    block: LeafBlock<'a>,
    ciphertexts: &'a [u32],
}

impl Kernel for SetReduced<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let Self { block: LeafBlock { tables, words }, ciphertexts } = self;
        let (vectors, of_polynomial) = (tables.degree() / W, tables.words() / W);
        let tile = words.len() / tables.tiles() / W;
        let words = words.as_chunks_mut::<W>().0;
        let ciphertexts = ciphertexts.as_chunks::<W>().0;
        for (index, tables) in tables.primes().iter().enumerate() {
            let (prime, one) = (Prime::new(lanes, tables.q), Factor::splat(lanes, tables.q.shoup(1)));
            // Takes some tiles at a time, so that whole cache lines are read from each ciphertext
            // and written to each tile.
            for first in (0..vectors).step_by(TILES) {
                let places = index * vectors + first..index * vectors + vectors.min(first + TILES);
                for (leaf, ciphertext) in ciphertexts.chunks_exact(2 * of_polynomial).enumerate() {
                    let (a, b) = ciphertext.split_at(of_polynomial);
                    for place in places.clone() {
                        let to = &mut words[place * tile + 2 * leaf..][..2];
                        lanes.store(prime.mul(lanes, lanes.load(&a[place]), one), &mut to[0]);
                        lanes.store(prime.mul(lanes, lanes.load(&b[place]), one), &mut to[1]);
                    }
                }
            }
        }
    }
}

impl<const HALVES: usize> LeafBlock<'_, HALVES> {
    /// Returns the number of leaves.
    pub(super) fn leaves(&self) -> usize {
        self.words.len() / (HALVES * self.tables.words())
    }

    pub(super) fn words_mut(&mut self) -> &mut [u32] {
        self.words
    }

    /// Returns the distance from one leaf to the next.
    pub(super) fn step(&self) -> usize {
        HALVES * self.tables.lanes()
    }

    pub(super) fn place(&self, leaf: usize) -> TilePlace {
        TilePlace { start: leaf * self.step(), stride: self.words.len() / self.tables.tiles() }
    }

    /// Sets all leaves to ciphertexts that are stored one after another.
    pub(super) fn set_all(&mut self, ciphertexts: &[u32]) {
        let (width, of_one) = (self.step(), HALVES * self.tables.words());
        let tile = self.words.len() / self.tables.tiles();
        // Takes some tiles at a time, so that whole cache lines are read from each ciphertext.
        for (i, tiles) in self.words.chunks_mut(TILES * tile).enumerate() {
            for (leaf, ciphertext) in ciphertexts.chunks_exact(of_one).enumerate() {
                let from = ciphertext[i * TILES * width..].chunks_exact(width);
                for (to, from) in tiles.chunks_exact_mut(tile).zip(from) {
                    to[leaf * width..][..width].copy_from_slice(from);
                }
            }
        }
    }

    /// Sets a leaf to a ciphertext.
    pub(super) fn set(&mut self, leaf: usize, ciphertext: &[u32]) {
        let (width, place) = (self.step(), self.place(leaf));
        for (tile, from) in ciphertext.chunks_exact(width).enumerate() {
            self.words[place.start + tile * place.stride..][..width].copy_from_slice(from);
        }
    }
}

impl TilePlace {
    /// Returns the place of a separate ciphertext.
    pub(super) fn node(tables: &RingTables) -> Self {
        Self { start: 0, stride: 2 * tables.lanes() }
    }

    /// Returns the place `words` words further on.
    #[inline(always)]
    pub(super) fn after(self, words: usize) -> Self {
        Self { start: self.start + words, ..self }
    }

    /// Returns the index at which a tile begins.
    pub(super) fn at(self, tile: usize) -> usize {
        self.start + tile * self.stride
    }

    /// Returns the distance from a tile to the next.
    pub(super) fn stride(self) -> usize {
        self.stride
    }
}

/// Time at which stored words will be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read {
    /// Soon, from the caches.
    Soon,
    /// Later, from memory: by then the caches will have evicted the words, so they are written past
    /// the caches. The caller must end with [`WordLanes::fence`].
    Later,
}

/// Stores a tile of `a` and a tile of `b`.
#[inline(always)]
pub(super) fn store_tile<L: WordLanes<W>, const W: usize>(
    lanes: L,
    words: &mut [u32],
    at: usize,
    [a, b]: [L::Vector; 2],
    read: Read,
) {
    let (to, _) = words[at..at + 2 * W].as_chunks_mut();
    match read {
        Read::Soon => {
            lanes.store(a, &mut to[0]);
            lanes.store(b, &mut to[1]);
        }
        Read::Later => {
            lanes.stream(a, &mut to[0]);
            lanes.stream(b, &mut to[1]);
        }
    }
}

/// Converts a ciphertext to tiles of words below the primes. It has the words of `a`, then those of
/// `b`, in the order of the plans; the words may exceed the primes.
pub(super) fn in_tiles(tables: &RingTables, words: &[u32], ciphertext: &mut [u32]) {
    let lanes = tables.lanes();
    for (polynomial, words) in words.chunks_exact(tables.words()).enumerate() {
        let to = ciphertext.chunks_exact_mut(2 * lanes).zip(words.chunks_exact(lanes));
        for (tile, (to, from)) in to.enumerate() {
            let q = tables.prime_of(tile);
            let one = q.shoup(1);
            for (to, &from) in to[polynomial * lanes..].iter_mut().zip(from) {
                *to = q.reduce_lazy(q.mul_lazy(from, one));
            }
        }
    }
}

/// Appends the words of ciphertexts: for each ciphertext the words of `a`, then those of `b`, in
/// the order of the plans.
pub(super) fn push_in_order(tables: &RingTables, ciphertexts: &[u32], words: &mut Vec<u32>) {
    words.reserve(ciphertexts.len());
    for ciphertext in ciphertexts.chunks_exact(2 * tables.words()) {
        for i in 0..2 {
            polynomial(tables, ciphertext, i).for_each(|tile| words.extend_from_slice(tile));
        }
    }
}

/// Iterates over the tiles of one polynomial of a ciphertext: its values.
pub(super) fn polynomial<'a>(
    tables: &RingTables,
    ciphertext: &'a [u32],
    polynomial: usize,
) -> impl Iterator<Item = &'a [u32]> {
    let lanes = tables.lanes();
    ciphertext.chunks_exact(2 * lanes).map(move |tile| &tile[polynomial * lanes..][..lanes])
}

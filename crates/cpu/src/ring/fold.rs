//! `poly_fold`: plaintext polynomials times leaves, slot by slot.
//!
//! ```text
//! for each tile (prime, vector of slots)            in parallel; one stream of the plain matrix
//!     for each block of columns                     blocks of leaves: about as many columns as a 64-bit sum holds
//!         for each group of rows                    the block of the group stays in the first-level cache
//!             for each query                        registers: rows x 2 polynomials x even and odd lanes
//! ```
//!
//! The plain matrix is stored in that order, so it is read from memory once, in sequence, for any
//! number of queries.

use std::ops::Range;

use rayon::prelude::*;
use spirea_backend::{BackendError, FillPolynomial};

use super::ciphertexts::RingCiphertexts;
use super::lanes::{Kernel, WordLanes};
use super::layout::{BLOCK, RingLeaves};
use super::modular::{Factor, Prime, lazy_terms, montgomery_one};
use super::narrow::{self, Columns, Narrow};
use super::ntt::Forward;
use super::pool::{Words, WorkingMemory};
use super::tables::RingTables;
use crate::ahead::{POLY_FOLD, POLY_FOLD_B, SECOND_LEVEL};
use crate::parallel::Each as _;
use crate::prefetch::{Lines, prefetch, prefetch_second_level};

/// Groups of rows whose columns stay in the first-level cache while all queries use them.
const GROUPS: usize = 4;
/// Words of a cache line.
const LINE: usize = 16;
/// Number of queries in a group. The columns of their leaves, 4 KiB each with 8 lanes, stay in the
/// second-level cache.
const QUERIES: usize = 8;
/// Number of words of sums that are gathered before they are distributed. They are 4 MiB, a part of
/// a third-level cache.
const BAND_WORDS: usize = 1 << 20;

/// Matrix of plaintext polynomials: values times 2^32, below the primes.
#[derive(Debug)]
pub struct RingPlain {
    rows: usize,
    columns: usize,
    words: Words,
    primes: Vec<PrimeWords>,
}

/// Storage of the words modulo one prime.
#[derive(Clone, Copy, Debug)]
struct PrimeWords {
    /// Index of the first word.
    start: usize,
    /// Words of a tile.
    of_tile: usize,
    narrow: Option<Narrow>,
}

impl PrimeWords {
    /// Returns the number of stored columns for the first `columns` columns, which are whole blocks
    /// and perhaps a part of a block.
    fn stored(&self, columns: usize) -> usize {
        let stored = |columns| self.narrow.map_or(columns, |narrow| narrow.stored(columns));
        columns / BLOCK * stored(BLOCK) + stored(columns % BLOCK)
    }
}

impl RingPlain {
    /// Allocates room for a matrix, with arbitrary content.
    pub(super) fn room<L: WordLanes<W>, const W: usize>(
        _: L,
        tables: &RingTables,
        memory: &WorkingMemory,
        rows: usize,
        columns: usize,
    ) -> Result<Self, BackendError> {
        if rows == 0 || columns == 0 {
            return Err(BackendError::Shape(format!("a plain matrix of {rows} x {columns} polynomials")));
        }
        let (mut primes, mut words) = (Vec::new(), Some(0_usize));
        for tables_of_prime in tables.primes() {
            let whole = L::NARROW && rows.is_multiple_of(narrow::ROWS);
            let narrow = if whole { Narrow::of(tables_of_prime.q) } else { None };
            let mut prime = PrimeWords { start: words.unwrap_or_default(), of_tile: 0, narrow };
            let of_tile = rows.checked_mul(prime.stored(columns)).and_then(|count| count.checked_mul(W));
            let of_prime = of_tile.and_then(|words| words.checked_mul(tables.degree() / W));
            words = words.zip(of_prime).and_then(|(words, of_prime)| words.checked_add(of_prime));
            prime.of_tile = of_tile.unwrap_or_default();
            primes.push(prime);
        }
        Ok(Self { rows, columns, words: memory.words(words, "the plain matrix")?, primes })
    }

    /// Returns the storage of a tile's words, and the words.
    fn tile(&self, tables: &RingTables, tile: usize) -> (PrimeWords, &[u32]) {
        let tiles = tables.tiles() / self.primes.len();
        let prime = self.primes[tile / tiles];
        (prime, &self.words.as_words()[prime.start + tile % tiles * prime.of_tile..][..prime.of_tile])
    }

    /// Returns the storage and words of all tiles, one after another.
    fn tiles_mut(&mut self, tiles: usize) -> impl IndexedParallelIterator<Item = (PrimeWords, &mut [u32])> {
        let tiles = tiles / self.primes.len();
        let mut rest = self.words.as_words_mut();
        let mut all = Vec::with_capacity(tiles * self.primes.len());
        for &prime in &self.primes {
            let of_prime = rest.split_off_mut(..tiles * prime.of_tile).expect("words for all primes");
            all.extend(of_prime.chunks_exact_mut(prime.of_tile).map(|words| (prime, words)));
        }
        all.into_par_iter()
    }

    /// Iterates over the columns in pieces that are encoded at once.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let columns = self.columns;
        (0..columns).step_by(BLOCK).map(move |first| first..columns.min(first + BLOCK))
    }

    /// Returns the rows of the matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the columns of the matrix.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the bytes in memory, which a fold reads once.
    pub fn bytes(&self) -> usize {
        self.words.bytes().len()
    }
}

/// Step `encode`: encodes the rows of `columns`, which are one of the blocks of `plain`.
pub(super) fn encode_columns<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    memory: &WorkingMemory,
    plain: &mut RingPlain,
    columns: Range<usize>,
    fill: &FillPolynomial<'_>,
) -> Result<(), BackendError> {
    let (rows, first, width, polynomial) = (plain.rows, columns.start, columns.len(), tables.words());
    // Encodes one group of rows of these columns at a time. First each polynomial is transformed,
    // then the values are distributed to the tiles.
    let room = L::FOLD_ROWS.min(rows) * width * polynomial;
    let mut block = memory.words(Some(room), "the columns of a plain matrix")?;
    for top in (0..rows).step_by(L::FOLD_ROWS) {
        let height = L::FOLD_ROWS.min(rows - top);
        let block = &mut block.as_words_mut()[..height * width * polynomial];
        // Column by column, as in the matrix.
        block.par_chunks_mut(polynomial).enumerate().each_with(&|| vec![0; tables.degree()], &|coefficients,
                                                                                               (
            i,
            values,
        )| {
            fill(top + i % height, first + i / height, coefficients);
            lanes.run(Encode { tables, coefficients, values });
        });
        plain.tiles_mut(tables.tiles()).enumerate().each_with(&|| vec![0; height * width * W], &|of_tile,
                                                                                                 (
            i,
            (prime, tile),
        )| {
            for (to, values) in of_tile.chunks_exact_mut(W).zip(block.chunks_exact(polynomial)) {
                to.copy_from_slice(&values[i * W..][..W]);
            }
            let stored = prime.stored(width);
            let to = &mut tile[(rows * prime.stored(first) + stored * top) * W..][..height * stored * W];
            match prime.narrow {
                Some(narrow) => narrow.pack(of_tile, height * W, to),
                None => to.copy_from_slice(of_tile),
            }
        });
    }
    Ok(())
}

/// Kernel that transforms the coefficients of a plaintext to its values times 2^32.
struct Encode<'a> {
    tables: &'a RingTables,
    coefficients: &'a [i32],
    values: &'a mut [u32],
}

impl Kernel for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let Self { tables, coefficients, values } = self;
        let degree = tables.degree();
        let mut residues = vec![0; degree];
        for (index, values) in values.chunks_exact_mut(degree).enumerate() {
            let q = tables.primes()[index].q;
            let prime = Prime::new(lanes, q);
            let one = Factor::splat(lanes, q.shoup(1));
            // Adding 2^31 turns signed words into unsigned ones. Then 2^31 is subtracted modulo q,
            // and the result is below 3q.
            let centre = lanes.splat(1 << 31);
            let rest = lanes.splat(q.neg((1 << 31) % q.value()));
            for (words, residues) in
                coefficients.as_chunks::<W>().0.iter().zip(residues.as_chunks_mut::<W>().0)
            {
                let words = lanes.add(lanes.load(&words.map(|word| word as u32)), centre);
                lanes.store(lanes.add(prime.mul_lazy(lanes, words, one), rest), residues);
            }
            Forward { tables, prime: index, from: &residues, lift: 0, to: values }.run(lanes);
            let scale = Factor::splat(lanes, q.shoup(montgomery_one(q)));
            for words in values.as_chunks_mut::<W>().0 {
                lanes.store(prime.mul(lanes, lanes.load(words), scale), words);
            }
        }
    }
}

/// Implements step `poly_fold`.
pub(super) fn poly_fold<L: WordLanes<W>, const W: usize, const HALVES: usize>(
    lanes: L,
    tables: &RingTables,
    memory: &WorkingMemory,
    plain: &[RingPlain],
    leaves: &[RingLeaves<HALVES>],
) -> Result<Vec<RingCiphertexts<HALVES>>, BackendError> {
    let columns = plain.iter().map(RingPlain::columns).max().unwrap_or(0);
    if leaves.iter().any(|leaves| leaves.count() < columns) {
        return Err(BackendError::Shape("fewer leaves than columns".into()));
    }
    let rows = plain.iter().map(RingPlain::rows).sum();
    let mut results: Vec<_> =
        leaves.iter().map(|_| RingCiphertexts::room(tables, memory, rows)).collect::<Result<_, _>>()?;
    // Folds one band of tiles at a time, so that the sums stay in the caches until they are
    // distributed to ciphertexts.
    let of_tile = (leaves.len() * rows * HALVES * W).max(1);
    let band = (BAND_WORDS / of_tile).clamp(rayon::current_num_threads(), tables.tiles());
    let mut sums = memory.words(Some(band * of_tile), "the sums of products")?;
    let sums = sums.as_words_mut();
    for first in (0..tables.tiles()).step_by(band) {
        let count = band.min(tables.tiles() - first);
        sums[..count * of_tile].par_chunks_mut(of_tile).enumerate().each(&|(i, sums)| {
            let tile = first + i;
            let leaves: Vec<Vec<&[u32]>> =
                leaves.iter().map(|leaves| leaves.tile(tables, tile).collect()).collect();
            let mut sums = &mut sums[..];
            for plain in plain {
                let of_plain;
                (of_plain, sums) = sums.split_at_mut(leaves.len() * plain.rows * HALVES * W);
                of_plain.fill(0);
                let RingPlain { rows, columns, .. } = *plain;
                let (q, bytes, (words, plain)) =
                    (tables.prime_of(tile), plain.bytes(), plain.tile(tables, tile));
                let distance = if HALVES == 1 { &POLY_FOLD_B } else { &POLY_FOLD };
                distance.read(size_of_val(plain), bytes, |ahead| {
                    lanes.run(Fold::<HALVES> {
                        q,
                        words,
                        rows,
                        columns,
                        plain,
                        ahead,
                        leaves: &leaves,
                        sums: of_plain,
                    });
                });
            }
        });
        // Reorders from (tile, matrix, query, row) to (query, matrix, row, tile).
        for (query, ciphertexts) in results.iter_mut().enumerate() {
            let mut row = 0;
            let places = plain.iter().flat_map(|plain| {
                let begin = (leaves.len() * row + query * plain.rows)..;
                row += plain.rows;
                begin.take(plain.rows)
            });
            let places: Vec<usize> = places.collect();
            let ciphertexts = ciphertexts.words_mut().par_chunks_mut(HALVES * tables.words());
            ciphertexts.zip(places).each(&|(ciphertext, place)| {
                let to = ciphertext[first * HALVES * W..].chunks_exact_mut(HALVES * W);
                for (to, sums) in to.zip(sums[..count * of_tile].chunks_exact(of_tile)) {
                    to.copy_from_slice(&sums[place * HALVES * W..][..HALVES * W]);
                }
            });
        }
    }
    Ok(results)
}

/// Fold of one tile: sums by query, row and half, `W` words each.
struct Fold<'a, const HALVES: usize> {
    q: spirea_math::Modulus,
    words: PrimeWords,
    rows: usize,
    columns: usize,
    plain: &'a [u32],
    /// Prefetch distance for plaintexts in bytes; 0 means no prefetching.
    ahead: usize,
    /// Leaves of each query, block by block.
    leaves: &'a [Vec<&'a [u32]>],
    sums: &'a mut [u32],
}

impl<const HALVES: usize> Kernel for Fold<'_, HALVES> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let Self { q, words, rows, columns, plain, ahead, leaves, sums } = self;
        let prime = Prime::new(lanes, q);
        let lazy = lazy_terms(q, q.value().into());
        let (plain, sums) = (plain.as_chunks::<W>().0, sums.as_chunks_mut::<W>().0);
        let narrow = words.narrow.filter(|_| L::NARROW);
        let mut widened = Vec::new();
        for first in (0..columns).step_by(BLOCK) {
            let width = BLOCK.min(columns - first);
            let stored = words.stored(width);
            let plain = &plain[words.stored(first) * rows..][..stored * rows];
            for (leaves, sums) in leaves.chunks(QUERIES).zip(sums.chunks_mut(QUERIES * rows * HALVES)) {
                let (groups, several) = (rows.div_ceil(L::FOLD_ROWS), leaves.len() > 1);
                for (some, plain) in plain.chunks(stored * L::FOLD_ROWS * GROUPS).enumerate() {
                    widened.resize(if several { plain.len() / stored * width } else { 0 }, [0; W]);
                    for (query, leaves) in leaves.iter().enumerate() {
                        for (number, block) in plain.chunks(stored * L::FOLD_ROWS).enumerate() {
                            let group = some * GROUPS + number;
                            let sums = &mut sums[HALVES * (query * rows + group * L::FOLD_ROWS)..];
                            let next = NextLeaves::new::<W, HALVES>(leaves, first / BLOCK + 1, group, groups);
                            let leaves = leaves[first / BLOCK];
                            let in_turns = InTurns { plain: NextPlain::new(block, ahead), leaves: next };
                            let Some(narrow) = narrow else {
                                let operands =
                                    Operands::<W, HALVES> { lazy, plain: block, width, leaves, sums };
                                if query == 0 {
                                    operands.fold(lanes, prime, in_turns);
                                } else {
                                    operands.fold(lanes, prime, in_turns.leaves);
                                }
                                continue;
                            };
                            // The first query unpacks the narrow words that the other queries
                            // multiply.
                            let products = Products::<L, W, HALVES>::new(lanes, leaves, in_turns);
                            let products = if !several {
                                narrow.each(lanes, block, width, products)
                            } else if query == 0 {
                                let to = &mut widened[number * width * narrow::ROWS..];
                                narrow.each(lanes, block, width, (products, Widened(to))).0
                            } else {
                                let plain = &widened[number * width * narrow::ROWS..][..width * narrow::ROWS];
                                let operands = Operands::<W, HALVES> { lazy, plain, width, leaves, sums };
                                operands.fold(lanes, prime, products.ahead.leaves);
                                continue;
                            };
                            reduce_sums(lanes, prime, products.partial, sums);
                        }
                    }
                }
            }
        }
    }
}

/// Memory that a fold prefetches while it computes, a little with every column.
trait Ahead {
    /// Prefetches a little, for a column of the matrix with `lines` lines.
    fn ask(&mut self, lines: usize);
}

/// A query's next block of leaves, of which every group of rows prefetches its share.
struct NextLeaves(Lines);

impl NextLeaves {
    /// Returns the lines of block number `block` that group number `group` of `groups` prefetches.
    #[inline(always)]
    fn new<const W: usize, const HALVES: usize>(
        leaves: &[&[u32]],
        block: usize,
        group: usize,
        groups: usize,
    ) -> Self {
        let share = const { BLOCK * HALVES * W / LINE }.div_ceil(groups);
        // The next block of this tile, or the first block of the next tile.
        let next = leaves.get(block).map_or_else(|| leaves[0].as_ptr_range().end, |block| block.as_ptr());
        Self(Lines::new(next.wrapping_add(group * share * LINE), share * LINE * 4))
    }
}

impl Ahead for NextLeaves {
    #[inline(always)]
    fn ask(&mut self, _lines: usize) {
        self.0.ask();
    }
}

/// The matrix's words at a distance of `bytes` bytes; 0 means none.
struct NextPlain {
    next: *const u32,
    bytes: usize,
}

impl NextPlain {
    #[inline(always)]
    fn new<const W: usize>(plain: &[[u32; W]], bytes: usize) -> Self {
        Self { next: plain.as_flattened().as_ptr().wrapping_byte_add(bytes), bytes }
    }
}

impl Ahead for NextPlain {
    #[inline(always)]
    fn ask(&mut self, lines: usize) {
        let asked = (0..lines).map(|line| self.next.wrapping_add(line * LINE).cast());
        match self.bytes {
            0 => {}
            1..SECOND_LEVEL => asked.for_each(prefetch),
            _ => asked.for_each(prefetch_second_level),
        }
        self.next = self.next.wrapping_add(lines * LINE);
    }
}

/// Prefetch of the matrix's words, which only the first query does, and of the query's next leaves.
struct InTurns {
    plain: NextPlain,
    leaves: NextLeaves,
}

impl Ahead for InTurns {
    #[inline(always)]
    fn ask(&mut self, lines: usize) {
        self.plain.ask(lines);
        self.leaves.ask(lines);
    }
}

/// Operands: a group of rows in a block of columns, and a query.
struct Operands<'a, const W: usize, const HALVES: usize> {
    /// Maximum number of products in a sum.
    lazy: usize,
    /// Plaintexts, column by column.
    plain: &'a [[u32; W]],
    width: usize,
    leaves: &'a [u32],
    sums: &'a mut [[u32; W]],
}

impl<const W: usize, const HALVES: usize> Operands<'_, W, HALVES> {
    #[inline(always)]
    fn fold<L: WordLanes<W>>(self, lanes: L, prime: Prime<L::Vector>, ahead: impl Ahead) {
        match self.plain.len() / self.width {
            1 => self.fold_rows::<L, 1>(lanes, prime, ahead),
            2 => self.fold_rows::<L, 2>(lanes, prime, ahead),
            3 => self.fold_rows::<L, 3>(lanes, prime, ahead),
            _ => self.fold_rows::<L, 4>(lanes, prime, ahead),
        }
    }

    /// Adds the products of columns of `R` rows and leaves to the rows' sums.
    #[inline(always)]
    fn fold_rows<L: WordLanes<W>, const R: usize>(
        self,
        lanes: L,
        prime: Prime<L::Vector>,
        mut ahead: impl Ahead,
    ) {
        let Self { lazy, plain, leaves, sums, .. } = self;
        let leaves = leaves.as_chunks::<W>().0.as_chunks::<HALVES>().0;
        // Products beyond the capacity of one sum are added in several turns.
        for (plain, leaves) in plain.chunks(R * lazy).zip(leaves.chunks(lazy)) {
            let mut partial = [[[lanes.zeros(); 2]; HALVES]; R];
            for (plain, leaf) in plain.as_chunks::<R>().0.iter().zip(leaves) {
                ahead.ask(const { (R * W).div_ceil(LINE) });
                let leaf = Leaf::load(lanes, leaf);
                for row in 0..R {
                    let plain = lanes.load(&plain[row]);
                    leaf.add_times(lanes, [lanes.even(plain), lanes.odd(plain)], &mut partial[row]);
                }
            }
            reduce_sums::<L, R, W, HALVES>(lanes, prime, partial, sums);
        }
    }
}

/// Products of columns in narrow words with a query's leaves.
struct Products<'a, L: WordLanes<W>, const W: usize, const HALVES: usize> {
    leaves: &'a [[[u32; W]; HALVES]],
    leaf: Leaf<L::Wide, HALVES>,
    partial: [[[L::Wide; 2]; HALVES]; narrow::ROWS],
    ahead: InTurns,
}

impl<'a, L: WordLanes<W>, const W: usize, const HALVES: usize> Products<'a, L, W, HALVES> {
    #[inline(always)]
    fn new(lanes: L, leaves: &'a [u32], ahead: InTurns) -> Self {
        Self {
            leaves: leaves.as_chunks::<W>().0.as_chunks::<HALVES>().0,
            leaf: Leaf([[lanes.zeros(); 2]; HALVES]),
            partial: [[[lanes.zeros(); 2]; HALVES]; narrow::ROWS],
            ahead,
        }
    }
}

impl<L: WordLanes<W>, const W: usize, const HALVES: usize> Columns<L, W> for Products<'_, L, W, HALVES> {
    #[inline(always)]
    fn begin(&mut self, lanes: L, vectors: usize) {
        self.ahead.ask((vectors * W).div_ceil(LINE));
        let (leaf, leaves) = self.leaves.split_first().expect("a leaf for each column");
        self.leaf = Leaf::load(lanes, leaf);
        self.leaves = leaves;
    }

    #[inline(always)]
    fn row(&mut self, lanes: L, row: usize, words: [L::Wide; 2]) {
        self.leaf.add_times(lanes, words, &mut self.partial[row]);
    }
}

/// Columns unpacked from narrow words.
struct Widened<'a, const W: usize>(&'a mut [[u32; W]]);

impl<L: WordLanes<W>, const W: usize> Columns<L, W> for Widened<'_, W> {
    #[inline(always)]
    fn begin(&mut self, _lanes: L, _vectors: usize) {}

    #[inline(always)]
    fn row(&mut self, lanes: L, _row: usize, [even, odd]: [L::Wide; 2]) {
        let (to, rest) = std::mem::take(&mut self.0).split_first_mut().expect("room for each vector");
        lanes.store(lanes.join_low(even, odd), to);
        self.0 = rest;
    }
}

/// A leaf's halves, with even and odd lanes separate.
#[derive(Clone, Copy)]
struct Leaf<V, const HALVES: usize>([[V; 2]; HALVES]);

impl<V: Copy, const HALVES: usize> Leaf<V, HALVES> {
    #[inline(always)]
    fn load<L: WordLanes<W, Wide = V>, const W: usize>(lanes: L, leaf: &[[u32; W]; HALVES]) -> Self {
        let mut halves = [[lanes.zeros(); 2]; HALVES];
        for (half, words) in halves.iter_mut().zip(leaf) {
            let words = lanes.load(words);
            *half = [lanes.even(words), lanes.odd(words)];
        }
        Self(halves)
    }

    /// Adds the leaf's products with a plaintext to sums of even and of odd lanes.
    #[inline(always)]
    fn add_times<L: WordLanes<W, Wide = V>, const W: usize>(
        self,
        lanes: L,
        plain: [V; 2],
        sums: &mut [[V; 2]; HALVES],
    ) {
        for (sums, words) in sums.iter_mut().zip(self.0) {
            for half in 0..2 {
                sums[half] = lanes.add_wide(sums[half], lanes.mul_wide(plain[half], words[half]));
            }
        }
    }
}

/// Reduces the sums in registers and adds them to those in memory.
#[inline(always)]
fn reduce_sums<L: WordLanes<W>, const R: usize, const W: usize, const HALVES: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    partial: [[[L::Wide; 2]; HALVES]; R],
    sums: &mut [[u32; W]],
) {
    for (sums, partial) in sums.as_chunks_mut::<HALVES>().0.iter_mut().zip(partial) {
        for (sum, partial) in sums.iter_mut().zip(partial) {
            let total = prime.montgomery(lanes, partial[0], partial[1]);
            lanes.store(prime.add(lanes, lanes.load(sum), total), sum);
        }
    }
}

//! Sums of digits times keys: the core of substitutions and of external products.
//!
//! For each prime the digits are transformed and multiplied at once (IVE, section IV: reduction overlapping), so
//! that the transformed digits of one prime are all that ever waits. A sum of 64 bits takes as many products as
//! it holds and is then reduced by Montgomery's method; keys carry the factor 2^32 for that.

use spirea_backend::BackendError;
use spirea_math::{Gadget, ShoupWord};

use super::digits::Decomposition;
use super::lanes::{Kernel, WordLanes};
use super::modular::{Prime, lazy_terms, montgomery_one};
use super::ntt::Forward;
use super::tables::RingTables;

/// The polynomials of a ciphertext whose digits meet keys, in the order of the keys' rows.
pub(super) type Sources = &'static [usize];
/// Most rows of keys.
const MOST_ROWS: usize = 32;
/// A key of substitution: a.
pub(super) const SUBSTITUTION: Sources = &[0];
/// An RGSW encryption: b, then a.
pub(super) const RGSW: Sources = &[1, 0];

/// Ciphertexts, a *row* for each digit of each source, in the order in which [`Accumulate`] reads them: tile by
/// tile, row by row, a's words and then b's; values times 2^32.
#[derive(Debug)]
pub(super) struct DigitKeys {
    decomposition: Decomposition,
    sources: Sources,
    words: Vec<u32>,
}

impl DigitKeys {
    /// Keys of zeros.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the gadget's digits do not fit words.
    pub(super) fn new(tables: &RingTables, gadget: Gadget, sources: Sources) -> Result<Self, BackendError> {
        let decomposition = Decomposition::new(tables.ring(), gadget)?;
        if sources.len() * decomposition.levels() > MOST_ROWS {
            return Err(BackendError::Shape(format!("{gadget:?} has more digits than the kernels take")));
        }
        let words = vec![0; sources.len() * decomposition.levels() * 2 * tables.words()];
        Ok(Self { decomposition, sources, words })
    }

    /// Takes one ciphertext for each row, one after another, each a and then b in the order of the plans.
    pub(super) fn filled(mut self, tables: &RingTables, ciphertexts: &[u32]) -> Self {
        for (row, ciphertext) in ciphertexts.chunks_exact(2 * tables.words()).enumerate() {
            let (a, b) = ciphertext.split_at(tables.words());
            let tiles = a.chunks_exact(tables.lanes()).zip(b.chunks_exact(tables.lanes()));
            self.set(tables, row, tiles.map(|(a, b)| [a, b]));
        }
        self
    }

    /// Sets a row to a ciphertext: `tiles` gives a's and then b's values, tile by tile; any words.
    pub(super) fn set<'a>(
        &mut self,
        tables: &RingTables,
        row: usize,
        tiles: impl Iterator<Item = [&'a [u32]; 2]>,
    ) {
        let (rows, lanes) = (self.rows(), tables.lanes());
        let factors: Vec<ShoupWord> = (0..tables.primes().len())
            .map(|prime| {
                let q = tables.primes()[prime].q;
                let own = self.decomposition.own_digit(tables.ring(), prime);
                match own.filter(|(digit, _)| row % self.decomposition.levels() == *digit) {
                    Some((_, constant)) => q.shoup(q.mul(montgomery_one(q), constant.value)),
                    None => q.shoup(montgomery_one(q)),
                }
            })
            .collect();
        let to = self.words.chunks_exact_mut(2 * rows * lanes);
        for (i, (to, tile)) in to.zip(tiles).enumerate() {
            let prime = i * lanes / tables.degree();
            let (q, factor) = (tables.primes()[prime].q, factors[prime]);
            for (to, values) in to[2 * row * lanes..].chunks_exact_mut(lanes).zip(tile) {
                for (word, &value) in to.iter_mut().zip(values) {
                    *word = q.reduce_lazy(q.mul_lazy(value, factor));
                }
            }
        }
    }

    fn rows(&self) -> usize {
        self.sources.len() * self.decomposition.levels()
    }
}

/// Working memory of one thread, for keys of any number of rows.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The sources that are decomposed, one polynomial after another.
    image: Vec<u32>,
    residues: Vec<u32>,
    fields: Vec<u32>,
    terms: Vec<u32>,
}

/// Words between the terms of two rows, beside a polynomial's: two cache lines, or the same slots of all rows
/// would fall into one set of the first-level cache.
const PADDING: usize = 32;

impl Scratch {
    /// Room for the sources that are to be multiplied by `keys`: values below q.
    pub(super) fn image(&mut self, tables: &RingTables, keys: &DigitKeys) -> &mut [u32] {
        let (rows, degree) = (keys.rows(), tables.degree());
        let reserve = |words: &mut Vec<u32>, count: usize| words.resize(count.max(words.len()), 0);
        reserve(&mut self.image, keys.sources.len() * tables.words());
        reserve(&mut self.residues, tables.words());
        reserve(&mut self.fields, rows * degree);
        reserve(&mut self.terms, rows * (degree + PADDING));
        &mut self.image[..keys.sources.len() * tables.words()]
    }
}

/// What is done with the product, tile by tile.
pub(super) trait Finish {
    /// Takes a tile of the product's two polynomials: values below q.
    fn finish<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        tile: usize,
        product: [L::Vector; 2],
    );
}

/// Multiplies the scratch's image by keys.
pub(super) fn multiply<L: WordLanes<W>, F: Finish, const W: usize>(
    lanes: L,
    tables: &RingTables,
    keys: &DigitKeys,
    scratch: &mut Scratch,
    finish: &mut F,
) {
    let (degree, decomposition) = (tables.degree(), &keys.decomposition);
    let Scratch { image, residues, fields, terms } = scratch;
    let levels = decomposition.levels();
    let sources = image.chunks_exact(tables.words()).zip(fields.chunks_exact_mut(levels * degree));
    for (source, fields) in sources.take(keys.sources.len()) {
        decomposition.decompose(lanes, tables, source, residues, fields);
    }
    for (index, keys_of_prime) in keys.words.chunks_exact(keys.rows() * 2 * degree).enumerate() {
        let q = tables.primes()[index].q;
        let own = decomposition.own_digit(tables.ring(), index).map(|(digit, _)| digit);
        let mut rows = [[].as_slice(); MOST_ROWS];
        let fields = fields.chunks_exact(degree).zip(terms.chunks_exact_mut(degree + PADDING));
        for (row, (slot, (from, to))) in rows.iter_mut().zip(fields).enumerate().take(keys.rows()) {
            let digit = row % levels;
            *slot = if own == Some(digit) {
                &image[row / levels * tables.words() + index * degree..][..degree]
            } else {
                let (lift, to) = (decomposition.lift(digit, q), &mut to[..degree]);
                lanes.run(Forward { tables, prime: index, from, lift, to });
                to
            };
        }
        let rows = &rows[..keys.rows()];
        lanes.run(Accumulate { tables, index, rows, keys: keys_of_prime, finish: &mut *finish });
    }
}

/// The sum of terms times keys modulo one prime.
struct Accumulate<'a, F> {
    tables: &'a RingTables,
    index: usize,
    /// For each row its values, any words.
    rows: &'a [&'a [u32]],
    keys: &'a [u32],
    finish: &'a mut F,
}

impl<F: Finish> Kernel for Accumulate<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        match self.rows.len() {
            2 => self.unrolled::<L, 2, W>(lanes),
            3 => self.unrolled::<L, 3, W>(lanes),
            4 => self.unrolled::<L, 4, W>(lanes),
            _ => self.in_turns(lanes),
        }
    }
}

impl<F: Finish> Accumulate<'_, F> {
    /// Few rows, which one sum holds whatever the prime.
    #[inline(always)]
    fn unrolled<L: WordLanes<W>, const R: usize, const W: usize>(self, lanes: L) {
        const { assert!(R <= 4, "more products than a sum holds") };
        let vectors = self.tables.degree() / W;
        let prime = Prime::new(lanes, self.tables.primes()[self.index].q);
        let mut rows = [[].as_slice(); R];
        for (row, words) in rows.iter_mut().zip(self.rows) {
            *row = &words.as_chunks::<W>().0[..vectors];
        }
        for (vector, keys) in self.keys.as_chunks::<W>().0.chunks_exact(2 * R).enumerate().take(vectors) {
            let mut sums = [[lanes.zeros(); 2]; 2];
            for row in 0..R {
                add_row(lanes, &mut sums, &rows[row][vector], [&keys[2 * row], &keys[2 * row + 1]]);
            }
            let a = prime.montgomery(lanes, sums[0][0], sums[0][1]);
            let b = prime.montgomery(lanes, sums[1][0], sums[1][1]);
            self.finish.finish(lanes, prime, self.index * vectors + vector, [a, b]);
        }
    }

    /// Any number of rows, as many at a time as a sum holds.
    #[inline(always)]
    fn in_turns<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let (vectors, q) = (self.tables.degree() / W, self.tables.primes()[self.index].q);
        let (prime, most) = (Prime::new(lanes, q), lazy_terms(q, 1 << 32));
        let keys = self.keys.as_chunks::<W>().0.chunks_exact(2 * self.rows.len());
        for (vector, keys) in keys.enumerate() {
            let mut product = [lanes.splat(0); 2];
            for (rows, keys) in self.rows.chunks(most).zip(keys.chunks(2 * most)) {
                let mut sums = [[lanes.zeros(); 2]; 2];
                for (row, key) in rows.iter().zip(keys.as_chunks::<2>().0) {
                    add_row(lanes, &mut sums, &row.as_chunks().0[vector], [&key[0], &key[1]]);
                }
                for (product, sums) in product.iter_mut().zip(sums) {
                    *product = prime.add(lanes, *product, prime.montgomery(lanes, sums[0], sums[1]));
                }
            }
            self.finish.finish(lanes, prime, self.index * vectors + vector, product);
        }
    }
}

/// Adds a term times a key to the sums of a and b, of even and odd lanes.
#[inline(always)]
fn add_row<L: WordLanes<W>, const W: usize>(
    lanes: L,
    sums: &mut [[L::Wide; 2]; 2],
    term: &[u32; W],
    key: [&[u32; W]; 2],
) {
    let term = lanes.load(term);
    let (even, odd) = (lanes.even(term), lanes.odd(term));
    for (sums, key) in sums.iter_mut().zip(key) {
        let key = lanes.load(key);
        sums[0] = lanes.add_wide(sums[0], lanes.mul_wide(even, lanes.even(key)));
        sums[1] = lanes.add_wide(sums[1], lanes.mul_wide(odd, lanes.odd(key)));
    }
}

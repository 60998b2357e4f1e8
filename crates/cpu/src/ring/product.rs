//! Sums of digits times keys: the core of substitutions and of external products.
//!
//! For each prime the digits are transformed and multiplied at once (IVE, section IV: reduction
//! overlapping), so that only the transformed digits of one prime are ever stored. A 64-bit sum
//! takes products until it is full, and is then reduced by Montgomery's method. Keys carry the
//! factor 2^32 for this reduction.

use spirea_backend::BackendError;
use spirea_math::{Gadget, Modulus};

use super::digits::Decomposition;
use super::lanes::{Kernel, WordLanes};
use super::layout::in_tiles;
use super::modular::{Prime, lazy_terms};
use super::scratch::{Scratch, room};
use super::tables::RingTables;

/// Polynomials of a ciphertext whose digits are multiplied by keys, in the order of the keys' rows.
pub(super) type Sources = &'static [usize];
/// Source of a substitution: `a`.
pub(super) const SUBSTITUTION: Sources = &[0];
/// Sources of an RGSW encryption: `b`, then `a`.
pub(super) const RGSW: Sources = &[1, 0];

/// Ciphertexts, one *row* for each digit of each source, as values times 2^32. They are in the
/// order in which [`Accumulate`] reads them: tile by tile, row by row, the words of `a`, then those
/// of `b`.
#[derive(Debug)]
pub(super) struct DigitKeys {
    decomposition: Decomposition,
    sources: Sources,
    words: Vec<u32>,
}

impl DigitKeys {
    /// Creates keys of zeros.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the gadget's digits do not fit words.
    pub(super) fn new(tables: &RingTables, gadget: Gadget, sources: Sources) -> Result<Self, BackendError> {
        let decomposition = Decomposition::new(tables.ring(), gadget)?;
        let words = vec![0; sources.len() * decomposition.levels() * 2 * tables.words()];
        Ok(Self { decomposition, sources, words })
    }

    /// Fills the rows with ciphertexts, one for each row. Each has the words of `a`, then those of
    /// `b`, in the order of the plans.
    pub(super) fn filled(mut self, tables: &RingTables, ciphertexts: &[u32]) -> Self {
        let mut tiles = vec![0; 2 * tables.words()];
        for (row, ciphertext) in ciphertexts.chunks_exact(2 * tables.words()).enumerate() {
            in_tiles(tables, ciphertext, &mut tiles);
            self.set(tables, row, &tiles);
        }
        self
    }

    /// Sets the rows from `first` on to ciphertexts that are stored one after another.
    pub(super) fn set(&mut self, tables: &RingTables, first: usize, ciphertexts: &[u32]) {
        let (rows, width) = (self.rows(), 2 * tables.lanes());
        for (row, ciphertext) in (first..).zip(ciphertexts.chunks_exact(2 * tables.words())) {
            let of_primes = self.words.chunks_exact_mut(rows * 2 * tables.degree());
            let of_primes = of_primes.zip(ciphertext.chunks_exact(2 * tables.degree()));
            for (prime, (keys, values)) in of_primes.enumerate() {
                let q = tables.primes()[prime].q;
                let factor = self.decomposition.factor(tables, prime, row % self.decomposition.levels());
                let tiles = keys.chunks_exact_mut(rows * width).zip(values.chunks_exact(width));
                for (key, tile) in tiles {
                    for (word, &value) in key[row * width..].iter_mut().zip(tile) {
                        *word = q.reduce_lazy(q.mul_lazy(value, factor));
                    }
                }
            }
        }
    }

    fn rows(&self) -> usize {
        self.sources.len() * self.decomposition.levels()
    }
}

/// Ciphertexts multiplied by the same keys, with the destinations of the products.
pub(super) trait Operands {
    /// Destination of one product modulo one prime.
    type Results<'a>: Results
    where
        Self: 'a;

    /// Returns the number of operands.
    fn count(&self) -> usize;
    /// Writes a polynomial of operand `i`: its values, below the primes.
    fn write<L: WordLanes<W>, const W: usize>(&self, lanes: L, i: usize, polynomial: usize, to: &mut [u32]);
    /// Returns the destination of product `i` modulo prime number `prime`.
    fn results(&mut self, i: usize, prime: usize) -> Self::Results<'_>;
}

/// Destination of a ciphertext modulo one prime.
pub(super) trait Results {
    /// Takes a vector of slots of both polynomials: values below q.
    fn store<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        vector: usize,
        product: [L::Vector; 2],
    );
}

/// Words added between the terms of two rows: two cache lines, so that the same slots of all rows
/// do not fall into one set of the first-level cache.
const PADDING: usize = 32;

/// Multiplies operands by keys. All operands are multiplied modulo one prime before the next, so
/// that this prime's part of the keys and its twiddles are read from memory once for all of them.
pub(super) fn multiply<L: WordLanes<W>, O: Operands, const W: usize>(
    lanes: L,
    tables: &RingTables,
    keys: &DigitKeys,
    scratch: &mut Scratch,
    operands: &mut O,
) {
    let (degree, rows, decomposition) = (tables.degree(), keys.rows(), &keys.decomposition);
    let (levels, words) = (decomposition.levels(), tables.words());
    let Scratch { images, residues, fields, terms, .. } = scratch;
    let images = room(images, operands.count() * keys.sources.len() * words);
    let residues = room(residues, words);
    let fields = room(fields, operands.count() * rows * degree);
    let terms = room(terms, rows * (degree + PADDING));
    let pieces = images.chunks_exact_mut(words).zip(fields.chunks_exact_mut(levels * degree));
    for (n, (image, fields)) in pieces.enumerate() {
        operands.write(lanes, n / keys.sources.len(), keys.sources[n % keys.sources.len()], image);
        decomposition.decompose(lanes, tables, image, residues, fields);
    }
    for (prime, keys_of_prime) in keys.words.chunks_exact(rows * 2 * degree).enumerate() {
        let q = tables.primes()[prime].q;
        let operand = images.chunks_exact(keys.sources.len() * words).zip(fields.chunks_exact(rows * degree));
        for (i, (images, fields)) in operand.enumerate() {
            let terms_of_rows = terms.chunks_exact_mut(degree + PADDING);
            for (row, (field, to)) in fields.chunks_exact(degree).zip(terms_of_rows).enumerate() {
                let image = &images[row / levels * words + prime * degree..][..degree];
                decomposition.term(lanes, tables, prime, row % levels, [image, field], &mut to[..degree]);
            }
            let (terms, results) = (&*terms, operands.results(i, prime));
            lanes.run(Accumulate { q, degree, terms, keys: keys_of_prime, results });
        }
    }
}

/// Kernel for the sum of an operand's terms times keys modulo one prime.
struct Accumulate<'a, R> {
    q: Modulus,
    degree: usize,
    /// Terms row by row, with the padding: values as arbitrary words.
    terms: &'a [u32],
    keys: &'a [u32],
    results: R,
}

impl<R: Results> Kernel for Accumulate<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        match self.terms.len() / (self.degree + PADDING) {
            2 => self.unrolled::<L, 2, W>(lanes),
            3 => self.unrolled::<L, 3, W>(lanes),
            4 => self.unrolled::<L, 4, W>(lanes),
            rows => self.in_turns(lanes, rows),
        }
    }
}

impl<R: Results> Accumulate<'_, R> {
    /// Handles few rows, whose products fit one sum for any prime.
    #[inline(always)]
    fn unrolled<L: WordLanes<W>, const ROWS: usize, const W: usize>(mut self, lanes: L) {
        const { assert!(ROWS <= 4, "more products than a sum holds") };
        let (vectors, prime) = (self.degree / W, Prime::new(lanes, self.q));
        let mut rows = [[].as_slice(); ROWS];
        for (row, words) in rows.iter_mut().zip(self.terms.chunks_exact(self.degree + PADDING)) {
            *row = &words.as_chunks::<W>().0[..vectors];
        }
        for (vector, keys) in self.keys.as_chunks::<W>().0.chunks_exact(2 * ROWS).enumerate() {
            let mut sums = [[lanes.zeros(); 2]; 2];
            for row in 0..ROWS {
                add_row(lanes, &mut sums, &rows[row][vector], [&keys[2 * row], &keys[2 * row + 1]]);
            }
            let a = prime.montgomery(lanes, sums[0][0], sums[0][1]);
            let b = prime.montgomery(lanes, sums[1][0], sums[1][1]);
            self.results.store(lanes, prime, vector, [a, b]);
        }
    }

    /// Handles any number of rows, a few rows at a time. The products of these few rows fit a sum.
    #[inline(always)]
    fn in_turns<L: WordLanes<W>, const W: usize>(mut self, lanes: L, rows: usize) {
        let (prime, most) = (Prime::new(lanes, self.q), lazy_terms(self.q, 1 << 32));
        let (terms, padded) = (self.terms.as_chunks::<W>().0, (self.degree + PADDING) / W);
        for (vector, keys) in self.keys.as_chunks::<W>().0.chunks_exact(2 * rows).enumerate() {
            let mut product = [lanes.splat(0); 2];
            for (turn, keys) in keys.chunks(2 * most).enumerate() {
                let mut sums = [[lanes.zeros(); 2]; 2];
                for (row, key) in keys.as_chunks::<2>().0.iter().enumerate() {
                    let term = &terms[(turn * most + row) * padded + vector];
                    add_row(lanes, &mut sums, term, [&key[0], &key[1]]);
                }
                for (product, sums) in product.iter_mut().zip(sums) {
                    *product = prime.add(lanes, *product, prime.montgomery(lanes, sums[0], sums[1]));
                }
            }
            self.results.store(lanes, prime, vector, product);
        }
    }
}

/// Adds a term times a key to the sums of `a` and `b`, separately for even and odd lanes.
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

//! Images of ciphertexts under automorphisms, switched back to the client's secret by keys:
//! substitutions.
//!
//! The image of (a, b) is (a', b'). The substituted ciphertext is the product of the digits of a'
//! with the key, plus b'. The image itself is never stored: a' is written where its digits are
//! computed, and b' is read in its order.

use super::lanes::{Kernel, WordLanes};
use super::modular::Prime;
use super::product::Results;
use super::tables::{Automorphism, RingTables};

/// The image of a ciphertext, or of its b half alone, modulo one prime.
#[derive(Clone, Copy)]
pub(super) struct Image<'a, const HALVES: usize = 2> {
    pub automorphism: &'a Automorphism,
    /// The ciphertext, tile by tile.
    pub tiles: &'a [u32],
}

impl<const HALVES: usize> Image<'_, HALVES> {
    /// Loads a vector of slots of one polynomial.
    #[inline(always)]
    pub(super) fn load<L: WordLanes<W>, const W: usize>(
        &self,
        lanes: L,
        polynomial: usize,
        vector: usize,
    ) -> L::Vector {
        let (source, permutation) = self.automorphism.sources[vector];
        let places = lanes.load(&self.automorphism.places.as_chunks::<W>().0[permutation as usize]);
        let tiles = self.tiles.as_chunks::<W>().0.as_chunks::<HALVES>().0;
        lanes.permute(lanes.load(&tiles[source as usize][polynomial]), places)
    }
}

/// Writes a polynomial of the image of a ciphertext.
pub(super) fn write_image<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    automorphism: &Automorphism,
    ciphertext: &[u32],
    polynomial: usize,
    to: &mut [u32],
) {
    let of_primes = ciphertext.chunks_exact(2 * tables.degree()).zip(to.chunks_exact_mut(tables.degree()));
    for (tiles, to) in of_primes {
        lanes.run(Write { image: Image { automorphism, tiles }, polynomial, to });
    }
}

struct Write<'a> {
    image: Image<'a>,
    polynomial: usize,
    to: &'a mut [u32],
}

impl Kernel for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        for (vector, to) in self.to.as_chunks_mut().0.iter_mut().enumerate() {
            lanes.store(self.image.load(lanes, self.polynomial, vector), to);
        }
    }
}

/// Destination of a substituted ciphertext: takes the product with the key and adds the image's
/// `b`.
pub(super) struct Substituted<'a, R> {
    pub image: Image<'a>,
    pub results: R,
}

impl<R: Results> Results for Substituted<'_, R> {
    #[inline(always)]
    fn store<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        vector: usize,
        [a, b]: [L::Vector; 2],
    ) {
        let b = prime.add(lanes, b, self.image.load(lanes, 1, vector));
        self.results.store(lanes, prime, vector, [a, b]);
    }
}

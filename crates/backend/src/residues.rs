//! Operations on ciphertexts whose keys have a special prime, and on their products, for protocols
//! whose ciphertexts are not those of [`RingBackend`].

use std::sync::Arc;

use spirea_math::Ring;

use crate::{BackendError, RingBackend};

/// Number of polynomials of a ciphertext.
pub const CIPHERTEXT_POLYNOMIALS: usize = 2;
/// Number of primes of a ring whose ciphertexts are multiplied.
pub const PRODUCT_PRIMES: usize = 2;
/// Number of primes of the extension of a ring whose ciphertexts are multiplied.
pub const EXTENSION_PRIMES: usize = 3;

/// Operations on polynomials in the form of [`Ring`]: for each prime its residues, below the prime,
/// as coefficients or as values of the ring's transform.
///
/// The ring of keys has the primes of q and, as its last one, the special prime P. Ciphertexts
/// (c_0, c_1) with phase c_0 + c_1 s are polynomials modulo q, one after the other.
///
/// Each operation runs on the caller's thread: [`Backend::each`](crate::Backend::each) runs many at
/// once.
///
/// # Panics
/// Every operation panics if a slice has another length than stated.
pub trait ResidueBackend: RingBackend {
    /// Constants of products of ciphertexts.
    type ProductTables: Send + Sync;

    /// Prepares products of ciphertexts of a ring.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if the backend does not have these rings.
    fn product_tables(&self, rings: &ProductRings) -> Result<Self::ProductTables, BackendError>;

    /// Transforms each polynomial in `words` from coefficients to values, in place. The
    /// coefficients are below 4 times their primes.
    fn forward(&self, tables: &Self::Tables, words: &mut [u32]);

    /// Transforms each polynomial in `words` from values to coefficients, in place.
    fn inverse(&self, tables: &Self::Tables, words: &mut [u32]);

    /// Doubles the polynomials in `words`, in either form.
    fn double(&self, tables: &Self::Tables, words: &mut [u32]);

    /// Writes round(a / q_l) to `to`, modulo the primes before the last prime q_l. `polynomial` (a)
    /// and `to` are coefficients. Ties cannot occur.
    fn divide_by_last(&self, tables: &Self::Tables, polynomial: &[u32], to: &mut [u32]);

    /// Applies X -> X^(N / 2^level + 1) to the message of the ciphertext `from`, and writes the
    /// resulting ciphertext to `to`. The second polynomial of the image of `from` is switched to
    /// the client's secret by `key`. `tables` are those of the ring of keys. Both ciphertexts are
    /// values.
    ///
    /// With c the image of c_1, the digits are the residues of c as integers; the sum of digits
    /// times keys is divided by P as in [`Self::divide_by_last`].
    fn substitute(&self, tables: &Self::Tables, level: u32, key: &SwitchKey, from: &[u32], to: &mut [u32]);

    /// Replaces a ciphertext by its sum with `image`, and `image` by their difference times
    /// X^(-2^level). Both are values.
    fn split(&self, tables: &Self::Tables, level: u32, ciphertext: &mut [u32], image: &mut [u32]);

    /// Writes to `to` a ciphertext with the phase c_0 + c_1 s + c_2 s^2, where c_0, c_1 and c_2 are
    /// the three polynomials of `product`. c_2 is switched from s^2 by `key`, as in
    /// [`Self::substitute`]. `tables` are those of the ring of keys. All are coefficients.
    fn relinearise(&self, tables: &Self::Tables, key: &SwitchKey, product: &[u32], to: &mut [u32]);

    /// Writes a polynomial (values modulo q) in the form of a factor: the values modulo q, then the
    /// values modulo the extension. The latter represent the centred integers, or integers that
    /// differ from these by q.
    fn lift(&self, tables: &Self::ProductTables, polynomial: &[u32], to: &mut [u32]);

    /// Returns the sum of the products of ciphertexts `left` and `right`, times `scale` / q: three
    /// polynomials of coefficients modulo q. Coefficients are rounded down, with a small error.
    ///
    /// `left` and `right` have the same number of ciphertexts, whose polynomials are lifted.
    fn inner_product(
        &self,
        tables: &Self::ProductTables,
        scale: u32,
        left: &[u32],
        right: &[u32],
    ) -> Vec<u32>;
}

/// Rings of products of ciphertexts.
#[derive(Clone, Debug)]
pub struct ProductRings {
    /// Ring modulo q, with [`PRODUCT_PRIMES`] primes.
    pub ciphertext: Arc<Ring>,
    /// Ring modulo the extension, with [`EXTENSION_PRIMES`] primes.
    pub extension: Arc<Ring>,
}

impl ProductRings {
    /// Returns the words of a lifted polynomial.
    pub fn lifted_words(&self) -> usize {
        self.ciphertext.words() + self.extension.words()
    }
}

/// Key-switching key with a special prime P: for each prime of q a ciphertext modulo q P.
///
/// Words are stored in the form in which kernels multiply by them: values times 2^32, also divided
/// by P modulo the primes of q. They are ordered by prime, then by ciphertext, then by polynomial.
#[derive(Clone, PartialEq, Eq)]
pub struct SwitchKey {
    words: Vec<u32>,
}

impl std::fmt::Debug for SwitchKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SwitchKey").field("words", &self.words.len()).finish_non_exhaustive()
    }
}

impl SwitchKey {
    /// Creates a key from ciphertexts as values modulo q P: one for each prime of q.
    ///
    /// # Panics
    /// If the number of ciphertexts is not the number of primes of q, or P exceeds 3 times another
    /// prime.
    pub fn new(ring: &Ring, ciphertexts: &[[Vec<u32>; CIPHERTEXT_POLYNOMIALS]]) -> Self {
        let factors = Self::factors(ring);
        assert_eq!(ciphertexts.len() + 1, ring.limbs().len(), "a ciphertext for each prime of q");
        let mut words = Vec::with_capacity(ciphertexts.len() * CIPHERTEXT_POLYNOMIALS * ring.words());
        for (i, (limb, factor)) in ring.limbs().iter().zip(factors).enumerate() {
            let (prime, factor) = (limb.prime(), limb.prime().shoup(factor));
            for polynomial in ciphertexts.iter().flatten() {
                let values = &polynomial[i * ring.degree()..][..ring.degree()];
                words.extend(values.iter().map(|&x| prime.reduce_lazy(prime.mul_lazy(x, factor))));
            }
        }
        Self { words }
    }

    /// Returns the words in the form of kernels.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the ciphertexts as values modulo q P.
    pub fn ciphertexts(&self, ring: &Ring) -> Vec<[Vec<u32>; CIPHERTEXT_POLYNOMIALS]> {
        let digits = ring.limbs().len() - 1;
        let mut ciphertexts = vec![[ring.zero(), ring.zero()]; digits];
        let of_prime = self.words.chunks_exact(digits * CIPHERTEXT_POLYNOMIALS * ring.degree());
        for (i, ((limb, factor), words)) in
            ring.limbs().iter().zip(Self::factors(ring)).zip(of_prime).enumerate()
        {
            let (prime, inverse) = (limb.prime(), limb.prime().inverse(factor));
            for (polynomial, words) in ciphertexts.iter_mut().flatten().zip(words.chunks_exact(ring.degree()))
            {
                let values = &mut polynomial[i * ring.degree()..][..ring.degree()];
                values.iter_mut().zip(words).for_each(|(x, &word)| *x = prime.mul(word, inverse));
            }
        }
        ciphertexts
    }

    /// Returns the factor of the words modulo each prime.
    fn factors(ring: &Ring) -> impl Iterator<Item = u32> {
        let (special, primes) = ring.limbs().split_last().expect("a ring has primes");
        let special = special.prime();
        let montgomery = |q: u32| ((1u64 << 32) % u64::from(q)) as u32;
        let of_primes = primes.iter().map(move |limb| {
            let q = limb.prime();
            assert!(special.value() / 3 < q.value(), "the special prime is at most 3 times another prime");
            q.mul(montgomery(q.value()), q.inverse(special.value() % q.value()))
        });
        of_primes.chain([montgomery(special.value())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spirea_math::Modulus;

    #[test]
    fn keys_have_the_ciphertexts_that_they_were_made_of() {
        let primes = [134_176_769, 268_369_921, 268_361_729].map(Modulus::new);
        let ring = Ring::new(16, &primes);
        let polynomial = |seed: u32| -> Vec<u32> {
            let words = (0..ring.words() as u32).map(|i| (i + seed).wrapping_mul(0x9E37_79B9) >> 5);
            words.map(|word| word % 134_176_769).collect()
        };
        let ciphertexts = [[polynomial(1), polynomial(2)], [polynomial(3), polynomial(4)]];
        assert_eq!(SwitchKey::new(&ring, &ciphertexts).ciphertexts(&ring), ciphertexts);
    }
}

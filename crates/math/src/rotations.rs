//! Packing by rotations: the automorphisms, and the plaintexts, which are sums over automorphisms.

use std::ops::Range;

use crate::Expansion;

/// The automorphisms that pack LWE ciphertexts, split into *big* ones after *small* ones.
///
/// In the ring of degree N let Y = X^(N/n). A *chunk* S = sum over i < n of s_i Y^i lies in the
/// subring of Y, on which X -> X^k acts through k mod 2n. This gives n automorphisms g, for odd k.
/// The sum over all g of g(Y^-i S) is n s_i, a constant, so for plaintexts H_i
///
/// ```text
/// n sum over i of s_i H_i  =  sum over g of P_g g(S),    P_g = sum over i of g(Y)^-i H_i.
/// ```
///
/// The odd numbers modulo 2n are 5^i and -5^i for i < n/2. Small automorphisms have the exponents
/// 5^i and -5^i for i < `steps`, big ones 5^(`steps` j); their products are all automorphisms.
/// Therefore
///
/// ```text
/// sum over g of P_g g(S)  =  sum over big of big( sum over small of big^-1(P_(big small)) small(S) ),
/// ```
///
/// For each chunk, this takes a substitution of ciphertexts for every small automorphism except the
/// identity. For each result, it takes one for every big automorphism except the identity, by
/// Horner's rule with the single substitution X -> X^(5^`steps`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rotations {
    entries: usize,
    chunks: usize,
    steps: usize,
}

/// Form of the chunks in a query that carries its keys. The form determines these keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SentChunks {
    /// One ciphertext, which expands to the chunks. The query carries a key for each level of the
    /// expansion, and the keys of all rotations ([`Rotations::keys`]).
    Expanded(Expansion),
    /// A ciphertext for each chunk. The keys are those for X -> X^5 and X -> X^-1. The server
    /// derives the key of the big step: a row of the key for X -> X^(5^j), substituted by X -> X^5,
    /// is a row of the key for X -> X^(5^(j+1)).
    Apart,
}

impl SentChunks {
    /// Returns the number of keys that a query carries.
    pub fn keys(self) -> usize {
        match self {
            Self::Expanded(expansion) => expansion.levels() as usize + Rotations::KEYS,
            Self::Apart => Rotations::KEYS - 1,
        }
    }

    /// Returns the number of ciphertexts that follow the keys.
    pub fn ciphertexts(self, rotations: Rotations) -> usize {
        match self {
            Self::Expanded(_) => 1,
            Self::Apart => rotations.chunks(),
        }
    }

    /// Returns the number of substitutions of a query before its rotations: those of the expansion,
    /// or those that derive the `rows` rows of the big step's key.
    pub fn substitutions(self, rotations: Rotations, rows: usize) -> usize {
        match self {
            Self::Expanded(expansion) => expansion.substitutions(),
            Self::Apart => rotations.derivations() * rows,
        }
    }

    /// Returns the exponents of the substitutions whose keys a query carries, in order.
    pub fn exponents(self, degree: usize, rotations: Rotations) -> Vec<usize> {
        let by_rotations = rotations.keys(degree);
        match self {
            Self::Expanded(expansion) => {
                let levels = (0..expansion.levels()).map(|level| Expansion::exponent(degree, level));
                levels.chain(by_rotations).collect()
            }
            Self::Apart => by_rotations[..self.keys()].to_vec(),
        }
    }
}

/// Generator of the exponents, together with -1.
const GENERATOR: usize = 5;

impl Rotations {
    /// Number of substitutions for which clients send keys: by 5, by -1, and the big step.
    pub const KEYS: usize = 3;
    /// Minimum number of steps in [`Self::fewest`].
    pub const LEAST_STEPS: usize = 8;

    /// Creates the packing of secrets of `chunks` chunks of `entries` entries, with 2 `steps` small
    /// automorphisms.
    ///
    /// # Panics
    /// If entries and steps are not powers of two with at most half as many steps as entries, or
    /// there are no chunks.
    pub fn new(entries: usize, chunks: usize, steps: usize) -> Self {
        let powers = entries.is_power_of_two() && steps.is_power_of_two();
        assert!(powers && 2 * steps <= entries && chunks > 0, "{entries} entries in {steps} steps");
        Self { entries, chunks, steps }
    }

    /// Returns the split with the fewest substitutions for a query with `results` results, among
    /// those with at least [`Self::LEAST_STEPS`] steps. Shapes with few results have the same
    /// split, and so the same keys.
    ///
    /// # Panics
    /// Those of [`Self::new`], or if there are fewer entries than twice [`Self::LEAST_STEPS`].
    pub fn fewest(entries: usize, chunks: usize, results: usize) -> Self {
        let steps =
            (0..entries.trailing_zeros()).map(|log| 1 << log).filter(|&steps| steps >= Self::LEAST_STEPS);
        let splits = steps.map(|steps| Self::new(entries, chunks, steps));
        splits.min_by_key(|split| split.substitutions(results)).expect("enough entries for a split")
    }

    /// Returns the number n of entries of a chunk.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Returns the number of chunks of a secret.
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Returns the number of powers of 5 among the small automorphisms.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Returns the number of small automorphisms.
    pub fn small(&self) -> usize {
        2 * self.steps
    }

    /// Returns the number of big automorphisms, which is also the number of the plaintexts' rows
    /// and of the ciphertexts that make up a result.
    pub fn big(&self) -> usize {
        self.entries / self.small()
    }

    /// Returns the number of rotated chunks, which are the plaintexts' columns. Chunk c has the
    /// numbers [`Self::of_chunk`]: first the images under 5^i, then those under -5^i.
    pub fn leaves(&self) -> usize {
        self.chunks * self.small()
    }

    /// Returns the leaves of a chunk.
    pub fn of_chunk(&self, chunk: usize) -> Range<usize> {
        chunk * self.small()..(chunk + 1) * self.small()
    }

    /// Returns the number of substitutions of a query with `results` results.
    pub fn substitutions(&self, results: usize) -> usize {
        self.chunks * (self.small() - 1) + results * (self.big() - 1)
    }

    /// Returns the number of substitutions by X -> X^5 that derive a row of the big step's key from
    /// the row for X -> X^5; 0 if there is no big step. If the row for X -> X^5 were a chunk, the
    /// derived row would be the last of its images under powers of 5.
    pub fn derivations(&self) -> usize {
        if self.big() == 1 { 0 } else { self.steps - 1 }
    }

    /// Returns rotations of `chunks` chunks by the same automorphisms.
    ///
    /// # Panics
    /// If there are no chunks.
    pub fn of_chunks(&self, chunks: usize) -> Self {
        Self::new(self.entries, chunks, self.steps)
    }

    /// Returns the exponents of the substitutions that map a chunk to its images, and a result to
    /// the next: 5, -1 and 5^`steps`, modulo 2 `degree`.
    pub fn keys(&self, degree: usize) -> [usize; Self::KEYS] {
        [GENERATOR, 2 * degree - 1, power(degree, self.steps)]
    }

    /// Returns the exponent of small automorphism number `small`, modulo 2 `degree`.
    pub fn small_exponent(&self, degree: usize, small: usize) -> usize {
        let positive = power(degree, small % self.steps);
        if small < self.steps { positive } else { 2 * degree - positive }
    }

    /// Returns the exponent of big automorphism number `big`, modulo 2 `degree`.
    pub fn big_exponent(&self, degree: usize, big: usize) -> usize {
        power(degree, self.steps * big)
    }

    /// Returns the sums P_g of a chunk's plaintexts H_0, H_1, ... for all g: sum m belongs to the
    /// exponent 2 m + 1. `plaintexts` are `entries` polynomials, concatenated. Each coefficient is
    /// a sum of `entries` numbers.
    ///
    /// The sums E and O over the even and the odd entries depend on the exponent modulo n only,
    /// instead of 2n, and P = E + g(Y)^-1 O. This takes n log2 n additions of polynomials instead
    /// of n^2.
    pub fn sums(&self, degree: usize, plaintexts: Vec<i32>) -> Vec<i32> {
        let (entries, stride) = (self.entries, degree / self.entries);
        let (mut from, mut to) = (plaintexts, vec![0; entries * degree]);
        // Sums over every `apart`-th entry from `first` on, for `half` exponents, combine to sums
        // over twice as many entries.
        for apart in (0..entries.trailing_zeros()).rev().map(|level| 1 << level) {
            let half = entries / apart / 2;
            let polynomial =
                |first: usize, m: usize| (first * half + m) * degree..(first * half + m + 1) * degree;
            for first in 0..apart {
                let to = &mut to[2 * first * half * degree..][..2 * half * degree];
                let (low, high) = to.split_at_mut(half * degree);
                let sums = low.chunks_exact_mut(degree).zip(high.chunks_exact_mut(degree));
                for (m, (low, high)) in sums.enumerate() {
                    let (even, odd) = (&from[polynomial(first, m)], &from[polynomial(first + apart, m)]);
                    // For exponents in the second half, the power of Y has the opposite sign.
                    butterfly(even, odd, stride * apart * (2 * m + 1), low, high);
                }
            }
            std::mem::swap(&mut from, &mut to);
        }
        from
    }

    /// Writes the plaintext of row `big` and small automorphism number `small`, from a chunk's
    /// [`Self::sums`].
    pub fn plaintext(&self, degree: usize, sums: &[i32], big: usize, small: usize, plaintext: &mut [i32]) {
        let big = self.big_exponent(degree, big);
        let exponent = big * self.small_exponent(degree, small) % (2 * self.entries);
        let sum = &sums[exponent / 2 * degree..][..degree];
        // Coefficient i of the image comes from place i k, where k is the exponent of the inverse
        // of the applied map. The applied map is the inverse of `big`, so k is `big` itself.
        let mut place = 0;
        for coefficient in plaintext {
            *coefficient = if place < degree { sum[place] } else { -sum[place - degree] };
            place = (place + big) % (2 * degree);
        }
    }
}

/// Returns 5^`exponent` modulo 2 `degree`.
fn power(degree: usize, exponent: usize) -> usize {
    (0..exponent).fold(1, |power, _| power * GENERATOR % (2 * degree))
}

/// Computes `even` plus and minus X^-`shift` times `odd`.
fn butterfly(even: &[i32], odd: &[i32], shift: usize, plus: &mut [i32], minus: &mut [i32]) {
    let degree = even.len();
    let shift = shift % (2 * degree);
    // Coefficients from the shift on move down; those below it reappear at the end with the
    // opposite sign. A shift by the degree changes all signs.
    let (turned, moved) = (shift >= degree, shift % degree);
    let (sums, differences) = if turned { (minus, plus) } else { (plus, minus) };
    let (kept, wrapped) = (degree - moved, &odd[..moved]);
    let pieces = sums.iter_mut().zip(differences.iter_mut()).zip(even);
    for (((sum, difference), even), odd) in pieces.take(kept).zip(&odd[moved..]) {
        (*sum, *difference) = (even + odd, even - odd);
    }
    let pieces = sums[kept..].iter_mut().zip(&mut differences[kept..]).zip(&even[kept..]);
    for (((sum, difference), even), odd) in pieces.zip(wrapped) {
        (*sum, *difference) = (even - odd, even + odd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies X -> X^k.
    fn automorphism(a: &[i64], k: usize) -> Vec<i64> {
        let degree = a.len();
        let mut image = vec![0; degree];
        for (i, &coefficient) in a.iter().enumerate() {
            let place = i * k % (2 * degree);
            image[place % degree] = if place < degree { coefficient } else { -coefficient };
        }
        image
    }

    fn product(a: &[i64], b: &[i64]) -> Vec<i64> {
        let degree = a.len();
        let mut product = vec![0; degree];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                let term = a * b;
                product[(i + j) % degree] += if i + j < degree { term } else { -term };
            }
        }
        product
    }

    fn numbers(count: usize, seed: u64) -> Vec<i32> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 45) as i32 - (1 << 18)
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn small_and_big_automorphisms_make_all_of_the_subrings_once() {
        for (entries, steps) in [(2, 1), (16, 1), (16, 4), (16, 8), (256, 8), (256, 128)] {
            let (rotations, degree) = (Rotations::new(entries, 5, steps), 4 * entries);
            let small: Vec<_> = (0..rotations.small()).map(|i| rotations.small_exponent(degree, i)).collect();
            let mut all: Vec<_> = (0..rotations.big())
                .flat_map(|j| small.iter().map(move |small| rotations.big_exponent(degree, j) * small))
                .map(|exponent| exponent % (2 * entries))
                .collect();
            all.sort_unstable();
            assert!(all.into_iter().eq((1..2 * entries).step_by(2)), "{entries} entries in {steps} steps");
        }
    }

    #[test]
    fn the_split_follows_the_number_of_results() {
        let steps = |chunks, results| Rotations::fewest(256, chunks, results).steps();
        assert_eq!(
            [1, 10, 11, 40, 41, 160, 161, 1 << 20].map(|r| steps(5, r)),
            [8, 8, 16, 16, 32, 32, 64, 128]
        );
        for results in 1..500 {
            let split = Rotations::fewest(256, 5, results);
            for steps in [8, 16, 32, 64, 128] {
                assert!(split.substitutions(results) <= Rotations::new(256, 5, steps).substitutions(results));
            }
        }
    }

    #[test]
    fn keys_take_chunks_to_their_images_and_results_to_the_next() {
        let (rotations, degree) = (Rotations::new(256, 5, 8), 4096);
        let [step, sign, big] = rotations.keys(degree);
        for small in 0..8 {
            let exponent = rotations.small_exponent(degree, small);
            assert_eq!(rotations.small_exponent(degree, small + 8), exponent * sign % 8192);
            if small < 7 {
                assert_eq!(rotations.small_exponent(degree, small + 1), exponent * step % 8192);
            }
        }
        assert_eq!(rotations.big_exponent(degree, 3), big * rotations.big_exponent(degree, 2) % 8192);
        assert_eq!((rotations.leaves(), rotations.of_chunk(2), rotations.big()), (80, 32..48, 16));
        // 75 substitutions for the images of the chunks, and 15 for one result
        // (docs/protocols/ring.md).
        assert_eq!(rotations.substitutions(1), 90);
    }

    /// Checks the identity, with plain numbers in place of ciphertexts.
    #[test]
    fn sums_of_rotated_chunks_are_the_products_that_packing_wants() {
        for (entries, stride, steps) in [(2, 2, 1), (8, 4, 1), (8, 4, 2), (8, 1, 4), (16, 4, 4)] {
            let (rotations, degree) = (Rotations::new(entries, 1, steps), entries * stride);
            let plaintexts = numbers(entries * degree, 7);
            let secret: Vec<i64> = numbers(entries, 9).into_iter().map(|x| i64::from(x) % 2).collect();
            let mut chunk = vec![0; degree];
            secret.iter().enumerate().for_each(|(i, &s)| chunk[i * stride] = s);
            let sums = rotations.sums(degree, plaintexts.clone());
            let (mut total, mut plaintext) = (vec![0; degree], vec![0; degree]);
            for big in 0..rotations.big() {
                let mut sum = vec![0; degree];
                for small in 0..rotations.small() {
                    rotations.plaintext(degree, &sums, big, small, &mut plaintext);
                    let wide: Vec<i64> = plaintext.iter().map(|&x| x.into()).collect();
                    let image = automorphism(&chunk, rotations.small_exponent(degree, small));
                    sum.iter_mut().zip(product(&wide, &image)).for_each(|(sum, x)| *sum += x);
                }
                let rotated = automorphism(&sum, rotations.big_exponent(degree, big));
                total.iter_mut().zip(rotated).for_each(|(total, x)| *total += x);
            }
            let wanted = |r: usize| -> i64 {
                (0..entries).map(|i| secret[i] * i64::from(plaintexts[i * degree + r])).sum()
            };
            let n = entries as i64;
            assert!(total.iter().enumerate().all(|(r, &x)| x == n * wanted(r)), "{entries} in {steps} steps");
        }
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        for (entries, degree) in [(2, 2), (4, 16), (16, 64), (256, 256)] {
            let plaintexts = numbers(entries * degree, entries as u64);
            let sums = Rotations::new(entries, 1, 1).sums(degree, plaintexts.clone());
            for (m, sum) in sums.chunks_exact(degree).enumerate() {
                let mut expected = vec![0; degree];
                for (i, plaintext) in plaintexts.chunks_exact(degree).enumerate() {
                    // The plaintext is multiplied by X^-(k i N/n), where k = 2m + 1.
                    let shift = (2 * m + 1) * i * (degree / entries) % (2 * degree);
                    for (r, &coefficient) in plaintext.iter().enumerate() {
                        let place = (r + 2 * degree - shift) % (2 * degree);
                        let signed = if place < degree { coefficient } else { -coefficient };
                        expected[place % degree] += signed;
                    }
                }
                assert_eq!(sum, expected, "{entries} entries: exponent {}", 2 * m + 1);
            }
        }
    }

    #[test]
    #[should_panic(expected = "steps")]
    fn steps_are_at_most_half_of_the_entries() {
        Rotations::new(16, 1, 16);
    }
}

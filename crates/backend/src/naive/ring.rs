//! The steps on rings by definition.

use std::sync::Arc;

use spirea_math::{Expansion, Gadget, Ring, Rotations};

use super::{NaiveBackend, NaiveMatrix};
use crate::{
    Backend, BackendError, Bodies, EvaluationKeys, FillPolynomial, FoldedBlocks, MAX_BATCH, PanelLayout,
    RingBackend, SwitchedBits, centred, check_batches, check_ciphertexts, check_rotations, whole_halves,
};

/// A ciphertext, in coefficients unless stated otherwise.
#[derive(Clone, Debug)]
pub struct Ciphertext {
    a: Vec<u32>,
    b: Vec<u32>,
}

impl Ciphertext {
    fn split(words: &[u32]) -> Self {
        let (a, b) = words.split_at(words.len() / 2);
        Self { a: a.to_vec(), b: b.to_vec() }
    }

    fn map(&self, mut operation: impl FnMut(&[u32]) -> Vec<u32>) -> Self {
        Self { a: operation(&self.a), b: operation(&self.b) }
    }

    fn plus(&self, ring: &Ring, other: &Self) -> Self {
        let mut sum = self.clone();
        ring.add_assign(&mut sum.a, &other.a);
        ring.add_assign(&mut sum.b, &other.b);
        sum
    }

    fn minus(&self, ring: &Ring, other: &Self) -> Self {
        let mut difference = self.clone();
        ring.sub_assign(&mut difference.a, &other.a);
        ring.sub_assign(&mut difference.b, &other.b);
        difference
    }
}

/// Ciphertexts in transformed form, one for each digit of a gadget.
#[derive(Clone, Debug)]
struct DigitKeys {
    gadget: Gadget,
    ciphertexts: Vec<Ciphertext>,
}

impl DigitKeys {
    fn new(ring: &Ring, gadget: Gadget, words: &[u32]) -> Self {
        let ciphertexts = words.chunks_exact(2 * ring.words()).map(Ciphertext::split).collect();
        Self { gadget, ciphertexts }
    }

    /// Returns the image of `c` under X -> X^`exponent`, switched back to the client's secret by
    /// this key. The key must belong to `exponent`.
    fn substitute(&self, ring: &Ring, exponent: usize, c: &Ciphertext) -> Ciphertext {
        let image = c.map(|a| ring.automorphism(a, exponent));
        let mut substituted = self.times(ring, &image.a);
        ring.add_assign(&mut substituted.b, &image.b);
        substituted
    }

    /// Returns the sum of the digits of `a` (coefficients), each times its ciphertext, as
    /// coefficients.
    fn times(&self, ring: &Ring, a: &[u32]) -> Ciphertext {
        let mut sum = Ciphertext { a: ring.zero(), b: ring.zero() };
        let digits = self.gadget.decompose(ring, a);
        for (digit, key) in digits.chunks_exact(ring.words()).zip(&self.ciphertexts) {
            let digit = transformed(ring, digit);
            ring.mul_add(&mut sum.a, &digit, &key.a);
            ring.mul_add(&mut sum.b, &digit, &key.b);
        }
        sum.map(|a| coefficients(ring, a))
    }
}

/// An RGSW encryption: the factors for the digits of b and those for the digits of a.
#[derive(Clone, Debug)]
struct Rgsw {
    of_b: DigitKeys,
    of_a: DigitKeys,
}

impl Rgsw {
    fn external_product(&self, ring: &Ring, c: &Ciphertext) -> Ciphertext {
        self.of_b.times(ring, &c.b).plus(ring, &self.of_a.times(ring, &c.a))
    }
}

fn transformed(ring: &Ring, a: &[u32]) -> Vec<u32> {
    let mut a = a.to_vec();
    ring.forward(&mut a);
    a
}

fn coefficients(ring: &Ring, a: &[u32]) -> Vec<u32> {
    let mut a = a.to_vec();
    ring.inverse(&mut a);
    a
}

/// Evaluation keys.
#[derive(Clone, Debug)]
pub struct NaiveKeys {
    /// Keys of the expansion, by level.
    expansion: Vec<DigitKeys>,
    /// Keys of the automorphisms by 5 and by -1, and of the big step.
    rotations: Option<[DigitKeys; Rotations::KEYS]>,
    conversion: Option<Rgsw>,
}

/// A matrix of plaintext polynomials (values), row-major.
#[derive(Clone, Debug)]
pub struct NaivePlain {
    columns: usize,
    polynomials: Vec<Vec<u32>>,
}

/// Columns with which matrices of a layout are folded.
#[derive(Clone, Debug)]
pub struct NaiveColumns {
    layout: PanelLayout,
    words: Vec<u32>,
}

/// RGSW encryptions of the bits of each query's index, lowest first.
#[derive(Clone, Debug)]
pub struct NaiveSelectors(Vec<Vec<Rgsw>>);

/// Each query's ciphertexts.
type Batch = Vec<Vec<Ciphertext>>;

impl RingBackend for NaiveBackend {
    type Tables = Arc<Ring>;
    type Keys = NaiveKeys;
    type Plain = NaivePlain;
    type Columns = NaiveColumns;
    type Leaves = Batch;
    type Ciphertexts = Batch;
    type Selectors = NaiveSelectors;
    type Matrices = Vec<NaiveMatrix>;

    fn leaves_memory(&self) -> u64 {
        u64::MAX
    }

    fn tables(&self, ring: &Arc<Ring>) -> Result<Arc<Ring>, BackendError> {
        Ok(Arc::clone(ring))
    }

    fn keys(&self, ring: &Arc<Ring>, keys: EvaluationKeys<'_>) -> Result<NaiveKeys, BackendError> {
        keys.levels(ring)?;
        let of_level = |gadget: Gadget| gadget.levels(ring) * 2 * ring.words();
        let substitutions = |words: &[u32]| -> Vec<DigitKeys> {
            let words = words.chunks_exact(of_level(keys.expansion_gadget));
            words.map(|words| DigitKeys::new(ring, keys.expansion_gadget, words)).collect()
        };
        let conversion = (!keys.conversion.is_empty()).then(|| {
            let (of_b, of_a) = keys.conversion.split_at(of_level(keys.conversion_gadget));
            let keys = |words| DigitKeys::new(ring, keys.conversion_gadget, words);
            Rgsw { of_b: keys(of_b), of_a: keys(of_a) }
        });
        let (expansion, rotations) = (substitutions(keys.expansion), substitutions(keys.rotations));
        Ok(NaiveKeys { expansion, rotations: rotations.try_into().ok(), conversion })
    }

    fn encode(
        &self,
        ring: &Arc<Ring>,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<NaivePlain, BackendError> {
        let mut coefficients = vec![0; ring.degree()];
        let polynomials = (0..rows * columns).map(|i| {
            fill(i / columns, i % columns, &mut coefficients);
            let mut a = ring.zero();
            for (i, &c) in coefficients.iter().enumerate() {
                ring.set_coefficient(&mut a, i, c.into());
            }
            ring.forward(&mut a);
            a
        });
        Ok(NaivePlain { columns, polynomials: polynomials.collect() })
    }

    fn expand(
        &self,
        ring: &Arc<Ring>,
        expansion: Expansion,
        queries: &[(&NaiveKeys, &[u32])],
    ) -> Result<Batch, BackendError> {
        let expand = |&(keys, words): &(&NaiveKeys, &[u32])| {
            if words.len() != 2 * ring.words() {
                return Err(BackendError::Shape("words that are no ciphertext".into()));
            }
            tree(ring, expansion, keys, Ciphertext::split(words).map(|a| coefficients(ring, a)))
        };
        queries.iter().map(expand).collect()
    }

    fn leaves(&self, ring: &Arc<Ring>, queries: usize, words: &[u32]) -> Result<Batch, BackendError> {
        self.ciphertexts(ring, queries, words)
    }

    fn expand_leaf(
        &self,
        ring: &Arc<Ring>,
        expansion: Expansion,
        keys: &[&NaiveKeys],
        leaves: &Batch,
        leaf: usize,
    ) -> Result<Batch, BackendError> {
        check_batches(keys.len(), leaves.len())?;
        let expand = |(keys, leaves): (&&NaiveKeys, &Vec<Ciphertext>)| {
            let root = leaves.get(leaf).ok_or_else(|| BackendError::Shape(format!("no leaf {leaf}")))?;
            tree(ring, expansion, keys, root.clone())
        };
        keys.iter().zip(leaves).map(expand).collect()
    }

    fn rotate(
        &self,
        ring: &Arc<Ring>,
        rotations: Rotations,
        keys: &[&NaiveKeys],
        leaves: &Batch,
    ) -> Result<Batch, BackendError> {
        check_batches(keys.len(), leaves.len())?;
        check_rotations(ring, rotations)?;
        let [step, sign, _] = rotations.keys(ring.degree());
        let rotate = |(keys, leaves): (&&NaiveKeys, &Vec<Ciphertext>)| {
            let (Some([by_step, by_sign, _]), Some(chunks)) =
                (&keys.rotations, leaves.get(..rotations.chunks()))
            else {
                return Err(BackendError::Shape(
                    "fewer leaves than chunks, or keys without rotations".into(),
                ));
            };
            let images = chunks.iter().flat_map(|chunk| {
                let next = |image: &Ciphertext| Some(by_step.substitute(ring, step, image));
                let positive: Vec<_> =
                    std::iter::successors(Some(chunk.clone()), next).take(rotations.steps()).collect();
                let negative = positive.iter().map(|image| by_sign.substitute(ring, sign, image));
                let negative: Vec<_> = negative.collect();
                positive.into_iter().chain(negative)
            });
            Ok(images.collect())
        };
        keys.iter().zip(leaves).map(rotate).collect()
    }

    fn poly_fold(
        &self,
        ring: &Arc<Ring>,
        plain: &[NaivePlain],
        leaves: &Batch,
    ) -> Result<Batch, BackendError> {
        let of_query = |leaves: &Vec<Ciphertext>| {
            let folds = plain.iter().map(|plain| fold(ring, plain, leaves)).collect::<Result<Vec<_>, _>>()?;
            Ok(folds.concat())
        };
        leaves.iter().map(of_query).collect()
    }

    fn sum_rotated(
        &self,
        ring: &Arc<Ring>,
        rotations: Rotations,
        keys: &[&NaiveKeys],
        ciphertexts: Batch,
    ) -> Result<Batch, BackendError> {
        check_batches(keys.len(), ciphertexts.len())?;
        check_rotations(ring, rotations)?;
        let [_, _, big] = rotations.keys(ring.degree());
        let sum = |(keys, ciphertexts): (&&NaiveKeys, Vec<Ciphertext>)| {
            let (Some([_, _, by_big]), true) =
                (&keys.rotations, ciphertexts.len().is_multiple_of(rotations.big()))
            else {
                return Err(BackendError::Shape(
                    "not as many ciphertexts as sums, or keys without rotations".into(),
                ));
            };
            let horner = |terms: &[Ciphertext]| {
                let sum = terms.iter().cloned().rev();
                sum.reduce(|sum, term| by_big.substitute(ring, big, &sum).plus(ring, &term))
                    .expect("at least one")
            };
            Ok(ciphertexts.chunks_exact(rotations.big()).map(horner).collect())
        };
        keys.iter().zip(ciphertexts).map(sum).collect()
    }

    fn add_bodies(
        &self,
        ring: &Arc<Ring>,
        ciphertexts: &mut Batch,
        folded: &Vec<u32>,
        bodies: &Bodies,
        bits: u32,
    ) -> Result<(), BackendError> {
        let of_query = ciphertexts.first().map_or(0, Vec::len);
        bodies.check(ciphertexts.len(), folded.len(), of_query * ring.degree())?;
        if bits > 31 {
            return Err(BackendError::Shape(format!("bodies of {bits} bits")));
        }
        let scale = ring.modulus() >> bits;
        for (query, ciphertexts) in ciphertexts.iter_mut().enumerate() {
            let words = folded[bodies.of(query)].chunks(ring.degree());
            for (ciphertext, words) in ciphertexts.iter_mut().zip(words) {
                let mut bodies = ring.zero();
                for (i, &word) in words.iter().enumerate() {
                    let rounded = (u64::from(word) + (1 << (31 - bits))) >> (32 - bits) & ((1 << bits) - 1);
                    ring.set_coefficient(&mut bodies, i, (scale * u128::from(rounded)) as i128);
                }
                ring.add_assign(&mut ciphertext.b, &bodies);
            }
        }
        Ok(())
    }

    fn selectors(
        &self,
        ring: &Arc<Ring>,
        keys: &[&NaiveKeys],
        leaves: &Batch,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<NaiveSelectors, BackendError> {
        check_batches(keys.len(), leaves.len())?;
        let levels = gadget.levels(ring);
        let of_query = |(keys, leaves): (&&NaiveKeys, &Vec<Ciphertext>)| {
            let rows = depth.checked_mul(levels).and_then(|rows| leaves.get(first..first.checked_add(rows)?));
            let (Some(rows), Some(conversion)) = (rows, &keys.conversion) else {
                return Err(BackendError::Shape("too few leaves or no keys to make selectors of".into()));
            };
            let selector = |rows: &[Ciphertext]| {
                let values = |row: Ciphertext| row.map(|a| transformed(ring, a));
                let of_b = rows.iter().cloned().map(values).collect();
                let of_a = rows.iter().map(|row| values(conversion.external_product(ring, row))).collect();
                Rgsw {
                    of_b: DigitKeys { gadget, ciphertexts: of_b },
                    of_a: DigitKeys { gadget, ciphertexts: of_a },
                }
            };
            Ok(rows.chunks_exact(levels).map(selector).collect())
        };
        Ok(NaiveSelectors(keys.iter().zip(leaves).map(of_query).collect::<Result<_, _>>()?))
    }

    fn rgsw_fold(
        &self,
        ring: &Arc<Ring>,
        selectors: &NaiveSelectors,
        ciphertexts: Batch,
    ) -> Result<Batch, BackendError> {
        check_batches(selectors.0.len(), ciphertexts.len())?;
        let of_query = |(selectors, mut ciphertexts): (&Vec<Rgsw>, Vec<Ciphertext>)| {
            if ciphertexts.is_empty() || ciphertexts.len() > 1 << selectors.len() {
                return Err(BackendError::Shape(
                    "more ciphertexts than the selectors tell apart, or none".into(),
                ));
            }
            for selector in selectors {
                let winner = |pair: &[Ciphertext]| match pair {
                    [first, second] => {
                        selector.external_product(ring, &second.minus(ring, first)).plus(ring, first)
                    }
                    alone => alone[0].clone(),
                };
                ciphertexts = ciphertexts.chunks(2).map(winner).collect();
            }
            Ok(ciphertexts)
        };
        selectors.0.iter().zip(ciphertexts).map(of_query).collect()
    }

    fn ciphertext_words(&self, ring: &Arc<Ring>, ciphertexts: &Batch) -> Result<Vec<u32>, BackendError> {
        let polynomials = ciphertexts.iter().flatten().flat_map(|c| [&c.a, &c.b]);
        Ok(polynomials.flat_map(|a| transformed(ring, a)).collect())
    }

    fn ciphertexts(&self, ring: &Arc<Ring>, queries: usize, words: &[u32]) -> Result<Batch, BackendError> {
        let of_query = check_ciphertexts(ring, queries, words)?;
        let ciphertext = |words| Ciphertext::split(words).map(|a| coefficients(ring, a));
        let mut all = words.chunks_exact(2 * ring.words()).map(ciphertext);
        Ok((0..queries).map(|_| all.by_ref().take(of_query).collect()).collect())
    }

    fn mod_switch(
        &self,
        ring: &Arc<Ring>,
        parts: &[&Batch],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let queries = parts.first().map_or(0, |part| part.len());
        parts.iter().try_for_each(|part| check_batches(queries, part.len()))?;
        let of_query = |query: usize| parts.iter().flat_map(move |part| &part[query]);
        Ok((0..queries)
            .map(|query| of_query(query).flat_map(|c| switched(ring, c, bits)).collect())
            .collect())
    }

    fn reinterpret(
        &self,
        ring: &Arc<Ring>,
        ciphertexts: &Batch,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<Vec<NaiveMatrix>, BackendError> {
        let matrix = |ciphertexts: &Vec<Ciphertext>| {
            let columns: Vec<_> = ciphertexts.iter().map(|c| switched(ring, c, bits)).collect();
            self.upload(layout, &layout.with_columns(columns.iter().map(Vec::as_slice))?)
        };
        ciphertexts.iter().map(matrix).collect()
    }

    fn scalar_fold_own(
        &self,
        matrices: &Vec<NaiveMatrix>,
        queries: &[u32],
    ) -> Result<Vec<u32>, BackendError> {
        let Some(layout) = matrices.first().map(|matrix| matrix.layout) else { return Ok(Vec::new()) };
        check_batches(matrices.len(), layout.batch_of(queries.len())?)?;
        let queries = queries.chunks_exact(layout.columns());
        let answers = matrices.iter().zip(queries).map(|(matrix, query)| self.scalar_fold(matrix, query));
        Ok(answers.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<NaiveColumns, BackendError> {
        layout.columns_of(words)?;
        Ok(NaiveColumns { layout, words: words.to_vec() })
    }

    fn encode_fold(
        &self,
        ring: &Arc<Ring>,
        matrices: &Vec<NaiveMatrix>,
        columns: &NaiveColumns,
        folded: FoldedBlocks,
        leaves: &Batch,
    ) -> Result<Batch, BackendError> {
        check_batches(matrices.len(), leaves.len())?;
        let of_query = |(matrix, leaves): (&NaiveMatrix, &Vec<Ciphertext>)| {
            let layout = matrix.layout;
            folded.check(layout, columns.layout, ring.degree())?;
            let mut words = Vec::new();
            for columns in columns.words.chunks(MAX_BATCH * layout.columns()) {
                words.extend(self.scalar_fold(matrix, columns)?);
            }
            let plain = self.encode(ring, folded.blocks, words.len() / layout.rows(), &|block, k, to| {
                for (j, to) in to.iter_mut().enumerate() {
                    *to = centred(words[k * layout.rows() + block * ring.degree() + j], folded.bits);
                }
            })?;
            fold(ring, &plain, leaves)
        };
        matrices.iter().zip(leaves).map(of_query).collect()
    }

    whole_halves!(ring => ring);
}

/// Returns the leaves of one query's expansion tree with this root.
fn tree(
    ring: &Ring,
    expansion: Expansion,
    keys: &NaiveKeys,
    root: Ciphertext,
) -> Result<Vec<Ciphertext>, BackendError> {
    let levels = expansion.first()..expansion.first().saturating_add(expansion.levels());
    let keys = keys.expansion.get(levels.start as usize..levels.end as usize);
    let keys = keys.ok_or_else(|| BackendError::Shape("keys that do not serve the expansion".into()))?;
    let mut nodes = vec![root];
    for (level, key) in levels.zip(keys) {
        let exponent = Expansion::exponent(ring.degree(), level);
        let split = |c: &Ciphertext| {
            let substituted = key.substitute(ring, exponent, c);
            let odd = c.minus(ring, &substituted);
            let shift = 2 * ring.degree() - (1 << level);
            [c.plus(ring, &substituted), odd.map(|a| ring.mul_monomial(a, shift))]
        };
        let wanted = expansion.nodes(level - expansion.first() + 1);
        nodes = nodes.iter().flat_map(split).take(wanted).collect();
    }
    Ok(nodes)
}

/// Computes `poly_fold` for one query.
fn fold(ring: &Ring, plain: &NaivePlain, leaves: &[Ciphertext]) -> Result<Vec<Ciphertext>, BackendError> {
    if leaves.len() < plain.columns {
        return Err(BackendError::Shape("fewer leaves than columns".into()));
    }
    let leaves: Vec<_> = leaves.iter().map(|leaf| leaf.map(|a| transformed(ring, a))).collect();
    let rows = plain.polynomials.chunks_exact(plain.columns).map(|row| {
        let mut sum = Ciphertext { a: ring.zero(), b: ring.zero() };
        for (polynomial, leaf) in row.iter().zip(&leaves) {
            ring.mul_add(&mut sum.a, polynomial, &leaf.a);
            ring.mul_add(&mut sum.b, polynomial, &leaf.b);
        }
        sum.map(|a| coefficients(ring, a))
    });
    Ok(rows.collect())
}

/// Returns the bytes of a switched ciphertext.
fn switched(ring: &Ring, ciphertext: &Ciphertext, bits: SwitchedBits) -> Vec<u8> {
    let mut stream = Vec::new();
    for (polynomial, bits) in [(&ciphertext.a, bits.a), (&ciphertext.b, bits.b)] {
        for i in 0..ring.degree() {
            let switched = switch(ring.coefficient(polynomial, i), ring.modulus(), bits);
            stream.extend((0..bits).map(|bit| (switched >> bit & 1) as u8));
        }
    }
    stream.chunks(8).map(|byte| byte.iter().rev().fold(0, |sum, bit| 2 * sum + bit)).collect()
}

/// Returns round(x 2^bits / q) mod 2^bits, computed bit by bit because 2^bits x does not fit any
/// integer type.
fn switch(x: u128, q: u128, bits: u32) -> u64 {
    let (mut quotient, mut rest) = (0, x);
    for _ in 0..bits {
        rest *= 2;
        quotient *= 2;
        if rest >= q {
            (quotient, rest) = (quotient + 1, rest - q);
        }
    }
    let rounded: u64 = quotient + u64::from(2 * rest >= q);
    rounded & ((1 << bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switching_rounds_to_the_nearest() {
        for q in [7u128, 1009, 536_608_769] {
            for x in (0..q).step_by(1 + q as usize / 1000) {
                for bits in [1, 3, 14, 20] {
                    let expected = (((2 * x) << bits) + q) / (2 * q) % (1 << bits);
                    assert_eq!(u128::from(switch(x, q, bits)), expected);
                }
            }
        }
    }
}

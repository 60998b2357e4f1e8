//! Exact gadget decomposition, in two steps around the transforms.
//!
//! The last multiplication of the inverse transform and the addition of a constant leave, for each
//! prime, the input of the decomposition. A digit is then a *field* below 2^32 from which a
//! constant, its `offset`, must be subtracted. The first addition of the forward transform
//! subtracts it, together with the multiple of the prime that keeps the word positive. Signed
//! digits therefore cost no more than unsigned ones.
//!
//! - [`Gadget::Residues`]: the field is the residue times (q/q_i)^-1, plus (q_i - 1)/2, modulo q_i.
//! - [`Gadget::Digits`]: the residues of h = (q - 1)/2 are added to those of x, so that x + h in
//!   [0, q) stands for the centred x. The digits of x + h in mixed radix (Garner's) are converted
//!   to a number of 32-bit limbs. Adding one constant then subtracts h again, rounds the dropped
//!   bits, and turns every signed digit into an unsigned field.

use spirea_backend::BackendError;
use spirea_math::{Gadget, Modulus, Ring, ShoupWord};

use super::lanes::{Kernel, WordLanes};
use super::modular::{Factor, Prime, montgomery_one};
use super::ntt::{Forward, Inverse};
use super::tables::{MOST_PRIMES, RingTables};

/// Decomposition of a ring's polynomials by one gadget.
#[derive(Debug)]
pub(super) struct Decomposition {
    pub gadget: Gadget,
    /// For each prime: the factor and the summand of the inverse transform.
    pub residues: Vec<(ShoupWord, u32)>,
    /// For each digit: the offset to subtract from its field.
    offsets: Vec<u32>,
    /// Recombination, for [`Gadget::Digits`].
    recombination: Option<Recombination>,
}

impl Decomposition {
    /// Prepares the decomposition.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if digits are too large for the words, that is, above twice the
    /// smallest prime in magnitude.
    pub(super) fn new(ring: &Ring, gadget: Gadget) -> Result<Self, BackendError> {
        let halves = ring.limbs().iter().map(|limb| limb.prime().value() / 2);
        let h = ring.modulus() / 2;
        let (residues, offsets, recombination) = match gadget {
            Gadget::Residues => {
                let residues = ring.limbs().iter().map(|limb| {
                    let (q, inverse) = (limb.prime(), limb.plan.degree_inverse());
                    (q.shoup(q.mul(limb.cofactor_inverse.value, inverse.value)), q.value() / 2)
                });
                (residues.collect(), halves.collect(), None)
            }
            Gadget::Digits { levels, base_log, dropped } => {
                let recombination = Recombination::new(ring, levels, base_log, dropped)?;
                let residues = ring
                    .limbs()
                    .iter()
                    .map(|limb| (limb.plan.degree_inverse(), (h % u128::from(limb.prime().value())) as u32));
                (residues.collect(), recombination.offsets(), Some(recombination))
            }
        };
        let decomposition = Self { gadget, residues, offsets, recombination };
        let least = ring.limbs().iter().map(|limb| limb.prime().value()).min().unwrap_or(0);
        if decomposition.offsets.iter().any(|&offset| offset > 2 * least) {
            return Err(BackendError::Shape(format!(
                "{gadget:?} has digits beyond twice the smallest prime"
            )));
        }
        Ok(decomposition)
    }

    /// Returns the number of digits.
    pub(super) fn levels(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the summand, below 4q, that turns a digit's field into the digit's residue modulo q:
    /// fields are below twice the offset, plus 1, and the offset is at most 2q.
    pub(super) fn lift(&self, digit: usize, q: Modulus) -> u32 {
        let offset = self.offsets[digit];
        offset.div_ceil(q.value()) * q.value() - offset
    }

    /// Returns the digit whose residues modulo prime `prime` are the polynomial's own times a
    /// constant, with that constant. This digit needs no transform for that prime.
    fn own_digit(&self, ring: &Ring, prime: usize) -> Option<(usize, ShoupWord)> {
        (self.gadget == Gadget::Residues).then(|| (prime, ring.limbs()[prime].cofactor_inverse))
    }

    /// Returns the factor of a digit's term modulo a prime, including the 2^32 that Montgomery's
    /// reduction divides by.
    pub(super) fn factor(&self, tables: &RingTables, prime: usize, digit: usize) -> ShoupWord {
        let (q, own) = (tables.primes()[prime].q, self.own_digit(tables.ring(), prime));
        q.shoup(match own.filter(|(own, _)| *own == digit) {
            Some((_, constant)) => q.mul(montgomery_one(q), constant.value),
            None => montgomery_one(q),
        })
    }

    /// Writes the term of a digit modulo a prime, from the polynomial's values there and the
    /// digit's field: the digit's values as arbitrary words, not yet multiplied by
    /// [`Self::factor`].
    pub(super) fn term<L: WordLanes<W>, const W: usize>(
        &self,
        lanes: L,
        tables: &RingTables,
        prime: usize,
        digit: usize,
        [values, field]: [&[u32]; 2],
        to: &mut [u32],
    ) {
        if self.own_digit(tables.ring(), prime).is_some_and(|(own, _)| own == digit) {
            to.copy_from_slice(values);
        } else {
            let lift = self.lift(digit, tables.primes()[prime].q);
            lanes.run(Forward { tables, prime, from: field, lift, to });
        }
    }

    /// Computes the inverse transforms of a polynomial (values below 2q) and from these its digits'
    /// fields, one polynomial of words for each digit. `residues` has room for one polynomial for
    /// each prime.
    pub(super) fn decompose<L: WordLanes<W>, const W: usize>(
        &self,
        lanes: L,
        tables: &RingTables,
        values: &[u32],
        residues: &mut [u32],
        fields: &mut [u32],
    ) {
        let degree = tables.degree();
        // Without recombination, residues are already fields.
        let to = if self.recombination.is_some() { &mut *residues } else { &mut *fields };
        let pieces = values.chunks_exact(degree).zip(to.chunks_exact_mut(degree));
        for (prime, ((from, to), &(scale, shift))) in pieces.zip(&self.residues).enumerate() {
            lanes.run(Inverse { tables, prime, from, scale, shift, to });
        }
        if let Some(recombination) = &self.recombination {
            lanes.run(Recombine { tables, recombination, residues, fields });
        }
    }
}

/// Constants of mixed-radix recombination and of the digits' positions.
#[derive(Debug)]
struct Recombination {
    /// For i and j < i: 1/q_j mod q_i, and the least multiple of q_i that is at least q_j.
    inverses: Vec<(ShoupWord, u32)>,
    /// The constant added to x + h, in limbs.
    constant: [u32; MOST_PRIMES],
    digits: Vec<DigitBits>,
}

/// Position of a digit in the recombined number.
#[derive(Debug)]
struct DigitBits {
    /// Number of its lowest bit.
    bit: u32,
    /// Mask that clears higher digits.
    mask: u32,
    /// Offset to subtract.
    offset: u32,
}

impl Recombination {
    fn new(ring: &Ring, levels: u32, base_log: u32, dropped: u32) -> Result<Self, BackendError> {
        let refused = || {
            let limbs = ring.limbs().len();
            BackendError::Shape(format!(
                "{levels} digits of {base_log} bits above {dropped} do not fit {limbs} primes"
            ))
        };
        let top = levels.checked_sub(1).and_then(|lower| lower.checked_mul(base_log)?.checked_add(dropped));
        let top = top.filter(|&top| top < 120 && (1..32).contains(&base_log)).ok_or_else(refused)?;
        // Maximum magnitude of the highest digit: rounding and the carry of lower digits add 1
        // each.
        let highest = ((ring.modulus() / 2) >> top) + 2;
        // Logarithm of the offset, a power of two above `highest`.
        let top_log = u128::BITS - highest.leading_zeros();
        let limbs = ring.limbs().len() as u32;
        if top_log > 30 || top + top_log + 1 > 32 * limbs {
            return Err(refused());
        }
        let digits: Vec<DigitBits> = (0..levels)
            .map(|i| {
                let bit = dropped + i * base_log;
                if i + 1 < levels {
                    DigitBits { bit, mask: (1 << base_log) - 1, offset: 1 << (base_log - 1) }
                } else {
                    DigitBits { bit, mask: u32::MAX, offset: 1 << top_log }
                }
            })
            .collect();
        let rounding = (1u128 << dropped) >> 1;
        let offsets = digits.iter().map(|digit| u128::from(digit.offset) << digit.bit).sum::<u128>();
        let constant = (rounding + offsets).wrapping_sub(ring.modulus() / 2);
        let inverses = (0..ring.limbs().len()).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| {
            let (q, other) = (ring.limbs()[i].prime(), ring.limbs()[j].prime().value());
            (q.shoup(q.inverse(other % q.value())), other.div_ceil(q.value()) * q.value())
        });
        Ok(Self {
            inverses: inverses.collect(),
            constant: std::array::from_fn(|limb| (constant >> (32 * limb)) as u32),
            digits,
        })
    }

    fn offsets(&self) -> Vec<u32> {
        self.digits.iter().map(|digit| digit.offset).collect()
    }
}

/// Kernel that computes the fields of x from the residues of x + h.
struct Recombine<'a> {
    tables: &'a RingTables,
    recombination: &'a Recombination,
    residues: &'a [u32],
    fields: &'a mut [u32],
}

impl Kernel for Recombine<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        match self.tables.primes().len() {
            1 => self.limbs::<L, 1, W>(lanes),
            2 => self.limbs::<L, 2, W>(lanes),
            3 => self.limbs::<L, 3, W>(lanes),
            _ => self.limbs::<L, 4, W>(lanes),
        }
    }
}

impl Recombine<'_> {
    #[inline(always)]
    fn limbs<L: WordLanes<W>, const P: usize, const W: usize>(self, lanes: L) {
        let Self { tables, recombination, residues, fields } = self;
        let degree = tables.degree();
        for v in (0..degree).step_by(W) {
            let residues: [L::Vector; P] = std::array::from_fn(|i| {
                lanes.load(residues[i * degree + v..].first_chunk().expect("a vector"))
            });
            let digits = mixed_radix::<L, P, W>(lanes, tables, recombination, residues);
            let limbs = binary::<L, P, W>(lanes, tables, &recombination.constant, digits);
            for (digit, fields) in recombination.digits.iter().zip(fields.chunks_exact_mut(degree)) {
                let (limb, shift) = ((digit.bit / 32) as usize, digit.bit % 32);
                let mut field = lanes.shift_right(limbs[limb], shift);
                if limb + 1 < P {
                    field = lanes.add(field, lanes.shift_left(limbs[limb + 1], 32 - shift));
                }
                let field = lanes.and(field, lanes.splat(digit.mask));
                lanes.store(field, fields[v..].first_chunk_mut().expect("a vector"));
            }
        }
    }
}

/// Computes the digits g_i < q_i with x = g_0 + q_0 (g_1 + q_1 (g_2 + ...)), by Garner's algorithm.
#[inline(always)]
fn mixed_radix<L: WordLanes<W>, const P: usize, const W: usize>(
    lanes: L,
    tables: &RingTables,
    recombination: &Recombination,
    mut x: [L::Vector; P],
) -> [L::Vector; P] {
    for i in 1..P {
        let prime = Prime::new(lanes, tables.primes()[i].q);
        for j in 0..i {
            let (inverse, multiple) = recombination.inverses[i * (i - 1) / 2 + j];
            // x[i] is below 2q and the multiple at most 4q; if the multiple exceeds 2q, q is below
            // 2^29.
            let difference = lanes.sub(lanes.add(x[i], lanes.splat(multiple)), x[j]);
            x[i] = prime.mul_lazy(lanes, difference, Factor::splat(lanes, inverse));
        }
        x[i] = prime.below_q(lanes, x[i]);
    }
    x
}

/// Converts mixed radix to limbs of 32 bits by Horner's rule and adds a constant, modulo 2^(32 P).
#[inline(always)]
fn binary<L: WordLanes<W>, const P: usize, const W: usize>(
    lanes: L,
    tables: &RingTables,
    constant: &[u32; MOST_PRIMES],
    digits: [L::Vector; P],
) -> [L::Vector; P] {
    // Multiplying by 1 keeps only the low half.
    let one = lanes.even(lanes.splat(1));
    let (mut even, mut odd) = ([lanes.zeros(); P], [lanes.zeros(); P]);
    (even[0], odd[0]) = (lanes.even(digits[P - 1]), lanes.odd(digits[P - 1]));
    for i in (0..P - 1).rev() {
        let q = lanes.even(lanes.splat(tables.primes()[i].q.value()));
        let mut carry = [lanes.even(digits[i]), lanes.odd(digits[i])].map(|digit| lanes.mul_wide(digit, one));
        // Higher limbs are still 0.
        for limb in 0..P - i {
            // The sum is at most (2^32 - 1) 2^30 + 2^32.
            even[limb] = lanes.add_wide(lanes.mul_wide(even[limb], q), carry[0]);
            odd[limb] = lanes.add_wide(lanes.mul_wide(odd[limb], q), carry[1]);
            carry = [lanes.high(even[limb]), lanes.high(odd[limb])];
        }
    }
    let mut carry = [lanes.zeros(); 2];
    for limb in 0..P {
        let constant = lanes.mul_wide(lanes.even(lanes.splat(constant[limb])), one);
        for (sum, carry) in [&mut even[limb], &mut odd[limb]].into_iter().zip(&mut carry) {
            *sum = lanes.add_wide(lanes.add_wide(lanes.mul_wide(*sum, one), constant), *carry);
            *carry = lanes.high(*sum);
        }
    }
    std::array::from_fn(|limb| lanes.join_low(even[limb], odd[limb]))
}

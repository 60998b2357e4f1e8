//! How polynomials are decomposed: constants that make every digit an unsigned field of words.
//!
//! The inverse transform's last multiplication and an addition leave, for each prime, what the decomposition begins
//! with; a digit then is a *field* below 2^32 from which a constant, its offset, is to be subtracted, and what is added
//! to the field before the forward transform does that, together with the multiple of the prime that keeps the word
//! positive. So signed digits cost nothing beyond unsigned ones.
//!
//! - [`Gadget::Residues`]: the field is the residue times (q/q_i)^-1, plus (q_i - 1)/2, modulo q_i.
//! - [`Gadget::Digits`]: all residues plus those of h = (q - 1)/2, so that x + h in [0, q) stands for the centred
//!   x. Its digits in mixed radix (Garner's) give it as a number of 32-bit words; adding one constant then takes h off
//!   again, rounds what is dropped, and turns every signed digit into an unsigned field.

use bytemuck::{Pod, Zeroable};
use spirea_backend::BackendError;
use spirea_math::{Gadget, Ring};

use super::primes::{MOST_PRIMES, Prime};
use super::twiddles::Factor;

/// Most digits of a gadget: what kernels have constants for.
const MOST_DIGITS: usize = 24;
/// The digit has no limb whose values are its own.
const NONE: u32 = u32::MAX;

/// A digit as kernels take it (`ring.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Digit {
    word: u32,
    upper: u32,
    shift: u32,
    mask: u32,
    own: u32,
    lift: [u32; MOST_PRIMES],
}

/// A decomposition as kernels take it (`ring.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Constants {
    levels: u32,
    recombined: u32,
    scales: [Factor; MOST_PRIMES],
    shifts: [u32; MOST_PRIMES],
    inverses: [Factor; 6],
    multiples: [u32; 6],
    constant: [u32; MOST_PRIMES],
    digits: [Digit; MOST_DIGITS],
}

/// How a ring's polynomials are decomposed by one gadget.
#[derive(Clone, Debug)]
pub(super) struct Decomposition {
    pub gadget: Gadget,
    /// Number of digits.
    pub levels: usize,
    pub constants: Constants,
    /// `[digit][limb]`: what keys are multiplied by in Montgomery's way: 2^64, so that 2^32 stays in them, and for a
    /// limb's own digit the constant by which its values are the digit's.
    pub key_factors: Vec<u32>,
}

impl Decomposition {
    /// # Errors
    /// [`BackendError::Shape`] for digits too large for the words: more than twice the smallest prime in
    /// magnitude, or for too many of them.
    pub(super) fn new(ring: &Ring, gadget: Gadget) -> Result<Self, BackendError> {
        let levels = gadget.levels(ring);
        if !(1..=MOST_DIGITS).contains(&levels) {
            return Err(BackendError::Shape(format!(
                "{levels} digits: the CUDA kernels take up to {MOST_DIGITS}"
            )));
        }
        let mut constants = Constants::zeroed();
        constants.levels = levels as u32;
        let offsets = match gadget {
            Gadget::Residues => residues(ring, &mut constants),
            Gadget::Digits { levels, base_log, dropped } => {
                digits(ring, &mut constants, levels, base_log, dropped)?
            }
        };
        let least = ring.limbs().iter().map(|limb| limb.prime().value()).min().unwrap_or(0);
        if offsets.iter().any(|&offset| offset > 2 * least) {
            return Err(BackendError::Shape(format!(
                "{gadget:?} has digits beyond twice the smallest prime"
            )));
        }
        let mut key_factors = Vec::with_capacity(levels * ring.limbs().len());
        for (digit, &offset) in constants.digits.iter_mut().zip(&offsets) {
            for (i, limb) in ring.limbs().iter().enumerate() {
                let q = limb.prime();
                // With it a field, which is at most twice the offset, is below 4q.
                digit.lift[i] = offset.div_ceil(q.value()) * q.value() - offset;
                let square = Prime::new(q).square;
                let own = digit.own == i as u32;
                key_factors.push(if own { q.mul(square, limb.cofactor_inverse.value) } else { square });
            }
        }
        Ok(Self { gadget, levels, constants, key_factors })
    }

    /// Whether residues are recombined: where they are not, they are fields already.
    pub(super) fn recombines(&self) -> bool {
        self.constants.recombined > 0
    }
}

/// Constants of [`Gadget::Residues`]; the offsets of the digits.
fn residues(ring: &Ring, constants: &mut Constants) -> Vec<u32> {
    for (i, limb) in ring.limbs().iter().enumerate() {
        let (q, inverse) = (limb.prime(), limb.plan.degree_inverse());
        constants.scales[i] = q.shoup(q.mul(limb.cofactor_inverse.value, inverse.value)).into();
        constants.shifts[i] = q.value() / 2;
        let i = i as u32;
        constants.digits[i as usize] =
            Digit { word: i, upper: i, shift: 0, mask: u32::MAX, own: i, lift: [0; MOST_PRIMES] };
    }
    ring.limbs().iter().map(|limb| limb.prime().value() / 2).collect()
}

/// Constants of [`Gadget::Digits`]; the offsets of the digits.
fn digits(
    ring: &Ring,
    constants: &mut Constants,
    levels: u32,
    base_log: u32,
    dropped: u32,
) -> Result<Vec<u32>, BackendError> {
    let limbs = ring.limbs().len() as u32;
    let refused = || {
        BackendError::Shape(format!(
            "{levels} digits of {base_log} bits above {dropped} do not fit {limbs} primes"
        ))
    };
    let top = levels.checked_sub(1).and_then(|lower| lower.checked_mul(base_log)?.checked_add(dropped));
    let top = top.filter(|&top| top < 120 && (1..32).contains(&base_log)).ok_or_else(refused)?;
    // The highest digit is at most this in magnitude: rounding and the carry of lower digits add 1 each.
    let h = ring.modulus() / 2;
    let highest = (h >> top) + 2;
    // An offset beyond it, a power of two.
    let top_log = u128::BITS - highest.leading_zeros();
    if top_log > 30 || top + top_log + 1 > 32 * limbs {
        return Err(refused());
    }
    let mut offsets = Vec::with_capacity(levels as usize);
    let mut constant = ((1u128 << dropped) >> 1).wrapping_sub(h);
    for i in 0..levels {
        let bit = dropped + i * base_log;
        let (width, offset) =
            if i + 1 < levels { (base_log, 1u32 << (base_log - 1)) } else { (u32::BITS, 1 << top_log) };
        constant = constant.wrapping_add(u128::from(offset) << bit);
        let (word, shift) = (bit / 32, bit % 32);
        // Above the last word is nothing.
        let (upper, bits) =
            if word + 1 < limbs { (word + 1, width) } else { (word, width.min(u32::BITS - shift)) };
        constants.digits[i as usize] =
            Digit { word, upper, shift, mask: u32::MAX >> (32 - bits), own: NONE, lift: [0; MOST_PRIMES] };
        offsets.push(offset);
    }
    constants.recombined = limbs;
    constants.constant = std::array::from_fn(|word| (constant >> (32 * word)) as u32);
    for (i, limb) in ring.limbs().iter().enumerate() {
        let q = limb.prime();
        constants.scales[i] = limb.plan.degree_inverse().into();
        constants.shifts[i] = (h % u128::from(q.value())) as u32;
        for (j, other) in ring.limbs()[..i].iter().enumerate() {
            let other = other.prime().value();
            let at = i * i.saturating_sub(1) / 2 + j;
            constants.inverses[at] = q.shoup(q.inverse(other % q.value())).into();
            constants.multiples[at] = other.div_ceil(q.value()) * q.value();
        }
    }
    Ok(offsets)
}

//! Decomposition of polynomials: constants that make every digit an unsigned field of words.
//!
//! For each prime, the inverse transform's last multiplication and one addition yield the input of
//! the decomposition. A digit then is a *field* below 2^32 minus a constant, its offset. The
//! constant that is added to the field before the forward transform subtracts the offset and adds
//! the multiple of the prime that keeps the word positive. So signed digits cost no more than
//! unsigned ones.
//!
//! - [`Gadget::Residues`]: the field is the residue times (q/q_i)^-1, plus (q_i - 1)/2, modulo q_i.
//! - [`Gadget::Digits`]: the residues of h = (q - 1)/2 are added to those of x, so that x + h in
//!   [0, q) stands for the centred x. The mixed-radix digits (Garner) of x + h are converted to a
//!   number of 32-bit words. Adding one constant then subtracts h again, rounds the dropped bits,
//!   and turns every signed digit into an unsigned field.

use bytemuck::{Pod, Zeroable};
use spirea_backend::BackendError;
use spirea_math::{Gadget, Ring};

use super::primes::{MOST_PRIMES, Prime};
use super::twiddles::Factor;

/// Maximum number of digits of a gadget, limited by the constants that kernels take.
const MOST_DIGITS: usize = 24;
/// Value of `own` for a digit that is no limb's own residue.
const NONE: u32 = u32::MAX;

/// Digit as kernels take it (`ring.cuh`).
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

/// Decomposition as kernels take it (`ring.cuh`).
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

/// Decomposition of a ring's polynomials by one gadget.
#[derive(Clone, Debug)]
pub(super) struct Decomposition {
    pub gadget: Gadget,
    /// Number of digits.
    pub levels: usize,
    pub constants: Constants,
    /// Factors of the keys in Montgomery products, `[digit][limb]`: 2^64, so that a factor of 2^32
    /// remains in the keys. The factor for a limb's own digit also includes the constant by which
    /// the limb's values differ from the digit.
    pub key_factors: Vec<u32>,
}

impl Decomposition {
    /// # Errors
    /// [`BackendError::Shape`] if digits are too large for words (more than twice the smallest
    /// prime in magnitude), or if there are too many digits.
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
                // A field is at most twice the offset, so its sum with this lift is below 4q.
                digit.lift[i] = offset.div_ceil(q.value()) * q.value() - offset;
                let square = Prime::new(q).square;
                let own = digit.own == i as u32;
                key_factors.push(if own { q.mul(square, limb.cofactor_inverse.value) } else { square });
            }
        }
        Ok(Self { gadget, levels, constants, key_factors })
    }

    /// Returns true if residues must be recombined to fields; otherwise residues are the fields.
    pub(super) fn recombines(&self) -> bool {
        self.constants.recombined > 0
    }
}

/// Sets the constants of [`Gadget::Residues`]; returns the offsets of the digits.
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

/// Sets the constants of [`Gadget::Digits`]; returns the offsets of the digits.
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
    // Bound on the highest digit's magnitude: rounding and the carry of lower digits add 1 each.
    let h = ring.modulus() / 2;
    let highest = (h >> top) + 2;
    // The offset is the least power of two above the bound.
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
        // There are no bits above the last word.
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

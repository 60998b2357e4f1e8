//! Polynomials and ciphertexts on the wire.

use spirea_math::Ring;

use crate::messages::{Ciphertext, SeededCiphertext, SerializedCiphertext};
use crate::seed::SEED_BYTES;
use crate::{AppleError, bits};

/// Returns the bits of a residue modulo the ring's prime `limb`.
pub fn residue_bits(ring: &Ring, limb: usize) -> u32 {
    u32::BITS - (ring.limbs()[limb].prime().value() - 1).leading_zeros()
}

/// Returns the bytes of a polynomial: for each prime, N residues, padded to a byte.
pub fn polynomial_bytes(ring: &Ring) -> usize {
    (0..ring.limbs().len()).map(|limb| limb_bytes(ring, limb)).sum()
}

fn limb_bytes(ring: &Ring, limb: usize) -> usize {
    (ring.degree() * residue_bits(ring, limb) as usize).div_ceil(8)
}

/// Appends a polynomial without the `dropped` low bits of each residue.
pub fn push_polynomial(bytes: &mut Vec<u8>, ring: &Ring, polynomial: &[u32], dropped: u32) {
    for (limb, residues) in polynomial.chunks_exact(ring.degree()).enumerate() {
        bits::push(bytes, residue_bits(ring, limb) - dropped, residues.iter().map(|&x| x >> dropped));
    }
}

/// Parses a polynomial of the ring, in the form in which it was written.
///
/// # Errors
/// [`AppleError::Malformed`] if the length is wrong or a residue is not below its prime.
pub fn parse_polynomial(message: &'static str, ring: &Ring, bytes: &[u8]) -> Result<Vec<u32>, AppleError> {
    let length = polynomial_bytes(ring);
    if bytes.len() != length {
        let detail = format!("a polynomial has {length} bytes, not {}", bytes.len());
        return Err(AppleError::malformed(message, detail));
    }
    let (mut polynomial, mut rest) = (Vec::with_capacity(ring.words()), bytes);
    for (i, limb) in ring.limbs().iter().enumerate() {
        let (head, tail) = rest.split_at(limb_bytes(ring, i));
        let start = polynomial.len();
        polynomial.extend(bits::numbers(head, residue_bits(ring, i)).take(ring.degree()));
        if polynomial[start..].iter().any(|&residue| residue >= limb.prime().value()) {
            return Err(AppleError::malformed(message, "a residue is not below its prime"));
        }
        rest = tail;
    }
    Ok(polynomial)
}

/// Parses a seeded ciphertext: its first polynomial, and the seed of the second one.
///
/// # Errors
/// [`AppleError::Malformed`] if the ciphertext has another form, the seed has another length, or
/// the polynomial is malformed.
pub fn parse_seeded(
    message: &'static str,
    ring: &Ring,
    ciphertext: &SerializedCiphertext,
) -> Result<(Vec<u32>, [u8; SEED_BYTES]), AppleError> {
    let Some(Ciphertext::Seeded(SeededCiphertext { poly0, seed })) = &ciphertext.form else {
        return Err(AppleError::malformed(message, "a ciphertext has no seed"));
    };
    let seed = seed[..].try_into().map_err(|_| {
        AppleError::malformed(message, format!("a seed has {SEED_BYTES} bytes, not {}", seed.len()))
    })?;
    Ok((parse_polynomial(message, ring, poly0)?, seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::uniform;
    use crate::set::RINGS;

    #[test]
    fn polynomials_are_read_back_and_damaged_ones_are_refused() {
        for (ring, length) in [(&RINGS.ciphertext, 28_160), (&RINGS.keys, 42_496)] {
            let polynomial = uniform(ring, &[3; SEED_BYTES]);
            let mut bytes = Vec::new();
            push_polynomial(&mut bytes, ring, &polynomial, 0);
            assert_eq!(bytes.len(), length);
            assert_eq!(parse_polynomial("test", ring, &bytes), Ok(polynomial));
            assert!(parse_polynomial("test", ring, &bytes[1..]).is_err());
            bytes[length - 4..].fill(255);
            let error = parse_polynomial("test", ring, &bytes).unwrap_err().to_string();
            assert!(error.contains("not below its prime"), "{error}");
        }
    }
}

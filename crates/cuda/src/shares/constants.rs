//! Constants of the pseudorandom functions, which kernels take as an argument.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use spirea_dpf::PrfKind;
use spirea_dpf::prf::AES_KEY;

use crate::driver::{Arg, Buffer, Device, DriverError};

/// `FunctionConstants` of `prf_node.cuh`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct FunctionConstants {
    words: [u32; 64],
    table: u64,
}

/// Constants of all functions, on a device.
#[derive(Debug)]
pub(super) struct Constants {
    table: Buffer<u32>,
}

impl Constants {
    pub(super) fn new(device: &Arc<Device>) -> Result<Self, DriverError> {
        Ok(Self { table: device.hold_values(&aes_table())? })
    }

    /// Returns the constants of a function as a kernel argument.
    pub(super) fn argument(&self, prf: PrfKind) -> Arg {
        let mut words = [0; 64];
        match prf {
            PrfKind::Aes128 => {
                words[..44].copy_from_slice(&aes_schedule(AES_KEY));
                // The kernel adds these round keys before it rotates columns by half a word
                // (`column` in `prf_aes.cuh`), so they are rotated here.
                words[4..40].iter_mut().for_each(|word| *word = word.rotate_left(16));
            }
            PrfKind::Sha256 => words = SHA_CONSTANTS,
            _ => (),
        }
        Arg::structure(&FunctionConstants { words, table: self.table.all().address() })
    }
}

/// Multiplies two polynomials modulo x^8 + x^4 + x^3 + x + 1.
const fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = a << 1 ^ if a & 0x80 != 0 { 0x1b } else { 0 };
        b >>= 1;
    }
    product
}

/// Applies the S-box of FIPS 197, section 5.1.1. Computes the inverse as the 254th power, then
/// applies an affine map.
const fn substitute(byte: u8) -> u8 {
    let (mut inverse, mut i) = (1, 0);
    while i < 254 {
        inverse = multiply(inverse, byte);
        i += 1;
    }
    inverse
        ^ inverse.rotate_left(1)
        ^ inverse.rotate_left(2)
        ^ inverse.rotate_left(3)
        ^ inverse.rotate_left(4)
        ^ 0x63
}

/// Returns the table T0: S-box and first column of MixColumns in one.
fn aes_table() -> [u32; 256] {
    std::array::from_fn(|i| {
        let byte = substitute(i as u8);
        u32::from_le_bytes([multiply(byte, 2), byte, byte, multiply(byte, 3)])
    })
}

/// Returns the round keys (FIPS 197, section 5.2): a word for each column, row 0 in its lowest
/// byte.
fn aes_schedule(key: [u8; 16]) -> [u32; 44] {
    let mut words = [0u32; 44];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut constant = 1;
    for i in 4..44 {
        let mut word = words[i - 1];
        if i % 4 == 0 {
            word =
                u32::from_le_bytes(word.rotate_right(8).to_le_bytes().map(substitute)) ^ u32::from(constant);
            constant = multiply(constant, 2);
        }
        words[i] = words[i - 4] ^ word;
    }
    words
}

/// Fractional parts of the cube roots of the first 64 primes (FIPS 180-4, section 4.2.2).
#[rustfmt::skip]
const SHA_CONSTANTS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the round keys of FIPS 197, appendix A.1.
    #[test]
    fn the_schedule_is_that_of_the_standard() {
        let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3cu128.to_be_bytes();
        let words = aes_schedule(key).map(u32::swap_bytes);
        assert_eq!([words[4], words[9], words[43]], [0xa0fa_fe17, 0x7a96_b943, 0xb663_0ca6]);
    }

    #[test]
    fn the_table_has_the_substitution_in_its_middle() {
        let table = aes_table();
        assert_eq!([table[0], table[0x53]], [0xa563_63c6, 0x2ced_edc1]);
    }
}

//! Products of bit matrices by their definition, for tests on machines without the instruction.

use super::bits::{BitKernel, BitLanes, SIDE, shuffled};

/// Token of the definition. Every machine has it.
#[derive(Clone, Copy)]
pub(super) struct DefinedProducts;

impl BitLanes for DefinedProducts {
    type Vector = [u64; 4];
    type Stripe = [u8; 32];
    const SETS: usize = 1;

    fn run<K: BitKernel>(self, kernel: K) {
        kernel.run(self);
    }

    fn splat(self, word: u64) -> [u64; 4] {
        [word; 4]
    }

    fn xor(self, a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
        std::array::from_fn(|i| a[i] ^ b[i])
    }

    fn multiply(self, bits: [u64; 4], matrices: [u64; 4]) -> [u64; 4] {
        let parity = |byte: u8| byte.count_ones() as u8 & 1;
        std::array::from_fn(|i| {
            let rows = matrices[i].to_be_bytes();
            let product = |byte| (0..8).fold(0, |sum, b| sum | parity(byte & rows[b]) << b);
            u64::from_le_bytes(bits[i].to_le_bytes().map(product))
        })
    }

    fn load_stripes(self, bytes: &[u8], stride: usize) -> [[u8; 32]; SIDE] {
        std::array::from_fn(|i| bytes[i * stride..][..32].try_into().unwrap())
    }

    fn interleave(self, stripes: [[u8; 32]; SIDE]) -> [[u8; 32]; SIDE] {
        let mut words = [[0; SIDE]; 32];
        for (i, byte) in (0..32).flat_map(|i| (0..SIDE).map(move |byte| (i, byte))) {
            words[shuffled(i)][byte] = stripes[byte][i];
        }
        bytemuck::cast(words)
    }

    fn slice(self, rows: [[u8; 32]; SIDE]) -> [[u8; 32]; SIDE] {
        let mut words = [[0; SIDE]; 32];
        for (i, bit) in (0..32).flat_map(|i| (0..SIDE).map(move |bit| (i, bit))) {
            words[shuffled(i)][7 - bit] = (0..SIDE).fold(0, |byte, r| byte | (rows[r][i] >> bit & 1) << r);
        }
        bytemuck::cast(words)
    }
}

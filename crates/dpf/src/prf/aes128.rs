use std::sync::LazyLock;

use aes::cipher::{BlockCipherEncrypt, KeyInit};

use super::{Prf, PrfKind};
use crate::Block;

/// The cipher's key, in the order of FIPS 197: the first 16 bytes of the fractional part of pi, as
/// in Blowfish's first round keys. A key is suitable if nobody could have chosen it for a purpose.
pub const KEY: [u8; 16] = 0x243F_6A88_85A3_08D3_1319_8A2E_0370_7344u128.to_be_bytes();

/// AES-128 with one fixed, public key: `F(s, i) = E(sigma(s + i)) + sigma(s + i)` with
/// `sigma(high, low) = (high + low, high)` on halves of 64 bits, where + is exclusive or.
///
/// Guo, Katz, Wang and Yu ("Efficient and secure multiparty computation from fixed-key block
/// ciphers", IEEE S&P 2020, section IV) show: a Matyas-Meyer-Oseas compression of a permutation is
/// correlation robust in the ideal-permutation model only after a linear orthomorphism sigma. The
/// inputs s + i of a seed are correlated exactly as the definition allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aes128;

static CIPHER: LazyLock<aes::Aes128> = LazyLock::new(|| aes::Aes128::new(&KEY.into()));

/// Computes sigma. It is an orthomorphism: both sigma and the sum of sigma and the identity are
/// invertible.
#[inline(always)]
fn sigma(block: Block) -> Block {
    let (high, low) = ((block >> 64) as u64, block as u64);
    Block::from(high ^ low) << 64 | Block::from(high)
}

impl Prf for Aes128 {
    const KIND: PrfKind = PrfKind::Aes128;

    #[inline]
    fn blocks<const N: usize>(self, seeds: &[Block], expanded: &mut [[Block; N]]) {
        assert_eq!(seeds.len(), expanded.len());
        /// Blocks encrypted at a time.
        const GROUP: usize = 64;
        for (seed, blocks) in seeds.iter().zip(expanded.iter_mut()) {
            *blocks = std::array::from_fn(|i| sigma(seed ^ i as Block));
        }
        let mut bytes = [aes::Block::default(); GROUP];
        for blocks in expanded.as_flattened_mut().chunks_mut(GROUP) {
            let bytes = &mut bytes[..blocks.len()];
            bytes.iter_mut().zip(&*blocks).for_each(|(to, block)| *to = block.to_le_bytes().into());
            CIPHER.encrypt_blocks(bytes);
            for (block, bytes) in blocks.iter_mut().zip(bytes) {
                *block ^= Block::from_le_bytes((*bytes).into());
            }
        }
    }
}

//! Kernels of every pseudorandom function.

use spirea_dpf::PrfKind;

use crate::driver::Compute;

/// Kernels of a function, by name, and their requirements.
pub(super) struct Functions {
    /// Expands the top of each key's tree, with one block a key.
    pub tops_apart: &'static str,
    /// Expands the tops of all keys' trees, with all blocks together.
    pub tops_together: &'static str,
    /// Writes shares to memory.
    pub evaluate: &'static str,
    /// Calls the function and does nothing else.
    pub calls: &'static str,
    /// Folds rows by shares of bits.
    pub fold_bits: &'static str,
    /// Folds rows of whole words by shares of bits on tensor cores.
    pub fold_bits_mma: &'static str,
    /// Folds rows by shares of 32-bit words.
    pub fold_u32: &'static str,
    /// Folds rows by shares of 64-bit words.
    pub fold_u64: &'static str,
    /// Bytes of tables in the shared memory of a block, from [`Compute::AMPERE`] on.
    tables: usize,
    /// Maximum number of keys of a group: `GROUP_KEYS` of the function's type.
    pub group_keys: usize,
}

impl Functions {
    /// Returns the bytes of tables in the shared memory of a block: `SHARED_BYTES` of the
    /// function's type. Turing has one of the two tables of AES.
    pub fn tables(&self, compute: Compute) -> usize {
        if compute < Compute::AMPERE { self.tables / 2 } else { self.tables }
    }
}

macro_rules! functions {
    ($($prf:ident, $name:literal, $tables:literal, $keys:literal;)*) => {
        /// Returns the kernels of a function.
        pub(super) fn functions(prf: PrfKind) -> &'static Functions {
            match prf {$(
                PrfKind::$prf => &Functions {
                    tops_apart: concat!("share_tops_apart_", $name),
                    tops_together: concat!("share_tops_together_", $name),
                    evaluate: concat!("share_evaluate_", $name),
                    calls: concat!("share_calls_", $name),
                    fold_bits: concat!("share_fold_bits_", $name),
                    fold_bits_mma: concat!("share_fold_bits_mma_", $name),
                    fold_u32: concat!("share_fold_u32_", $name),
                    fold_u64: concat!("share_fold_u64_", $name),
                    tables: $tables,
                    group_keys: $keys,
                },
            )*}
        }
    };
}

functions! {
    Aes128, "aes128", 65536, 16;
    ChaCha20, "chacha20", 0, 16;
    ChaCha12, "chacha12", 0, 16;
    Salsa20, "salsa20", 0, 16;
    Salsa12, "salsa12", 0, 16;
    SipHash24, "siphash", 0, 16;
    HighwayHash, "highwayhash", 0, 12;
    Sha256, "sha256", 0, 16;
}

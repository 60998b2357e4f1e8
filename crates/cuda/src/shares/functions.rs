//! The kernels of every pseudorandom function.

use spirea_dpf::PrfKind;

/// The kernels of a function, by name, and what they need.
pub(super) struct Functions {
    /// The top of each key's tree, by a block.
    pub tops_apart: &'static str,
    /// The tops of all keys' trees, by all blocks.
    pub tops_together: &'static str,
    /// Shares to memory.
    pub evaluate: &'static str,
    /// Calls and nothing else.
    pub calls: &'static str,
    /// Folds by bits.
    pub fold_bits: &'static str,
    /// Folds by words of 32 bits.
    pub fold_u32: &'static str,
    /// Folds by words of 64 bits.
    pub fold_u64: &'static str,
    /// Bytes of tables in the shared memory of a block: `SHARED_BYTES` of the function's type.
    pub tables: usize,
    /// The most keys of a group: `GROUP_KEYS` of the function's type.
    pub group_keys: usize,
}

macro_rules! functions {
    ($($prf:ident, $name:literal, $tables:literal, $keys:literal;)*) => {
        /// The kernels of a function.
        pub(super) fn functions(prf: PrfKind) -> &'static Functions {
            match prf {$(
                PrfKind::$prf => &Functions {
                    tops_apart: concat!("share_tops_apart_", $name),
                    tops_together: concat!("share_tops_together_", $name),
                    evaluate: concat!("share_evaluate_", $name),
                    calls: concat!("share_calls_", $name),
                    fold_bits: concat!("share_fold_bits_", $name),
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

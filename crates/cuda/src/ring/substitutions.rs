//! Substitutions as kernels take them, for trees and for rotations.

use bytemuck::{Pod, Zeroable};

/// Addresses for a query whose ciphertexts are substituted (`ring.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Substituted {
    pub sources: u64,
    pub results: u64,
    pub key: u64,
}

/// Substitution: the arguments common to all items of a stage (`ring.cuh`). Kernels reverse the
/// bits of exponents to find the places of values. So the exponent may be any odd number below 2N,
/// and no tables for exponents are needed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(super) struct Substitution {
    pub exponent: u32,
    /// Logarithm of the length of runs. A run is a group of items whose ciphertexts follow one
    /// another.
    pub log_run: u32,
    /// Ciphertexts from the beginning of a run of sources to the beginning of the next.
    pub source_stride: u32,
    /// Ciphertexts from the beginning of a run of results to the beginning of the next.
    pub result_stride: u32,
    /// Level of the tree; only for splits of nodes.
    pub level: u32,
    /// Number of children wanted; only for splits of nodes.
    pub children: u32,
    /// Has the value 1 if the ciphertext before the source is added, else 0; only for rotations.
    pub adds: u32,
    /// Has the value 1 if a copy of the source is written before the result, else 0; only for
    /// rotations.
    pub keeps: u32,
}

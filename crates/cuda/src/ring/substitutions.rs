//! Substitutions as kernels take them: what trees and rotations have in common.

use bytemuck::{Pod, Zeroable};

/// A query whose ciphertexts are substituted (`ring.cuh`): addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Substituted {
    pub sources: u64,
    pub results: u64,
    pub key: u64,
}

/// A substitution: what is the same for all items of a stage (`ring.cuh`). Kernels reverse the bits of exponents to find
/// the places of values, so that any odd one below 2N will do, and none has a table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(super) struct Substitution {
    pub exponent: u32,
    /// Items are in runs of 2^`log_run`, whose ciphertexts follow one another.
    pub log_run: u32,
    /// Ciphertexts from the beginning of a run of sources to that of the next,
    pub source_stride: u32,
    /// and of results.
    pub result_stride: u32,
    /// Where nodes split: the level,
    pub level: u32,
    /// and how many children are wanted.
    pub children: u32,
    /// Where ciphertexts are rotated: 1 if the one before the source is added,
    pub adds: u32,
    /// and 1 if a copy of the source goes before the result.
    pub keeps: u32,
}

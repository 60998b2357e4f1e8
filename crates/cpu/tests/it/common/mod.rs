//! Helpers of the tests of the public interface.
#![allow(dead_code, missing_docs)]

mod oracle;
pub mod rings;

use proptest::prelude::*;
use spirea_backend::{Backend, PanelLayout, QUAD, RingMatrix};
use spirea_cpu::{CpuBackend, Isa};

pub use oracle::*;

/// Configures a property with `most` cases, or with fewer if `SPIREA_PROPERTY_CASES` says so, since
/// an emulated processor is slow.
pub fn cases(most: u32) -> ProptestConfig {
    let wanted = std::env::var("SPIREA_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(wanted.unwrap_or(most).min(most))
}

/// Returns backends with every kernel that this machine can run.
pub fn backends(threads: usize) -> Vec<CpuBackend> {
    Isa::available().into_iter().map(|isa| CpuBackend::with_isa(isa, threads).unwrap()).collect()
}

pub fn fills() -> impl Strategy<Value = Fill> {
    prop_oneof![3 => Just(Fill::Random), 1 => Just(Fill::All(255)), 1 => Just(Fill::All(128)), 1 => Just(Fill::All(0)), 2 => Just(Fill::Ends)]
}

/// Checks every kernel against the definition.
pub fn check_scalar_fold(layout: PanelLayout, bytes: &[u8], queries: &[u32], threads: usize) {
    let expected = naive_scalar_fold(layout, bytes, queries);
    for backend in backends(threads) {
        let matrix = backend.upload(layout, bytes).unwrap();
        let answers = backend.scalar_fold(&matrix, queries).unwrap();
        assert!(answers == expected, "{} differs from the definition", backend.name());
    }
}

/// Checks every kernel against the definition.
pub fn check_module_fold(layout: PanelLayout, bytes: &[u8], a: RingMatrix<'_>, threads: usize) {
    let expected = naive_module_fold(layout, bytes, a);
    for backend in backends(threads) {
        let matrix = backend.upload(layout, bytes).unwrap();
        let hint = backend.module_fold(&matrix, a).unwrap();
        assert!(hint == expected, "{} differs from the definition", backend.name());
    }
}

/// Generates numbers of columns of a random shape, in whole quads.
pub fn columns_up_to(most: usize) -> impl Strategy<Value = usize> {
    (1..=most.div_ceil(QUAD)).prop_map(|quads| quads * QUAD)
}

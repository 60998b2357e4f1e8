//! Matrices from memory and from files.

mod common;

use std::io::Write;

use common::{Fill, matrix, words};
use spirea_backend::{Backend, BackendError, PanelLayout, Residence};
use spirea_cpu::{CpuBackend, Isa};

#[test]
fn copied_and_mapped_files_are_the_same_matrix() {
    // Below and above a huge page, and more than one piece of a parallel read.
    for (rows, columns) in [(32, 4), (96, 1000), (320, 8192), (1024, 9000)] {
        let layout = PanelLayout::covering(rows, columns).unwrap();
        let bytes = matrix(layout, Fill::Random, 7);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let backend = CpuBackend::new(2).unwrap();
        let query = words(layout.columns(), 4, 8);
        let uploaded = backend.upload(layout, &bytes).unwrap();
        let expected = backend.scalar_fold(&uploaded, &query).unwrap();
        assert_eq!(uploaded.bytes(), bytes);
        for residence in [Residence::Copied, Residence::Mapped] {
            let opened = backend.open(layout, file.path(), residence).unwrap();
            assert_eq!(backend.layout(&opened), layout);
            assert!(opened.bytes() == bytes);
            assert_eq!(backend.scalar_fold(&opened, &query).unwrap(), expected);
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    let layout = PanelLayout::covering(32, 8).unwrap();
    let backend = CpuBackend::new(1).unwrap();
    for length in [0, layout.bytes() - 1, layout.bytes() + 1] {
        let bytes = vec![0; length];
        assert!(matches!(backend.upload(layout, &bytes), Err(BackendError::Shape(_))));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        for residence in [Residence::Copied, Residence::Mapped] {
            let refused = backend.open(layout, file.path(), residence);
            assert!(matches!(refused, Err(BackendError::Shape(_))), "{length} bytes");
        }
    }
}

#[test]
fn missing_files_are_named() {
    let layout = PanelLayout::covering(32, 8).unwrap();
    let backend = CpuBackend::new(1).unwrap();
    let path = tempfile::tempdir().unwrap().path().join("absent");
    for residence in [Residence::Copied, Residence::Mapped] {
        let error = backend.open(layout, &path, residence).unwrap_err();
        assert!(matches!(&error, BackendError::Io { path: named, .. } if *named == path));
    }
}

#[test]
fn the_best_kernel_is_chosen_and_absent_ones_are_refused() {
    let available = Isa::available();
    assert_eq!(available[0], Isa::Portable);
    assert_eq!(CpuBackend::new(1).unwrap().isa(), *available.last().unwrap());
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        assert_eq!(CpuBackend::with_isa(isa, 1).is_ok(), available.contains(&isa));
    }
    assert!(matches!(CpuBackend::new(0), Err(BackendError::Unavailable(_))));
}

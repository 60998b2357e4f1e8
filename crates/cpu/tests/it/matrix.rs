//! Matrices from memory and from files.

use std::io::Write;

use crate::common::{Fill, matrix, words};
use spirea_backend::{
    Backend, BackendError, FileLayout, FileRows, PanelLayout, Residence, RowLayout, ShareBackend, StoredFile,
};
use spirea_cpu::{CpuBackend, Isa};

fn stored(file: &tempfile::NamedTempFile) -> StoredFile {
    StoredFile::at(file.path())
}

#[test]
fn copied_and_mapped_files_are_the_same_matrix() {
    // Below and above the size of a huge page, and more than one piece of a parallel read.
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
            let opened = backend.open(FileRows::all(layout, &stored(&file), residence)).unwrap();
            assert_eq!(backend.layout(&opened), layout);
            assert!(opened.bytes() == bytes);
            assert_eq!(backend.scalar_fold(&opened, &query).unwrap(), expected);
        }
    }
}

#[test]
fn rows_of_a_file_are_a_matrix_of_their_own() {
    let layout = PanelLayout::covering(320, 8192).unwrap();
    let bytes = matrix(layout, Fill::Random, 7);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let backend = CpuBackend::new(2).unwrap();
    for residence in [Residence::Copied, Residence::Mapped] {
        for rows in [0..32, 32..96, 288..320, 0..320] {
            let opened = backend
                .open(FileRows { layout, rows: rows.clone(), file: &stored(&file), residence })
                .unwrap();
            assert_eq!(backend.layout(&opened), layout.part(&rows).unwrap());
            assert!(opened.bytes() == &bytes[layout.range(&rows)], "{rows:?}");
        }
        for rows in [0..0, 16..32, 288..352] {
            let refused = backend.open(FileRows { layout, rows, file: &stored(&file), residence });
            assert!(matches!(refused, Err(BackendError::Shape(_))));
        }
    }
}

#[test]
fn records_of_a_file_are_those_of_every_part() {
    let layout = RowLayout::new(1200, 24, 3).unwrap();
    let bytes: Vec<u8> = (0..layout.bytes()).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let backend = CpuBackend::new(2).unwrap();
    for residence in [Residence::Copied, Residence::Mapped] {
        for rows in [0..512, 512..1200, 0..1200] {
            let opened = backend
                .open_rows(FileRows { layout, rows: rows.clone(), file: &stored(&file), residence })
                .unwrap();
            assert_eq!(backend.row_layout(&opened), layout.part(&rows).unwrap());
            let expected: Vec<&[u8]> = (0..3).map(|part| &bytes[layout.range(part, rows.clone())]).collect();
            assert!(opened.bytes() == expected.concat(), "{rows:?}");
        }
        for rows in [0..0, 512..1201] {
            let refused = backend.open_rows(FileRows { layout, rows, file: &stored(&file), residence });
            assert!(matches!(refused, Err(BackendError::Shape(_))));
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
            let refused = backend.open(FileRows::all(layout, &stored(&file), residence));
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
        let error = backend.open(FileRows::all(layout, &StoredFile::at(&path), residence)).unwrap_err();
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

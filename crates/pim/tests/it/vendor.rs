//! The vendor's library: tests the errors if it is missing, and every call, made to a library with
//! the same functions.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::common::{PRF, expected, keys, table};
use spirea_backend::{RowLayout, ShareBackend as _};
use spirea_cpu::CpuBackend;
use spirea_math::random::SecretRng;
use spirea_pim::sdk::{Sdk as _, Symbol, vendor::Vendor};
use spirea_pim::{PimBackend, PimConfig, PimError};

/// Builds a library with the vendor's functions, and a file that stands for the program.
fn library(folder: &Path) -> (PathBuf, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (library, program) = (folder.join("libdpu.so"), folder.join("dpxor"));
    let sources = ["tests/vendor/libdpu.c", "emulation/runtime.c", "emulation/program.c"];
    let status = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args([
            "-shared",
            "-fPIC",
            "-O2",
            "-std=gnu17",
            "-U_FORTIFY_SOURCE",
            "-Iemulation/include",
            "-Iemulation",
            "-o",
        ])
        .arg(&library)
        .args(sources)
        .current_dir(root)
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::write(&program, "a program").unwrap();
    (library, program)
}

#[test]
fn a_missing_library_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (library, program) = library(folder.path());
    let nowhere = folder.path().join("nowhere.so");
    let missing = Vendor::open(&nowhere, &program).err();
    assert!(
        matches!(&missing, Some(PimError::NoLibrary(path)) if path.contains("nowhere.so")),
        "{missing:?}"
    );
    let missing = Vendor::open(&library, &nowhere).err();
    assert!(matches!(&missing, Some(PimError::Program(path)) if path.contains("nowhere.so")), "{missing:?}");
    // Library without the vendor's functions.
    let other = Vendor::open(Path::new("libc.so.6"), &program).err();
    assert!(matches!(other, Some(PimError::NoLibrary(_))), "{other:?}");
}

#[test]
fn every_call_of_the_library_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let (library, program) = library(folder.path());
    let vendor = Vendor::open(&library, &program).unwrap();

    let mut set = vendor.alloc(Some(3)).unwrap();
    assert_eq!(set.dpus(), 3);
    let refused = vendor.alloc(Some(4)).err();
    assert!(matches!(refused, Some(PimError::Allocation { wanted: 4, .. })), "{refused:?}");
    set.load().unwrap();
    set.broadcast_to(Symbol::MramHeap, 8, &[5; 16]).unwrap();
    set.push_to(Symbol::MramHeap, 16, &[None, Some(&[7; 8]), None]).unwrap();
    let mut one = [0; 16];
    set.copy_from(1, Symbol::MramHeap, 8, &mut one).unwrap();
    assert_eq!(one, [5, 5, 5, 5, 5, 5, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7]);
    let mut all = [0; 24];
    set.push_from(Symbol::MramHeap, 16, &mut all).unwrap();
    assert_eq!(all, [[5; 8], [7; 8], [5; 8]].concat()[..]);
    assert!(matches!(set.push_to(Symbol::MramHeap, 4, &[Some(&[0; 8][..]); 3]), Err(PimError::Transfer(_))));
    // Arguments for no records and one query. The second DPU is broken.
    let arguments: Vec<u8> =
        [1u32, 0, 8, 0, 1, 8, 8, 0, 8, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    set.broadcast_to(Symbol::Arguments, 0, &arguments).unwrap();
    assert!(matches!(set.launch(), Err(PimError::Fault(_))));
    drop(set);
    assert_eq!(vendor.alloc(None).unwrap().dpus(), 6, "dropped sets are freed");

    // Whole backend on this library, in two clusters; the first has the broken DPU.
    let cpu = Arc::new(CpuBackend::new(1).unwrap());
    let config = PimConfig { clusters: 2, ..PimConfig::default() };
    let backend = PimBackend::new(&vendor, config, cpu).unwrap();
    assert_eq!(backend.working_dpus(), 5);
    let mut rng = SecretRng::from_os().unwrap();
    let layout = RowLayout::new(3000, 40, 1).unwrap();
    let bytes = table(layout, &mut rng);
    let rows = backend.upload_rows(layout, &bytes).unwrap();
    let keys = keys(3000, 9, &mut rng);
    assert!(backend.share_fold(&rows, 0, PRF, &keys).unwrap() == expected(layout, &bytes, 0, &keys));
}

//! The measured ceilings exist and have a plausible size.

use spirea_backend::{Backend, PanelLayout};
use spirea_cpu::{CpuBackend, Isa, rates};

#[test]
fn ceilings_are_measured() {
    let layout = PanelLayout::covering(1024, 8192).unwrap();
    let backend = CpuBackend::new(2).unwrap();
    let matrix = backend.upload(layout, &vec![1; layout.bytes()]).unwrap();
    for threads in [1, 2] {
        let bytes = rates::read_bandwidth(threads, matrix.bytes()).unwrap();
        assert!((1e8..1e13).contains(&bytes), "{bytes} bytes a second");
    }
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        let peak = rates::multiply_add_peak(isa);
        assert_eq!(peak.is_some(), Isa::available().contains(&isa));
        assert!(peak.is_none_or(|products| (1e8..1e13).contains(&products)), "{isa}: {peak:?}");
        assert!(!rates::multiply_add_floor(isa).is_empty());
    }
}

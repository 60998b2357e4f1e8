//! Keys and tables for tests of the backend.

use std::sync::Arc;

use spirea_backend::{NaiveBackend, RowLayout, ShareBackend as _};
use spirea_cpu::CpuBackend;
use spirea_dpf::{Domain, Key, OutputKind, PrfKind, select};
use spirea_math::random::SecretRng;
use spirea_pim::{Emulation, EmulationConfig, PimBackend, PimConfig};

/// Function that expands keys.
pub const PRF: PrfKind = PrfKind::Aes128;

/// Returns a backend on an emulated machine, and the machine.
pub fn backend(emulation: EmulationConfig, config: PimConfig) -> (PimBackend, Emulation) {
    let build = spirea_pim::Build { tasklets: emulation.tasklets, stack_bytes: emulation.stack_bytes };
    let mram_bytes = emulation.mram_bytes;
    let machine = Emulation::new(emulation).unwrap();
    let cpu = Arc::new(CpuBackend::new(2).unwrap());
    let backend = PimBackend::new(&machine, PimConfig { build, mram_bytes, ..config }, cpu).unwrap();
    (backend, machine)
}

/// Returns keys of party 1 for random points of a domain.
pub fn keys(points: u64, count: usize, rng: &mut SecretRng) -> Vec<Key> {
    let domain = Domain::new(points, OutputKind::Bit).unwrap();
    let one = |i: usize, rng: &mut SecretRng| {
        let point = rng.next_u64() % points;
        let both = select(PRF, domain, point, rng).unwrap();
        both.into_iter().nth(i % 2).unwrap()
    };
    // All keys of a batch must be of one party.
    (0..count).map(|_| one(1, rng)).collect()
}

/// Returns random bytes of a table.
pub fn table(layout: RowLayout, rng: &mut SecretRng) -> Vec<u8> {
    let mut bytes = vec![0; layout.bytes()];
    rng.fill(&mut bytes);
    bytes
}

/// Returns the answers by definition.
pub fn expected(layout: RowLayout, bytes: &[u8], first_row: usize, keys: &[Key]) -> Vec<u8> {
    let rows = NaiveBackend.upload_rows(layout, bytes).unwrap();
    NaiveBackend.share_fold(&rows, first_row, PRF, keys).unwrap()
}

//! Limits of the device, measured in this run.

use std::collections::HashMap;

use spirea_console::device::Scale;
use spirea_cuda::CudaBackend;
use spirea_cuda::probe::{Instruction, Rates};
use spirea_dpf::PrfKind;
use spirea_math::Ring;

use super::results::Results;

/// Name of the memory limit, as in the CPU's figures.
pub const MEMORY: &str = "memory";

/// Limits of the steps.
pub struct Limits {
    /// Bytes per second that a kernel reads.
    pub read: f64,
    /// Products of bytes per second, with the name of the limit.
    pub products: (f64, String),
    /// Products of words per second, accumulated in 64 bits.
    pub multiply_add_wide: f64,
    /// Calls of the pseudorandom functions per second.
    calls: HashMap<PrfKind, f64>,
}

/// A lower bound on a time, with its bottleneck.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Name of the bottleneck.
    pub floor: String,
    /// Time at that limit.
    pub seconds: f64,
}

impl Limits {
    /// Measures and reports all limits.
    pub fn measure(backend: &CudaBackend, scale: Scale, results: &mut Results) -> anyhow::Result<Self> {
        let device = backend.device();
        // Runs are long enough for the clock to rise and for the launch time of a kernel to be
        // negligible.
        let (seconds, bytes) = match scale {
            Scale::Full => (0.02, (8 << 30).min(device.memory()?.0 / 4)),
            Scale::Tiny => (0.0001, 32 << 20),
        };
        let rates = Rates::new(device, seconds)?;
        let words = bytes / 16 * 4;
        let memory = device.alloc::<u32>(words)?;
        spirea_cuda::probe::fill(&memory.all(), 1)?;
        let read = rates.read(&memory.all())?;
        results.limit(MEMORY, read, "bytes")?;
        let copy = rates.copy(&memory.range(0..words / 2), &memory.range(words / 2..words / 2 * 2))?;
        results.limit("copy", copy, "bytes")?;
        drop(memory);
        let host_bytes = if scale == Scale::Full { 256 << 20 } else { 1 << 20 };
        let [up, down] = rates.host(host_bytes)?;
        results.limit("host to device", up, "bytes")?;
        results.limit("device to host", down, "bytes")?;

        // Takes the faster of two rates: that of a library's product, if there is a library, and
        // that of tensor cores without memory traffic.
        let library = if scale == Scale::Full { rates.library()? } else { None };
        let mut products = (0.0, String::new());
        for rate in [Some(rates.tensor()?), library].into_iter().flatten() {
            let name = format!("int8 ({})", rate.by);
            results.limit(&name, rate.products, "products of bytes")?;
            if rate.products > products.0 {
                products = (rate.products, name);
            }
        }
        let mut multiply_add_wide = 0.0;
        for instruction in Instruction::ALL {
            let rate = rates.instruction(instruction)?;
            results.limit(instruction.name(), rate, "instructions")?;
            if instruction == Instruction::MultiplyAddWide {
                multiply_add_wide = rate;
            }
        }
        let mut calls = HashMap::new();
        for prf in PrfKind::ALL {
            let rate = backend.prf_rate(prf, if scale == Scale::Full { 500 } else { 2 })?;
            results.limit(prf.name(), rate, "calls")?;
            calls.insert(prf, rate);
        }
        Ok(Self { read, products, multiply_add_wide, calls })
    }

    /// Returns the bound for reading `bytes` bytes.
    pub fn memory(&self, bytes: f64) -> Bound {
        Bound { floor: MEMORY.into(), seconds: bytes / self.read }
    }

    /// Returns the bound for `count` products of bytes.
    pub fn byte_products(&self, count: f64) -> Bound {
        Bound { floor: self.products.1.clone(), seconds: count / self.products.0 }
    }

    /// Returns the bound for `count` products of words.
    pub fn word_products(&self, count: f64) -> Bound {
        Bound { floor: Instruction::MultiplyAddWide.name().into(), seconds: count / self.multiply_add_wide }
    }

    /// Returns the bound for `count` products of residues of a ring. Products are computed as words
    /// or, if the device is faster that way, as planes of bytes.
    pub fn residue_products(&self, ring: &Ring, count: f64) -> Bound {
        let planes =
            if ring.limbs().iter().all(|limb| limb.prime().value() <= 1 << 28) { 10.0 } else { 16.0 };
        let (words, bytes) = (self.word_products(count), self.byte_products(planes * count));
        if bytes.seconds < words.seconds { bytes } else { words }
    }

    /// Returns the bound for `count` calls of a function.
    pub fn calls(&self, prf: PrfKind, count: f64) -> Bound {
        Bound { floor: prf.name().into(), seconds: count / self.calls[&prf] }
    }
}

/// Returns the bound with the longest time.
pub fn highest(bounds: impl IntoIterator<Item = Bound>) -> Bound {
    let slowest = bounds.into_iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    slowest.unwrap_or(Bound { floor: String::new(), seconds: 0.0 })
}

//! Emulation of a machine with processing in memory, compared with the CPU backend on the same
//! table.

use std::sync::Arc;

use anyhow::ensure;
use spirea_backend::{RowLayout, ShareBackend as _};
use spirea_console::output::Format;
use spirea_cpu::CpuBackend;
use spirea_dpf::{Domain, OutputKind, PrfKind};
use spirea_math::random::SecretRng;
use spirea_pim::{Emulation, EmulationConfig, PimBackend, PimConfig};
use spirea_pim_figures::RECORD_BYTES;

use crate::bench::dpf::random_keys;
use crate::bench::report::{Report, Step, median_seconds};

/// Times a query on an emulated machine. The limit of the figure is the CPU backend's time.
pub fn run(mib: usize, dpus: usize, threads: usize, runs: usize, format: Format) -> anyhow::Result<()> {
    ensure!((1..1 << 16).contains(&mib), "--emulate-mib must be from 1 to 65535");
    let cpu = Arc::new(CpuBackend::new(threads)?);
    let machine = Emulation::new(EmulationConfig { dpus, threads, ..EmulationConfig::default() })?;
    let pim = PimBackend::new(&machine, PimConfig { queries: 1, ..PimConfig::default() }, Arc::clone(&cpu))?;
    let layout = RowLayout::new((mib << 20) / RECORD_BYTES, RECORD_BYTES, 1)?;
    let mut rng = SecretRng::from_os()?;
    let mut bytes = vec![0; layout.bytes()];
    rng.fill(&mut bytes);
    let (here, there) = (cpu.upload_rows(layout, &bytes)?, pim.upload_rows(layout, &bytes)?);
    drop(bytes);
    let prf = PrfKind::Aes128;
    let domain = Domain::new(layout.rows() as u64, OutputKind::Bit)?;
    let keys = random_keys(prf, domain, &mut rng)?;
    let keys = &keys[..1];
    ensure!(
        cpu.share_fold(&here, 0, prf, keys)? == pim.share_fold(&there, 0, prf, keys)?,
        "the emulation and the CPU backend give different answers"
    );
    let runs = runs.max(1);
    let on_cpu = median_seconds(runs, || {
        std::hint::black_box(cpu.share_fold(&here, 0, prf, keys)?);
        Ok(())
    })?;
    pim.times().take();
    let emulated = median_seconds(runs, || {
        std::hint::black_box(pim.share_fold(&there, 0, prf, keys)?);
        Ok(())
    })?;
    // One warm-up run is included.
    let phases = pim.times().take().into_iter();
    let steps = phases.map(|(name, time)| {
        let seconds = time.as_secs_f64() / (runs + 1) as f64;
        Step { name, seconds, floor: None, floor_seconds: None }
    });
    let report = Report {
        name: "pim-emulation".into(),
        params: Some(format!("{dpus} DPUs of 16 tasklets, {prf}")),
        shape: [layout.rows(), layout.row_bytes()],
        backend: "pim-emulated".into(),
        threads,
        batch: 1,
        seconds: emulated,
        floor: format!("cpu-{}", cpu.isa()),
        floor_seconds: on_cpu,
        ratio: on_cpu / emulated,
        wire: None,
        steps: steps.collect(),
    };
    report.print(format)
}

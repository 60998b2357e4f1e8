//! `spirea bench hint`.

use spirea_backend::Backend as _;
use spirea_lattice::lwe::DEGREE;
use spirea_lattice::{LweSet, Structure};
use spirea_protocols::simple::{Params, compute_hint};

use super::report::{Report, median_seconds};
use super::scan::Limits;
use super::{Options, random_matrix};

/// Times the hint under the chosen set. The floor of both is what the uniform one costs at the multiply-add
/// peak: a ratio above 1 is what the structure saves.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let (backend, layout, set) = (options.backend()?, options.layout()?, options.set()?);
    let matrix = random_matrix(&backend, layout)?;
    let params = params(set, layout.rows(), layout.columns());
    let limits = Limits::measure(&backend, &matrix)?;
    let seconds = median_seconds(options.runs, || {
        std::hint::black_box(compute_hint(&*backend, &params, &matrix, |_| ())?);
        Ok(())
    })?;
    let (floor, floor_seconds) = limits.floor(layout.bytes(), DEGREE);
    let floor = match set.structure() {
        Structure::Uniform => floor,
        Structure::Module => format!("{floor}, of the uniform matrix"),
    };
    let report = Report {
        name: "hint".into(),
        params: Some(set.name().into()),
        shape: [layout.rows(), layout.columns()],
        backend: backend.name(),
        threads: backend.threads(),
        batch: DEGREE,
        seconds,
        floor,
        floor_seconds,
        ratio: floor_seconds / seconds,
        wire: None,
        steps: Vec::new(),
    };
    report.print(options.format())
}

/// Parameters of a matrix of this shape with one record a column.
fn params(set: LweSet, rows: usize, columns: usize) -> Params {
    Params {
        set: set.name().into(),
        seed: [1; 32],
        records: columns as u64,
        record_bytes: rows,
        rows,
        columns,
    }
}

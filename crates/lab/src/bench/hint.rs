//! `spirea-lab bench hint`.

use spirea_backend::Backend as _;
use spirea_lattice::{PublicMatrix, Structure};
use spirea_math::random::Seed;
use spirea_protocols::steps::LweHint;

use super::report::{Report, median_seconds};
use super::scan::Limits;
use super::{Options, random_matrix};

/// Times the hint under the chosen set. The floor of every set is the cost of the uniform matrix at
/// the multiply-add peak, so a ratio above 1 shows the saving by the matrix's structure.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let (backend, layout, set) = (options.backend()?, options.layout()?, options.set()?);
    let matrix = random_matrix(&backend, layout)?;
    let public = PublicMatrix::new(set, Seed::new([1; 32]), layout.columns());
    let limits = Limits::measure(&backend, matrix.bytes())?;
    let seconds = median_seconds(options.runs, || {
        std::hint::black_box(LweHint::compute(&*backend, &public, &matrix, |_| ())?);
        Ok(())
    })?;
    let (floor, floor_seconds) = limits.floor(layout.bytes(), set.degree());
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
        batch: set.degree(),
        seconds,
        floor,
        floor_seconds,
        ratio: floor_seconds / seconds,
        wire: None,
        steps: Vec::new(),
    };
    report.print(options.format())
}

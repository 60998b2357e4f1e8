//! `module_fold` through `scalar_fold`: a ring column of the public matrix is 256 query columns.

use rayon::prelude::*;
use spirea_backend::{BackendError, MAX_BATCH, PANEL_ROWS, RING_DEGREE, RingMatrix};

use super::{CudaMatrix, ScalarFoldPlan};
use crate::args;
use crate::driver::Grid;

const _: () = assert!(RING_DEGREE <= MAX_BATCH, "a ring column is one batch");

/// Multiplies the matrix by `a`; the result is row-major.
pub(super) fn module_fold(matrix: &CudaMatrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
    let (layout, device) = (matrix.layout(), matrix.device());
    a.check(layout)?;
    let width = a.rank * RING_DEGREE;
    if width == 0 {
        return Ok(Vec::new());
    }
    let plan = ScalarFoldPlan::new(device, layout, RING_DEGREE)?;
    let (main, kernel) = (device.main(), device.kernel("module_fold_columns")?);
    let coefficients = device.upload(a.coefficients)?;
    let columns = device.alloc::<u32>(RING_DEGREE * layout.columns())?;
    let sums = device.alloc::<u32>(RING_DEGREE * layout.rows())?;
    let grid = Grid::cube([a.block_rows, RING_DEGREE, 1], RING_DEGREE);
    let rank = u32::try_from(a.rank).map_err(|_| BackendError::Shape("a public matrix too wide".into()))?;

    let mut product = vec![0; layout.rows() * width];
    let mut host = vec![0; sums.len()];
    for ring_column in 0..rank {
        main.launch(&kernel, grid, args![&coefficients, &columns, rank, ring_column])?;
        plan.run(&main, matrix, &columns.all(), &sums.all())?;
        main.download(&sums.all(), &mut host)?;
        let first = ring_column as usize * RING_DEGREE;
        let panels = product.par_chunks_exact_mut(PANEL_ROWS * width).enumerate();
        panels.for_each(|(panel, rows)| {
            for (l, column) in host.chunks_exact(layout.rows()).enumerate() {
                let column = &column[panel * PANEL_ROWS..][..PANEL_ROWS];
                for (row, &sum) in rows.chunks_exact_mut(width).zip(column) {
                    row[first + l] = sum;
                }
            }
        });
    }
    Ok(product)
}

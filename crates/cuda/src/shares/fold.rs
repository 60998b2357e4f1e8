//! Folds on a device.

use bytemuck::{Pod, Zeroable};
use spirea_backend::{BackendError, Batch};
use spirea_dpf::{Key, OutputKind, PrfKind};

use super::CudaRows;
use super::functions::functions;
use super::keys::{DeviceKeys, KeysArgument};
use super::plan::{FoldPlan, Machine, THREADS, Tops};
use crate::args;
use crate::driver::{Arg, Grid};

/// Bytes of a lane.
const LANE: usize = 16;
/// The most parts that a launch takes: the second dimension of its grid.
const PARTS: usize = 1 << 15;

/// `Fold` of `share_fold.cuh`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct FoldArgument {
    keys: KeysArgument,
    rows: u64,
    sums: u64,
    points: u64,
    part_bytes: u64,
    parts: u64,
    first_part: u64,
    row_bytes: u32,
    lanes: u32,
    group: u32,
    groups: u32,
    subtrees: u32,
    height: u32,
}

/// The answers of all keys, one after another.
pub(super) fn share_fold(
    rows: &CudaRows,
    batch: &Batch,
    prf: PrfKind,
    keys: &[Key],
) -> Result<Vec<u8>, BackendError> {
    let (device, layout, functions) = (rows.bytes.device(), rows.layout, functions(prf));
    let machine = Machine::new(device.properties(), functions);
    let plan = FoldPlan::new(machine, batch.domain, layout, keys.len())?;
    let lanes = layout.row_bytes().div_ceil(LANE);
    let kernel = device.kernel(match batch.domain.output() {
        OutputKind::Bit => functions.fold_bits,
        OutputKind::U32 => functions.fold_u32,
        OutputKind::U64 => functions.fold_u64,
        OutputKind::U128 => return Err(BackendError::Shape("rows have no words of 128 bits".into())),
    })?;

    let stream = device.main();
    let device_keys = DeviceKeys::new(device, keys, plan.top)?;
    let sums = device.alloc::<u32>(keys.len() * layout.parts() * lanes * (LANE / 4))?;
    stream.zero(&sums.all())?;
    device_keys.expand_tops(prf, &rows.constants, Tops::of(keys.len(), plan.top, machine.processors))?;
    let start = layout.range(0, batch.rows.start..batch.rows.start).start;
    for first_part in (0..layout.parts()).step_by(PARTS) {
        let fold = FoldArgument {
            keys: device_keys.argument(),
            rows: rows.bytes.range(start..layout.bytes()).address(),
            sums: sums.all().address(),
            points: batch.domain.points(),
            part_bytes: (layout.rows() * layout.row_bytes()) as u64,
            parts: layout.parts() as u64,
            first_part: first_part as u64,
            row_bytes: layout.row_bytes() as u32,
            lanes: lanes as u32,
            group: plan.group as u32,
            groups: plan.groups as u32,
            subtrees: plan.subtrees as u32,
            height: plan.height,
        };
        let parts = PARTS.min(layout.parts() - first_part);
        let grid = Grid::cube([plan.pieces * plan.groups, parts, 1], THREADS).shared(plan.shared);
        stream.launch(&kernel, grid, args![Arg::structure(&fold), rows.constants.argument(prf)])?;
    }

    let sums = stream.read(&sums.all())?;
    let rows_of_answers = bytemuck::cast_slice::<u32, u8>(&sums).chunks_exact(lanes * LANE);
    Ok(rows_of_answers.flat_map(|row| &row[..layout.row_bytes()]).copied().collect())
}

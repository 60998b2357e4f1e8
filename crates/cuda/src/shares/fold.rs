//! Folds on a device.

use bytemuck::{Pod, Zeroable};
use spirea_backend::{BackendError, Batch};
use spirea_dpf::{Key, OutputKind, PrfKind};

use super::CudaRows;
use super::functions::functions;
use super::keys::{DeviceKeys, KeysArgument};
use super::plan::{FoldPlan, Machine, Products, THREADS, Tops};
use crate::args;
use crate::driver::{Arg, Grid};
use crate::fold::Arrivals;

/// Bytes of a lane.
const LANE: usize = 16;
/// Maximum number of parts of a launch: limited by the second dimension of a grid.
const PARTS: usize = 1 << 15;
/// Maximum number of keys on a device at once, unless a single task has more.
const RUN_KEYS: usize = 1 << 15;

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

/// Fold over some of the rows.
pub(super) struct Task<'a> {
    /// Common properties of the keys.
    pub batch: Batch,
    /// The keys.
    pub keys: &'a [Key],
}

/// Returns the answers of all tasks' keys, one after another.
///
/// Consecutive tasks with the same number of keys, of one domain and party (such as those of bins),
/// form a run. A run uploads its keys and expands the tops of all trees at once; then each task is
/// a launch, and no launch waits for the host.
pub(super) fn share_folds(
    rows: &CudaRows,
    arrivals: &Arrivals,
    prf: PrfKind,
    tasks: &[Task<'_>],
) -> Result<Vec<u8>, BackendError> {
    let alike = |a: &Task<'_>, b: &Task<'_>| {
        a.keys.len() == b.keys.len() && (a.batch.domain, a.batch.party) == (b.batch.domain, b.batch.party)
    };
    let runs = tasks.chunk_by(alike).flat_map(|run| run.chunks((RUN_KEYS / run[0].keys.len()).max(1)));
    let answers = runs.map(|run| fold_run(rows, arrivals, prf, run));
    Ok(answers.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Returns the answers of tasks that all have the same number of keys, of one domain and party.
fn fold_run(
    rows: &CudaRows,
    arrivals: &Arrivals,
    prf: PrfKind,
    run: &[Task<'_>],
) -> Result<Vec<u8>, BackendError> {
    let (device, layout, functions) = (rows.bytes.device(), rows.layout, functions(prf));
    let (domain, count) = (run[0].batch.domain, run[0].keys.len());
    let machine = Machine::new(device.properties(), functions);
    let plan = FoldPlan::new(machine, domain, layout, count)?;
    // If the run has several tasks, keys are repeated to fill each task's last group.
    let padded = if run.len() == 1 { count } else { plan.group * plan.groups };
    let with_padding = |task: &Task<'_>| {
        let last = task.keys.last().expect("a task has keys").clone();
        task.keys.iter().cloned().chain(std::iter::repeat_n(last, padded - count)).collect::<Vec<Key>>()
    };
    let keys: Vec<Key> = run.iter().flat_map(with_padding).collect();
    let plan = plan.with_keys(keys.len());
    let lanes = layout.row_bytes().div_ceil(LANE);
    let kernel = device.kernel(match (plan.products, domain.output()) {
        (Products::TensorCores, _) => functions.fold_bits_mma,
        (Products::Lanes, OutputKind::Bit) => functions.fold_bits,
        (Products::Lanes, OutputKind::U32) => functions.fold_u32,
        (Products::Lanes, OutputKind::U64) => functions.fold_u64,
        (Products::Lanes, OutputKind::U128) => {
            return Err(BackendError::Shape("rows have no words of 128 bits".into()));
        }
    })?;

    let stream = device.main();
    let device_keys = DeviceKeys::new(device, &keys, plan.top)?;
    let of_key = layout.parts() * lanes * (LANE / 4);
    let sums = device.alloc::<u32>(keys.len() * of_key)?;
    stream.zero(&sums.all())?;
    device_keys.expand_tops(prf, &rows.constants, Tops::of(keys.len(), plan.top, machine.processors))?;
    for (task, first_key) in run.iter().zip((0..).step_by(padded)) {
        let start = layout.range(0, task.batch.rows.start..task.batch.rows.start).start;
        for first_part in (0..layout.parts()).step_by(PARTS) {
            let fold = FoldArgument {
                keys: device_keys.argument_from(first_key),
                rows: rows.bytes.range(start..layout.bytes()).address(),
                sums: sums.range(first_key * of_key..sums.len()).address(),
                points: domain.points(),
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
            let grid =
                Grid::cube([plan.pieces * plan.groups, parts, plan.columns], THREADS).shared(plan.shared);
            stream.launch(&kernel, grid, args![Arg::structure(&fold), rows.constants.argument(prf)])?;
        }
    }

    arrivals.download(&stream, &sums.all(), |sums| {
        let of_tasks = bytemuck::cast_slice::<u32, u8>(sums).chunks_exact(4 * of_key * padded);
        let rows_of_answers = of_tasks.flat_map(|sums| sums[..4 * of_key * count].chunks_exact(lanes * LANE));
        let mut answers = Vec::with_capacity(run.len() * count * layout.answer_bytes());
        rows_of_answers.for_each(|row| answers.extend_from_slice(&row[..layout.row_bytes()]));
        answers
    })
}

//! A cluster's pass over a table: scatter, launch, gather, aggregate (IM-PIR, Algorithm 1, steps 3
//! to 6).

use std::time::Instant;

use spirea_backend::StepTimes;

use crate::cluster::{Cluster, Common};
use crate::phases;
use crate::placement::Placement;
use crate::sdk::PimError;
use crate::selectors::{Bits, Selection, interleave};
use crate::shape::{GROUP, HEADER};
use crate::table::Table;

/// Returns the answers of `selections`; their number must not exceed the queries of a pass over the
/// table. An answer has the DPUs' form: the exclusive or of the selected records' slices. If a DPU
/// fails, it is not used again, and other DPUs fold its block.
///
/// # Errors
/// [`PimError::Lost`] if too few DPUs are left, and the errors of the SDK.
pub(crate) fn fold(
    cluster: &mut Cluster,
    table: &Table,
    placement: &mut Placement,
    selections: &[&Selection],
    times: &StepTimes,
) -> Result<Vec<Vec<Vec<u8>>>, PimError> {
    let queries = table.slices.queries(selections.len(), table.wram);
    let bits: Vec<&Bits> = selections.iter().map(|selection| &selection.bits).collect();
    let record_bytes = table.slices.record_bytes();
    let groups = table.block_records / GROUP;
    let sums = |selection: &&Selection| vec![vec![0; record_bytes]; selection.answers.len()];
    let mut answers: Vec<_> = selections.iter().map(sums).collect();
    let mut pending: Vec<usize> = (0..table.blocks()).collect();
    while !pending.is_empty() {
        let started = Instant::now();
        let round = placement.next_round(cluster, table, &pending)?;
        times.add(phases::LOAD, started.elapsed());

        let started = Instant::now();
        let common = Common {
            slice_bytes: table.slices.bytes,
            slices: table.slices.count(),
            queries,
            block_bytes: table.wram.block_bytes,
            database: round.offset,
            slice_stride: table.slice_stride(),
        };
        let each = groups * queries * 8;
        let mut selectors = vec![0; cluster.dpus() * each];
        for (block, to) in round.blocks.iter().zip(selectors.chunks_exact_mut(each)) {
            if let Some(block) = block {
                interleave(&bits, queries, block * groups..(block + 1) * groups, to);
            }
        }
        let each = round.blocks.iter().zip(selectors.chunks_exact(each));
        let each: Vec<_> = each.map(|(block, bytes)| block.is_some().then_some(bytes)).collect();
        cluster.scatter(common, &each)?;
        times.add(phases::SCATTER, started.elapsed());

        let of_block = |block: &Option<usize>| block.map_or(0, |block| table.records(block).len());
        let records: Vec<usize> = round.blocks.iter().map(of_block).collect();
        let results = cluster.launch(&records, common, times)?;

        let started = Instant::now();
        for (dpu, block) in round.blocks.iter().enumerate() {
            let Some(block) = block.filter(|_| cluster.works(dpu)) else { continue };
            let result = &results[dpu * common.result_bytes()..][HEADER..common.result_bytes()];
            let of_selections = selections.iter().zip(&mut answers).zip(result.chunks_exact(record_bytes));
            for ((selection, answers), sum) in of_selections {
                // A block has no answer if no key of the selection has rows in it.
                if let Some(place) = selection.answer_of(block) {
                    answers[place].iter_mut().zip(sum).for_each(|(answer, byte)| *answer ^= byte);
                }
            }
            pending.retain(|&other| other != block);
        }
        times.add(phases::AGGREGATE, started.elapsed());
    }
    Ok(answers)
}

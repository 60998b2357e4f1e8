//! Event simulation of a DPU's tasklets, to check the closed form.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cycles::BlockWork;

/// Next action of a tasklet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// Asks the DMA engine for the tasklet's block.
    Copy,
    /// Issues an instruction.
    Issue,
}

/// Returns the cycles until every tasklet has processed `blocks` blocks. Copies are served one
/// after another in the order of the requests, and their tasklets wait. In each cycle the pipeline
/// takes one instruction, from the tasklet that has been ready for longest; that tasklet is ready
/// again after the issue interval.
pub fn simulate(work: BlockWork, blocks: u32) -> u64 {
    let instructions = work.instructions.round() as u64;
    let copy = work.copy_cycles.round() as u64;
    // Ordered by the cycle in which tasklets are ready, then by the order of requests.
    let mut ready: BinaryHeap<Reverse<(u64, u64, u32, Next)>> = BinaryHeap::new();
    let mut left: Vec<(u32, u64)> = vec![(blocks, 0); work.tasklets as usize];
    let (mut order, mut copier_free, mut pipeline_free, mut end) = (0, 0, 0, 0);
    for tasklet in 0..work.tasklets {
        ready.push(Reverse((0, order, tasklet, Next::Copy)));
        order += 1;
    }
    while let Some(Reverse((cycle, _, tasklet, next))) = ready.pop() {
        let (blocks, issues) = &mut left[tasklet as usize];
        let (at, then) = match next {
            Next::Copy => {
                let done = cycle.max(copier_free) + copy;
                copier_free = done;
                *issues = instructions;
                (done, Next::Issue)
            }
            Next::Issue if *issues > 0 => {
                let issued = cycle.max(pipeline_free);
                pipeline_free = issued + 1;
                *issues -= 1;
                (issued + u64::from(work.issue_interval), Next::Issue)
            }
            Next::Issue => {
                *blocks -= 1;
                end = end.max(cycle);
                if *blocks == 0 {
                    continue;
                }
                (cycle, Next::Copy)
            }
        };
        ready.push(Reverse((at, order, tasklet, then)));
        order += 1;
    }
    end
}

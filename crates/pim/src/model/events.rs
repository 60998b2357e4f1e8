//! A simulation of a DPU's tasklets, event by event: what the closed form is checked against.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cycles::BlockWork;

/// What a tasklet does next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// Asks the DMA engine for its block.
    Copy,
    /// Issues an instruction.
    Issue,
}

/// Cycles until every tasklet has got over `blocks` blocks. Copies are served one after another, in the order in which
/// they are asked for, and their tasklet waits. Each cycle the pipeline takes one instruction, of the tasklet that has
/// been ready for longest, and this one is ready again after the issue interval.
pub fn simulate(work: BlockWork, blocks: u32) -> u64 {
    let instructions = work.instructions.round() as u64;
    let copy = work.copy_cycles.round() as u64;
    // By the cycle in which they are ready; who asked first is first.
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

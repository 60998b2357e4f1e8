//! Closed form for tasklets that share a pipeline and a DMA engine.

/// Work that every tasklet of a DPU repeats: one copy, then instructions on the copied block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockWork {
    /// Number of tasklets.
    pub tasklets: u32,
    /// Instructions of a tasklet for a block.
    pub instructions: f64,
    /// Cycles of the copy of a block.
    pub copy_cycles: f64,
    /// Cycles between two instructions of one tasklet.
    pub issue_interval: u32,
}

impl BlockWork {
    /// Returns the cycles in which every tasklet processes one block.
    ///
    /// Three bounds hold for T tasklets, I instructions and D cycles of a copy. The largest bound
    /// counts, since the other work overlaps. The pipeline issues one instruction a cycle for all
    /// tasklets: `T I`. The DMA engine does one copy at a time: `T D`. A tasklet issues an
    /// instruction every 11 cycles and waits for its own copy: `11 I + D`.
    pub fn cycles(&self) -> f64 {
        let Self { tasklets, instructions, copy_cycles, issue_interval } = *self;
        let tasklets = f64::from(tasklets);
        let alone = f64::from(issue_interval) * instructions + copy_cycles;
        (tasklets * instructions).max(tasklets * copy_cycles).max(alone)
    }

    /// Returns the name of the bound that applies.
    pub fn bound(&self) -> &'static str {
        let Self { tasklets, instructions, copy_cycles, .. } = *self;
        let cycles = self.cycles();
        if cycles <= f64::from(tasklets) * instructions {
            "pipeline"
        } else if cycles <= f64::from(tasklets) * copy_cycles {
            "dma"
        } else {
            "latency"
        }
    }
}

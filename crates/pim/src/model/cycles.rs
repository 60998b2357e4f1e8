//! The closed form for tasklets that share a pipeline and a DMA engine.

/// What every tasklet of a DPU does over and over: one copy, then instructions on what was copied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockWork {
    /// Tasklets.
    pub tasklets: u32,
    /// Instructions of a tasklet for a block.
    pub instructions: f64,
    /// Cycles of the copy of a block.
    pub copy_cycles: f64,
    /// Cycles between two instructions of one tasklet.
    pub issue_interval: u32,
}

impl BlockWork {
    /// Cycles in which every tasklet gets over one block.
    ///
    /// The pipeline issues an instruction a cycle, whoever's: `T I`. The DMA engine has one copy at a time: `T D`. And a
    /// tasklet issues an instruction every 11 cycles and waits for its own copy: `11 I + D`. What takes longest bounds all,
    /// since the others go on meanwhile.
    pub fn cycles(&self) -> f64 {
        let Self { tasklets, instructions, copy_cycles, issue_interval } = *self;
        let tasklets = f64::from(tasklets);
        let alone = f64::from(issue_interval) * instructions + copy_cycles;
        (tasklets * instructions).max(tasklets * copy_cycles).max(alone)
    }

    /// Which of the three it is, in a word.
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

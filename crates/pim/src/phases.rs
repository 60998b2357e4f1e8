//! Phases of a query, as in IM-PIR's Figure 10: names under which their times are added up.

/// Expansion of keys to share bits on the host.
pub const EVALUATE: &str = "dpf_evaluate";
/// Transfer of share bits and arguments to the DPUs.
pub const SCATTER: &str = "pim_scatter";
/// Fold of the records on the DPUs (dpXOR in the paper).
pub const FOLD: &str = "pim_fold";
/// Transfer of results to the host.
pub const GATHER: &str = "pim_gather";
/// Addition of the results on the host.
pub const AGGREGATE: &str = "pim_aggregate";
/// Transfer of records to DPUs: blocks that move from a failed DPU, and blocks of a table that MRAM
/// cannot hold.
pub const LOAD: &str = "pim_load";

/// All phases, in the order in which a query passes through them.
pub const ALL: [&str; 6] = [EVALUATE, LOAD, SCATTER, FOLD, GATHER, AGGREGATE];

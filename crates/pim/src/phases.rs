//! The phases of a query, as IM-PIR's Figure 10 has them: the names under which their times are added up.

/// The host expands keys to share bits.
pub const EVALUATE: &str = "dpf_evaluate";
/// Share bits and arguments go to the DPUs.
pub const SCATTER: &str = "pim_scatter";
/// DPUs fold their records: dpXOR.
pub const FOLD: &str = "pim_fold";
/// Results come back from the DPUs.
pub const GATHER: &str = "pim_gather";
/// The host adds results up.
pub const AGGREGATE: &str = "pim_aggregate";
/// Records go to DPUs: blocks that move from a DPU that failed, and those of a table that MRAM has no room for.
pub const LOAD: &str = "pim_load";

/// All of them, in the order in which a query meets them.
pub const ALL: [&str; 6] = [EVALUATE, LOAD, SCATTER, FOLD, GATHER, AGGREGATE];

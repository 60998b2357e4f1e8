//! Errors, with the remedy for each.

/// Reason why something cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum IveError {
    /// A value in an architecture's file is missing, unknown or impossible.
    #[error("{file}: {key}: {problem}; {remedy}")]
    Arch {
        /// Name of the file.
        file: String,
        /// Key, with its tables.
        key: String,
        /// Problem.
        problem: String,
        /// Remedy.
        remedy: String,
    },
    /// A schedule's working set is larger than the register file.
    #[error(
        "{file}: core.register_file_kb: {schedule} needs {needed} bytes, the register file has {available}; {remedy}"
    )]
    RegisterFile {
        /// Name of the file.
        file: String,
        /// Description of the schedule.
        schedule: String,
        /// Bytes of the working set.
        needed: u64,
        /// Bytes of the register file.
        available: u64,
        /// Remedy.
        remedy: String,
    },
    /// A graph of operations cannot be executed.
    #[error("graph: operation {node}: {problem}; {remedy}")]
    Graph {
        /// Number of the operation.
        node: usize,
        /// Problem.
        problem: String,
        /// Remedy.
        remedy: String,
    },
    /// A protocol's server cannot be recorded.
    #[error("{protocol}: {problem}; {remedy}")]
    Record {
        /// Name of the protocol.
        protocol: String,
        /// Problem.
        problem: String,
        /// Remedy.
        remedy: String,
    },
    /// The systems have no room for a database or a batch.
    #[error("{key}: {problem}; {remedy}")]
    Workload {
        /// Name of the refused parameter.
        key: &'static str,
        /// Problem.
        problem: String,
        /// Remedy.
        remedy: String,
    },
}

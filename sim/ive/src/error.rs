//! What is refused, and what to do about it.

/// Why something cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum IveError {
    /// A file of an architecture with a value that is missing, unknown or impossible.
    #[error("{file}: {key}: {problem}; {remedy}")]
    Arch {
        /// The file.
        file: String,
        /// The key, with its tables.
        key: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// A schedule whose working set is larger than the register file.
    #[error(
        "{file}: core.register_file_kb: {schedule} needs {needed} bytes, the register file has {available}; {remedy}"
    )]
    RegisterFile {
        /// The file.
        file: String,
        /// The schedule, in words.
        schedule: String,
        /// Bytes of its working set.
        needed: u64,
        /// Bytes that there are.
        available: u64,
        /// What to do.
        remedy: String,
    },
    /// A graph of operations that cannot be executed.
    #[error("graph: operation {node}: {problem}; {remedy}")]
    Graph {
        /// The operation's number.
        node: usize,
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// A protocol whose server cannot be recorded.
    #[error("{protocol}: {problem}; {remedy}")]
    Record {
        /// The protocol.
        protocol: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// A database or a batch that the systems have no room for.
    #[error("{key}: {problem}; {remedy}")]
    Workload {
        /// What was asked for.
        key: &'static str,
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
}

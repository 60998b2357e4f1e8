//! Errors of reading a module.

use wasmparser::BinaryReaderError;

/// A module that cannot be run here.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// The bytes are no module.
    #[error("the bytes are no WebAssembly module: {0}")]
    Unreadable(#[from] BinaryReaderError),
    /// An operator without a rule for marks.
    #[error("the interpreter has no rule for the operator {0}; add one to translate.rs")]
    Operator(String),
    /// A part of the format that the client has no use for.
    #[error("the interpreter has no {0}")]
    Unsupported(&'static str),
    /// The named module is another one.
    #[error("the {0} of the module that ships and of the named one differ: build both again")]
    Differs(&'static str),
}

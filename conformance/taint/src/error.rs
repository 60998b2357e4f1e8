//! Errors of parsing a module.

use wasmparser::BinaryReaderError;

/// Reasons why a module cannot be interpreted.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// Bytes that are not a module.
    #[error("the bytes are no WebAssembly module: {0}")]
    Unreadable(#[from] BinaryReaderError),
    /// An operator for which the interpreter has no rule.
    #[error("the interpreter has no rule for the operator {0}; add one to translate.rs")]
    Operator(String),
    /// A part of the format that the interpreter does not support.
    #[error("the interpreter has no {0}")]
    Unsupported(&'static str),
    /// A named module that differs from the shipped one.
    #[error("the {0} of the module that ships and of the named one differ: build both again")]
    Differs(&'static str),
}

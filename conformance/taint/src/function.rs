//! Functions in their executable form.

use crate::instruction::{Instruction, Target};

/// Numbers of operands and results of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Number of operands.
    pub params: u32,
    /// Number of results.
    pub results: u32,
}

/// A function that the module defines.
#[derive(Debug, Default)]
pub struct Function {
    /// Numbers of operands and results.
    pub signature: Signature,
    /// Number of locals other than the parameters.
    pub locals: u32,
    /// Instructions.
    pub code: Vec<Instruction>,
    /// Offset of each instruction in the module's bytes.
    pub offsets: Vec<u64>,
    /// Targets of the jumps through tables.
    pub targets: Vec<Target>,
    /// Constant vectors.
    pub vectors: Vec<u128>,
}

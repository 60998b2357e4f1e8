//! A function as it is run.

use crate::instruction::{Instruction, Target};

/// The numbers of operands that a function takes and gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Operands taken.
    pub params: u32,
    /// Operands given.
    pub results: u32,
}

/// A function of the module's own.
#[derive(Debug, Default)]
pub struct Function {
    /// Operands taken and given.
    pub signature: Signature,
    /// Locals beside the parameters.
    pub locals: u32,
    /// The instructions.
    pub code: Vec<Instruction>,
    /// The place of each in the module's bytes.
    pub offsets: Vec<u64>,
    /// Targets of the jumps through tables.
    pub targets: Vec<Target>,
    /// Constant vectors.
    pub vectors: Vec<u128>,
}

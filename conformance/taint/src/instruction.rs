//! Instructions in executable form: operators without nesting, with explicit jump targets.

use crate::floats::{FloatBinary, FloatUnary};
use crate::marked::{Binary, Unary, Width};

/// Destination of a jump, and the operands that the function keeps there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The next instruction.
    pub to: u32,
    /// Number of operands below the kept ones.
    pub below: u32,
    /// Number of operands kept from the top.
    pub kept: u32,
}

/// Layout of a value in memory; for a load, also its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Bytes in memory.
    pub bytes: u8,
    /// Width of sign extension; `None` for zero extension.
    pub signed_to: Option<Width>,
    /// Bytes added to the address.
    pub offset: u32,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    Unreachable,
    Drop,
    Select,
    Const(u64),
    /// The constant vector with this index.
    ConstVector(u32),
    LocalGet(u32),
    LocalSet(u32),
    LocalTee(u32),
    GlobalGet(u32),
    GlobalSet(u32),
    Jump(Target),
    JumpIf(Target),
    /// Jump of an `if` whose condition is zero.
    JumpIfZero(Target),
    /// Jump through the table: index of the first target, and number of targets; the last is the
    /// default.
    JumpTable(u32, u32),
    Return,
    Call(u32),
    /// Call of a function of this type through the table.
    CallIndirect(u32),
    Load(Access),
    Store(Access),
    MemorySize,
    MemoryGrow,
    MemoryCopy,
    MemoryFill,
    Unary(Unary, Width),
    Binary(Binary, Width),
    FloatUnary(FloatUnary),
    FloatBinary(FloatBinary),
    /// Keeps the lowest bits.
    Wrap(Width),
    /// Sign extension: from the first width to the second.
    Extend(Width, Width),
    Splat(Width),
    /// The lane that begins at this bit.
    ExtractLane(u32, Width),
    ReplaceLane(u32, Width),
    /// Picks bytes, as given by the constant vector with this index.
    Shuffle(u32),
    EqualLanes(Width),
    Lanes(Binary, Width),
    ShiftLanes(Binary, Width),
    AllTrue(Width),
    Bitmask(Width),
    AnyTrue,
}

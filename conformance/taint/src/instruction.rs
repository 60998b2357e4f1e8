//! Instructions as they are run: operators without nesting, whose jumps have the place that they lead to.

use crate::floats::{FloatBinary, FloatUnary};
use crate::marked::{Binary, Unary, Width};

/// The destination of a jump: the instruction, and the operands of its function that are left there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The next instruction.
    pub to: u32,
    /// Operands below those that are kept.
    pub below: u32,
    /// Operands from the top that are kept.
    pub kept: u32,
}

/// The layout of a value in memory, and for a load the bits above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Bytes in memory.
    pub bytes: u8,
    /// Bits that the sign is copied to; none are zero.
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
    /// The constant vector of this number.
    ConstVector(u32),
    LocalGet(u32),
    LocalSet(u32),
    LocalTee(u32),
    GlobalGet(u32),
    GlobalSet(u32),
    Jump(Target),
    JumpIf(Target),
    /// An `if` whose condition is zero.
    JumpIfZero(Target),
    /// One of the targets of this number and on, so many; the last is the default.
    JumpTable(u32, u32),
    Return,
    Call(u32),
    /// A function of this type out of the table.
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
    /// Copies the sign of so many bits.
    Extend(Width, Width),
    Splat(Width),
    /// The lane that begins at this bit.
    ExtractLane(u32, Width),
    ReplaceLane(u32, Width),
    /// Picks bytes, as the constant vector of this number says.
    Shuffle(u32),
    EqualLanes(Width),
    Lanes(Binary, Width),
    ShiftLanes(Binary, Width),
    AllTrue(Width),
    Bitmask(Width),
    AnyTrue,
}

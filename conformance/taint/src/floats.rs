//! Operations on floating-point numbers. Either all bits of a result are marked, or none.

use crate::marked::{Marked, Width};

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatBinary {
    Add,
    Sub,
    Mul,
    Div,
    Copysign,
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
}

/// An operation on one number, or a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatUnary {
    Abs,
    Neg,
    Sqrt,
    DemoteF64,
    PromoteF32,
    F64FromI32S,
    F64FromI32U,
    F64FromI64S,
    F64FromI64U,
    I32FromF64S,
    I64FromF64U,
}

fn double(bits: u128) -> f64 {
    f64::from_bits(bits as u64)
}

/// Returns the marks of a result with `bits` bits: all, if an operand is secret, else none.
fn all_or_none(is_secret: bool, width: Width) -> u128 {
    if is_secret { width.mask() } else { 0 }
}

impl FloatBinary {
    /// Returns true if the operation's time depends on its operands.
    pub fn is_division(self) -> bool {
        self == Self::Div
    }

    /// Applies the operation to numbers of 64 bits.
    pub fn apply(self, a: Marked, b: Marked) -> Marked {
        let (x, y) = (double(a.value), double(b.value));
        let (value, width) = match self {
            Self::Add => ((x + y).to_bits(), 64),
            Self::Sub => ((x - y).to_bits(), 64),
            Self::Mul => ((x * y).to_bits(), 64),
            Self::Div => ((x / y).to_bits(), 64),
            Self::Copysign => (x.copysign(y).to_bits(), 64),
            Self::Eq => (u64::from(x == y), 1),
            Self::Ne => (u64::from(x != y), 1),
            Self::Lt => (u64::from(x < y), 1),
            Self::Gt => (u64::from(x > y), 1),
            Self::Le => (u64::from(x <= y), 1),
            Self::Ge => (u64::from(x >= y), 1),
        };
        Marked { value: value.into(), marks: all_or_none(a.is_secret() || b.is_secret(), Width(width)) }
    }
}

impl FloatUnary {
    /// Returns true if the operation's time depends on its operand.
    pub fn is_division(self) -> bool {
        self == Self::Sqrt
    }

    /// Applies the operation.
    pub fn apply(self, a: Marked) -> Marked {
        let (x, bits) = (double(a.value), a.value as u64);
        let (value, width) = match self {
            Self::Abs => (x.abs().to_bits(), 64),
            Self::Neg => ((-x).to_bits(), 64),
            Self::Sqrt => (x.sqrt().to_bits(), 64),
            Self::DemoteF64 => (u64::from((x as f32).to_bits()), 32),
            Self::PromoteF32 => (f64::from(f32::from_bits(bits as u32)).to_bits(), 64),
            Self::F64FromI32S => (f64::from(bits as i32).to_bits(), 64),
            Self::F64FromI32U => (f64::from(bits as u32).to_bits(), 64),
            Self::F64FromI64S => ((bits as i64 as f64).to_bits(), 64),
            Self::F64FromI64U => ((bits as f64).to_bits(), 64),
            // `as` saturates, like these instructions.
            Self::I32FromF64S => (u64::from(x as i32 as u32), 32),
            Self::I64FromF64U => (x as u64, 64),
        };
        Marked { value: value.into(), marks: all_or_none(a.is_secret(), Width(width)) }
    }
}

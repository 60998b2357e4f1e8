//! Checks common to all functions and outputs.

use spirea_dpf::prf::PrfVisitor;
use spirea_dpf::*;

/// Output with a sample value that is not zero, and whose highest and lowest bits are set.
pub trait Sample: Output {
    /// The sample value.
    const VALUE: Self;
}

impl Sample for Bit {
    const VALUE: Self = Bit(true);
}

impl Sample for u32 {
    const VALUE: Self = 0xdead_beef;
}

impl Sample for u64 {
    const VALUE: Self = u64::MAX - 6;
}

impl Sample for u128 {
    const VALUE: Self = 1 << 127 | 1;
}

/// Property of every function and output.
pub trait Check: Copy {
    /// Panics if the property does not hold.
    fn check<P: Prf, O: Sample>(self, prf: P);

    /// Checks the property for one function and output by name.
    fn of(self, prf: PrfKind, output: OutputKind) {
        prf.visit(Visitor { check: self, output });
    }
}

struct Visitor<C> {
    check: C,
    output: OutputKind,
}

impl<C: Check> PrfVisitor for Visitor<C> {
    type Output = ();

    fn visit<P: Prf>(self, prf: P) {
        match self.output {
            OutputKind::Bit => self.check.check::<P, Bit>(prf),
            OutputKind::U32 => self.check.check::<P, u32>(prf),
            OutputKind::U64 => self.check.check::<P, u64>(prf),
            OutputKind::U128 => self.check.check::<P, u128>(prf),
        }
    }
}

//! Values with marks for the bits that depend on a secret, through every operation on integers.
//!
//! A mark is never lost: if a marked bit of an operand may change a bit of the result, that bit is
//! marked. A bit may be marked unnecessarily. The rules are those of valgrind's memcheck (Seward
//! and Nethercote, "Using Valgrind to detect undefined value errors with bit-precision", 2005),
//! except that the upper bits of products are bounded too.

/// A value of any type, in its lowest bits, with the marks of its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// The bits.
    pub value: u128,
    /// Set bits depend on a secret.
    pub marks: u128,
}

/// Number of bits of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(pub u32);

impl Width {
    /// Returns a mask of all bits of a value.
    pub fn mask(self) -> u128 {
        if self.0 == 128 { u128::MAX } else { (1 << self.0) - 1 }
    }

    fn sign(self) -> u128 {
        1 << (self.0 - 1)
    }

    fn signed(self, value: u128) -> i128 {
        ((value << (128 - self.0)) as i128) >> (128 - self.0)
    }
}

impl Marked {
    /// Returns a value that depends on no secret.
    pub fn public(value: impl Into<u128>) -> Self {
        Self { value: value.into(), marks: 0 }
    }

    /// Returns true if any bit depends on a secret.
    pub fn is_secret(self) -> bool {
        self.marks != 0
    }

    /// Returns the least possible value: every marked bit is 0.
    fn least(self) -> u128 {
        self.value & !self.marks
    }

    /// Returns the greatest possible value: every marked bit is 1.
    fn most(self) -> u128 {
        self.value | self.marks
    }

    /// Returns the lowest bits.
    pub fn truncated(self, width: Width) -> Self {
        Self { value: self.value & width.mask(), marks: self.marks & width.mask() }
    }

    /// Extends the sign of a value of `from` bits to `to` bits.
    pub fn extended(self, from: Width, to: Width) -> Self {
        let extend = |bits| from.signed(bits & from.mask()) as u128 & to.mask();
        Self { value: extend(self.value), marks: extend(self.marks) }
    }

    /// Returns `width` bits from `start` on.
    pub fn bits(self, start: u32, width: Width) -> Self {
        Self { value: self.value >> start, marks: self.marks >> start }.truncated(width)
    }

    /// Returns the value with its bits from `start` on replaced.
    pub fn with_bits(self, start: u32, width: Width, bits: Self) -> Self {
        let keep = !(width.mask() << start);
        Self {
            value: (self.value & keep) | (bits.value << start),
            marks: (self.marks & keep) | (bits.marks << start),
        }
    }

    /// Returns `self` if the condition is not zero, else `other`. A secret condition does not mark
    /// bits that are equal in both.
    pub fn selected(self, other: Self, condition: Self) -> Self {
        let chosen = if condition.value != 0 { self } else { other };
        if !condition.is_zero_secret() {
            return chosen;
        }
        Self { value: chosen.value, marks: self.marks | other.marks | (self.value ^ other.value) }
    }

    /// Returns true if a secret decides whether the value is zero.
    pub fn is_zero_secret(self) -> bool {
        self.is_secret() && self.least() == 0
    }
}

/// An operation on two integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    DivS,
    DivU,
    RemS,
    RemU,
    And,
    Or,
    Xor,
    Shl,
    ShrS,
    ShrU,
    Rotl,
    Rotr,
    Eq,
    Ne,
    LtS,
    LtU,
    GtS,
    GtU,
    LeS,
    LeU,
    GeS,
    GeU,
}

/// An operation on one integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    Eqz,
    Clz,
    Ctz,
    Popcnt,
}

impl Binary {
    /// Returns true if the operation's time depends on its operands.
    pub fn is_division(self) -> bool {
        matches!(self, Self::DivS | Self::DivU | Self::RemS | Self::RemU)
    }

    /// Applies the operation, in `width` bits; `None` for a trap.
    pub fn apply(self, width: Width, a: Marked, b: Marked) -> Option<Marked> {
        let value = self.value(width, a.value, b.value)?;
        let marks = if a.is_secret() || b.is_secret() { self.marks(width, a, b) } else { 0 };
        Some(Marked { value, marks })
    }

    fn value(self, width: Width, a: u128, b: u128) -> Option<u128> {
        match (self, width) {
            (Self::And, Width(128)) => Some(a & b),
            (Self::Or, Width(128)) => Some(a | b),
            (Self::Xor, Width(128)) => Some(a ^ b),
            _ => self.number(width, a as u64, b as u64).map(u128::from),
        }
    }

    /// Returns the result in at most 64 bits.
    fn number(self, width: Width, a: u64, b: u64) -> Option<u64> {
        let (count, unused) = ((b as u32) & (width.0 - 1), 64 - width.0);
        let signed = |x: u64| (x << unused) as i64 >> unused;
        let (sa, sb) = (signed(a), signed(b));
        let value = match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::Mul => a.wrapping_mul(b),
            // The quotient of the least number and -1 does not fit.
            Self::DivS => sa.checked_div(sb).filter(|&q| signed(q as u64) == q)? as u64,
            Self::DivU => a.checked_div(b)?,
            Self::RemS if sb == -1 => 0,
            Self::RemS => sa.checked_rem(sb)? as u64,
            Self::RemU => a.checked_rem(b)?,
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Shl => a << count,
            Self::ShrS => (sa >> count) as u64,
            Self::ShrU => a >> count,
            Self::Rotl => rotated(width, a, count),
            Self::Rotr => rotated(width, a, (width.0 - count) & (width.0 - 1)),
            Self::Eq => u64::from(a == b),
            Self::Ne => u64::from(a != b),
            Self::LtS => u64::from(sa < sb),
            Self::LtU => u64::from(a < b),
            Self::GtS => u64::from(sa > sb),
            Self::GtU => u64::from(a > b),
            Self::LeS => u64::from(sa <= sb),
            Self::LeU => u64::from(a <= b),
            Self::GeS => u64::from(sa >= sb),
            Self::GeU => u64::from(a >= b),
        };
        Some(value << unused >> unused)
    }

    fn marks(self, width: Width, a: Marked, b: Marked) -> u128 {
        let either = a.marks | b.marks;
        // Flipping the sign bits maps the order of signed numbers to that of unsigned numbers.
        let flipped = |x: Marked| Marked { value: x.value ^ width.sign(), ..x };
        let marks = match self {
            Self::Add => either | (a.least().wrapping_add(b.least()) ^ a.most().wrapping_add(b.most())),
            Self::Sub => either | (a.least().wrapping_sub(b.most()) ^ a.most().wrapping_sub(b.least())),
            Self::Mul => marks_of_product(a, b),
            Self::DivS | Self::DivU | Self::RemS | Self::RemU => u128::MAX,
            Self::And => either & a.most() & b.most(),
            Self::Or => either & !a.least() & !b.least(),
            Self::Xor => either,
            Self::Shl | Self::ShrS | Self::ShrU | Self::Rotl | Self::Rotr => {
                if b.marks & u128::from(width.0 - 1) != 0 {
                    if a.most() == 0 { 0 } else { u128::MAX }
                } else {
                    // Marks move like the bits. If the sign is marked, its copies are marked too.
                    self.value(width, a.marks, b.value).unwrap_or(u128::MAX)
                }
            }
            Self::Eq | Self::Ne => u128::from((a.value ^ b.value) & !either == 0),
            Self::LtU | Self::GeU => order_is_secret(a, b),
            Self::GtU | Self::LeU => order_is_secret(b, a),
            Self::LtS | Self::GeS => order_is_secret(flipped(a), flipped(b)),
            Self::GtS | Self::LeS => order_is_secret(flipped(b), flipped(a)),
        };
        marks & width.mask()
    }
}

impl Unary {
    /// Applies the operation, in `width` bits.
    pub fn apply(self, width: Width, a: Marked) -> Marked {
        let count = |value: u128| {
            u128::from(match self {
                Self::Eqz => u32::from(value == 0),
                Self::Clz => value.leading_zeros() - (128 - width.0),
                Self::Ctz => value.trailing_zeros().min(width.0),
                Self::Popcnt => value.count_ones(),
            })
        };
        // Every count is monotonic in the set bits, so it lies between the counts of the least and
        // the greatest value.
        let differing = count(a.least()) ^ count(a.most());
        Marked { value: count(a.value), marks: all_below(differing) }
    }
}

fn rotated(width: Width, a: u64, count: u32) -> u64 {
    if count == 0 { a } else { (a << count) | (a >> (width.0 - count)) }
}

/// Returns all bits up to the highest set bit.
fn all_below(bits: u128) -> u128 {
    u128::MAX.checked_shr(bits.leading_zeros()).unwrap_or(0)
}

/// Returns the mark of `a < b`, unsigned.
fn order_is_secret(a: Marked, b: Marked) -> u128 {
    u128::from(a.most() >= b.least() && a.least() < b.most())
}

/// Returns the marks of a product: none below the lowest bit that a secret affects, none above the
/// largest product.
fn marks_of_product(a: Marked, b: Marked) -> u128 {
    let (most_a, most_b) = (a.most(), b.most());
    if most_a == 0 || most_b == 0 {
        return 0;
    }
    // A marked bit changes the product by a multiple of its place times the lowest possible bit of
    // the other factor.
    let reach = |marks: u128, other: u128| {
        if marks == 0 { u32::MAX } else { marks.trailing_zeros() + other.trailing_zeros() }
    };
    let lowest = reach(a.marks, most_b).min(reach(b.marks, most_a));
    let from_lowest = u128::MAX.checked_shl(lowest).unwrap_or(0);
    from_lowest & most_a.checked_mul(most_b).map_or(u128::MAX, all_below)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const BINARY: [Binary; 25] = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::DivS,
        Binary::DivU,
        Binary::RemS,
        Binary::RemU,
        Binary::And,
        Binary::Or,
        Binary::Xor,
        Binary::Shl,
        Binary::ShrS,
        Binary::ShrU,
        Binary::Rotl,
        Binary::Rotr,
        Binary::Eq,
        Binary::Ne,
        Binary::LtS,
        Binary::LtU,
        Binary::GtS,
        Binary::GtU,
        Binary::LeS,
        Binary::LeU,
        Binary::GeS,
        Binary::GeU,
    ];
    const UNARY: [Unary; 4] = [Unary::Eqz, Unary::Clz, Unary::Ctz, Unary::Popcnt];

    /// Generates bits of a width: none, all, a run, or any.
    fn bits(width: Width) -> impl Strategy<Value = u128> {
        let run = (0..width.0, 0..width.0).prop_map(|(a, b)| ((1u128 << a) - 1) ^ ((1u128 << b) - 1));
        let any = any::<u128>();
        prop_oneof![Just(0), Just(width.mask()), run, any].prop_map(move |bits| bits & width.mask())
    }

    fn marked(width: Width) -> impl Strategy<Value = Marked> {
        (bits(width), bits(width)).prop_map(|(value, marks)| Marked { value, marks })
    }

    fn width() -> impl Strategy<Value = Width> {
        select(vec![Width(8), Width(32), Width(64)])
    }

    /// Generates two operands, and the operands with some of their marked bits changed.
    fn operands() -> impl Strategy<Value = (Width, [Marked; 2], [Marked; 2])> {
        width().prop_flat_map(|width| {
            let pair = (marked(width), marked(width), bits(width), bits(width));
            pair.prop_map(move |(a, b, of_a, of_b)| {
                let changed = |x: Marked, by| Marked { value: x.value ^ (by & x.marks), ..x };
                (width, [a, b], [changed(a, of_a), changed(b, of_b)])
            })
        })
    }

    fn keeps_its_marks(before: Marked, after: Marked) -> bool {
        before.marks == after.marks && (before.value ^ after.value) & !before.marks == 0
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn no_secret_changes_an_unmarked_bit(operation in select(BINARY.to_vec()), (width, [a, b], [c, d]) in operands()) {
            if let (Some(before), Some(after)) = (operation.apply(width, a, b), operation.apply(width, c, d)) {
                prop_assert!(keeps_its_marks(before, after), "{operation:?} {before:x?} {after:x?}");
            }
        }

        #[test]
        fn no_secret_changes_an_unmarked_bit_of_one(operation in select(UNARY.to_vec()), (width, [a, _], [b, _]) in operands()) {
            let (before, after) = (operation.apply(width, a), operation.apply(width, b));
            prop_assert!(keeps_its_marks(before, after), "{operation:?} {before:x?} {after:x?}");
        }

        #[test]
        fn no_secret_changes_an_unmarked_bit_of_a_choice((width, [a, b], [c, d]) in operands(), condition in 0..4u8) {
            let [value, marks] = [condition & 1, condition >> 1].map(u128::from);
            let condition = Marked { value, marks };
            let other = Marked { value: value ^ marks, marks };
            let (before, after) = (a.selected(b, condition), c.selected(d, other));
            // Only the bits without a mark must agree.
            prop_assert!((before.value ^ after.value) & !before.marks == 0, "{width:?} {before:x?} {after:x?}");
        }

        #[test]
        fn extensions_and_lanes_move_marks_with_bits((width, [a, b], [c, d]) in operands(), start in 0..2u32) {
            let wide = Width(128);
            prop_assert!(keeps_its_marks(a.extended(width, wide), c.extended(width, wide)));
            let placed = |x: Marked, y: Marked| x.with_bits(start * width.0, width, y);
            prop_assert!(keeps_its_marks(placed(a, b), placed(c, d)));
            prop_assert_eq!(placed(a, b).bits(start * width.0, width), b);
        }
    }

    /// Rules that mark every bit would be sound, but all of their alarms would be false.
    #[test]
    fn public_bits_stay_public() {
        let secret = |value: u128, marks: u128| Marked { value, marks };
        let apply = |operation: Binary, a, b| operation.apply(Width(32), a, b).unwrap().marks;
        let public = |value: u32| Marked::public(value);
        assert_eq!(apply(Binary::And, secret(5, 0xff), public(0xf0)), 0xf0);
        assert_eq!(apply(Binary::Or, secret(5, 0xff), public(0xf0)), 0x0f);
        assert_eq!(apply(Binary::Add, secret(5, 0xff), public(0x1000)), 0xff);
        assert_eq!(apply(Binary::Shl, secret(1, 1), public(4)), 0x10);
        assert_eq!(apply(Binary::ShrU, secret(5, 0xff), public(8)), 0);
        assert_eq!(apply(Binary::LtU, secret(5, 0xff), public(0x100)), 0);
        assert_eq!(apply(Binary::Eq, secret(5, 0xff), public(0x100)), 0);
        assert_eq!(apply(Binary::Eq, secret(5, 0xff), public(5)), 1);
        assert_eq!(apply(Binary::Mul, secret(4, 4), public(8)), 0x20);
    }
}

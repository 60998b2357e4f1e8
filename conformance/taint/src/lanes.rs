//! Operations on vectors of 128 bits, lane by lane.

use crate::marked::{Binary, Marked, Width};

const VECTOR: Width = Width(128);

/// Applies an operation to the lanes of two vectors.
pub fn zipped(operation: Binary, width: Width, a: Marked, b: Marked) -> Marked {
    mapped(width, |lane| {
        let (a, b) = (a.bits(lane, width), b.bits(lane, width));
        operation.apply(width, a, b).expect("no operation on lanes traps")
    })
}

/// Applies a shift by a single count to the lanes of a vector.
pub fn shifted(operation: Binary, width: Width, a: Marked, count: Marked) -> Marked {
    mapped(width, |lane| operation.apply(width, a.bits(lane, width), count).expect("a shift does not trap"))
}

/// Compares the lanes of two vectors: a lane of the result is all ones if they are equal.
pub fn equal(width: Width, a: Marked, b: Marked) -> Marked {
    mapped(width, |lane| {
        let same = Binary::Eq.apply(width, a.bits(lane, width), b.bits(lane, width));
        same.expect("a comparison does not trap").extended(Width(1), width)
    })
}

/// Copies a value into every lane.
pub fn splat(width: Width, a: Marked) -> Marked {
    mapped(width, |_| a.truncated(width))
}

/// Picks bytes of `a` and `b`; places 0 to 15 select from `a`, and 16 to 31 from `b`.
pub fn shuffled(places: [u8; 16], a: Marked, b: Marked) -> Marked {
    let byte = Width(8);
    mapped(byte, |lane| {
        let place = u32::from(places[lane as usize / 8]);
        if place < 16 { a.bits(8 * place, byte) } else { b.bits(8 * (place - 16), byte) }
    })
}

/// Returns 1 if no lane is zero.
pub fn all_true(width: Width, a: Marked) -> Marked {
    let lanes = || (0..128).step_by(width.0 as usize).map(|lane| a.bits(lane, width));
    let value = u128::from(lanes().all(|lane| lane.value != 0));
    // A lane that is publicly zero determines the result.
    let is_settled = lanes().any(|lane| lane.value | lane.marks == 0);
    let is_secret = !is_settled && lanes().any(Marked::is_zero_secret);
    Marked { value, marks: u128::from(is_secret) }
}

/// Returns the highest bit of every lane.
pub fn bitmask(width: Width, a: Marked) -> Marked {
    let gather = |bits: u128| {
        let lanes = (width.0 - 1..128).step_by(width.0 as usize).enumerate();
        lanes.fold(0, |mask, (i, top)| mask | (((bits >> top) & 1) << i))
    };
    Marked { value: gather(a.value), marks: gather(a.marks) }
}

/// Returns 1 if a bit is set.
pub fn any_true(a: Marked) -> Marked {
    Marked { value: u128::from(a.value != 0), marks: u128::from(a.is_zero_secret()) }
}

/// Builds a vector by applying `of` to the first bit position of each lane.
fn mapped(width: Width, of: impl Fn(u32) -> Marked) -> Marked {
    let lanes = (0..VECTOR.0).step_by(width.0 as usize);
    lanes.fold(Marked::default(), |vector, lane| vector.with_bits(lane, width, of(lane)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn no_secret_changes_an_unmarked_bit(
            a: u128, b: u128, of_a: u128, of_b: u128, sparse in any::<bool>(), by_a: u128, by_b: u128, places: [u8; 16],
        ) {
            // With few marks and few set bits, comparisons have public results.
            let thin = |bits: u128| if sparse { bits & (bits << 1) & (bits >> 7) & (bits << 9) } else { bits };
            let (a, b) = (Marked { value: thin(a), marks: thin(of_a) }, Marked { value: thin(b), marks: thin(of_b) });
            let changed = |x: Marked, by: u128| Marked { value: x.value ^ (by & x.marks), ..x };
            let places = places.map(|place| place % 32);
            let count = Marked::public(b.value & 31);
            let all = |a: Marked, b: Marked| {
                let mut results = vec![shuffled(places, a, b), any_true(a), zipped(Binary::Xor, VECTOR, a, b)];
                for width in [8, 32, 64].map(Width) {
                    results.extend([
                        zipped(Binary::Add, width, a, b),
                        shifted(Binary::ShrU, width, a, count),
                        equal(width, a, b),
                        splat(width, a),
                        all_true(width, a),
                        bitmask(width, a),
                    ]);
                }
                results
            };
            for (before, after) in all(a, b).into_iter().zip(all(changed(a, by_a), changed(b, by_b))) {
                prop_assert_eq!(before.marks, after.marks);
                prop_assert_eq!((before.value ^ after.value) & !before.marks, 0);
            }
        }
    }
}

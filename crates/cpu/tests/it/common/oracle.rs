//! The steps by definition, and deterministic inputs for them. Shared with the unit tests of the
//! crate.

use spirea_backend::{PanelLayout, RING_DEGREE, RingMatrix};

/// Fast deterministic generator of test bytes.
pub struct Stream(u64);

impl Stream {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Content of a test matrix.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)]
pub enum Fill {
    Random,
    All(u8),
    /// 0 or 255.
    Ends,
}

pub fn matrix(layout: PanelLayout, fill: Fill, seed: u64) -> Vec<u8> {
    let mut stream = Stream::new(seed);
    (0..layout.bytes())
        .map(|_| match fill {
            Fill::Random => stream.next() as u8,
            Fill::All(byte) => byte,
            Fill::Ends => (stream.next() as i8 >> 7) as u8,
        })
        .collect()
}

/// Words at which digits carry, wrap or change sign.
pub const AWKWARD: [u32; 18] = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFF_8000,
    0x7FFF_FFFF,
    0x8000_0000,
    0x8000_8000,
    0x8080_8080,
    0x7F7F_7F7F,
    0x7F80_7F80,
    0xFFFF_8000,
    0xFFFF_FF80,
    0xFFFF_FFFF,
];

/// Returns words, one in `every` of which is awkward; if `every` is 1, all are awkward.
pub fn words(count: usize, every: u64, seed: u64) -> Vec<u32> {
    let mut stream = Stream::new(seed);
    (0..count)
        .map(|_| {
            let word = stream.next();
            if (word >> 48).is_multiple_of(every) { AWKWARD[(word % 18) as usize] } else { word as u32 }
        })
        .collect()
}

/// Computes `scalar_fold` by definition.
pub fn naive_scalar_fold(layout: PanelLayout, bytes: &[u8], queries: &[u32]) -> Vec<u32> {
    let mut answers = Vec::new();
    for query in queries.chunks_exact(layout.columns()) {
        for row in 0..layout.rows() {
            let mut sum = 0u32;
            for (column, word) in query.iter().enumerate() {
                sum = sum.wrapping_add(u32::from(bytes[layout.offset(row, column)]).wrapping_mul(*word));
            }
            answers.push(sum);
        }
    }
    answers
}

/// Computes `module_fold` by definition: the product with the expanded matrix.
pub fn naive_module_fold(layout: PanelLayout, bytes: &[u8], a: RingMatrix<'_>) -> Vec<u32> {
    let width = a.rank * RING_DEGREE;
    let mut hint = vec![0u32; layout.rows() * width];
    for row in 0..layout.rows() {
        for column in 0..layout.columns() {
            let (i, k) = (column / RING_DEGREE, column % RING_DEGREE);
            let byte = u32::from(bytes[layout.offset(row, column)]);
            for j in 0..a.rank {
                let polynomial = &a.coefficients[(i * a.rank + j) * RING_DEGREE..][..RING_DEGREE];
                for l in 0..RING_DEGREE {
                    let entry = if k >= l {
                        polynomial[k - l]
                    } else {
                        polynomial[RING_DEGREE + k - l].wrapping_neg()
                    };
                    let sum = &mut hint[row * width + j * RING_DEGREE + l];
                    *sum = sum.wrapping_add(byte.wrapping_mul(entry));
                }
            }
        }
    }
    hint
}

//! Error, inputs and comparison of self-tests.

use spirea_math::random::{Seed, public_row};

use crate::driver::DriverError;

/// Reason why a self-test failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestError {
    /// The driver reported an error.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A result differs from the expected value.
    #[error("{what}: {found:#010x} where {expected:#010x} was expected")]
    Wrong {
        /// Name and place of the value.
        what: String,
        /// Value found.
        found: u64,
        /// Value expected.
        expected: u64,
    },
}

/// Returns pseudorandom words, the same in every run.
pub(super) fn random(stream: u64, count: usize) -> Vec<u32> {
    let mut words = vec![0; count];
    public_row(&Seed::new([0x5e; 32]), stream, &mut words);
    words
}

/// Fails at the first value that differs.
pub(super) fn equal<T: Copy + Into<u64> + PartialEq>(
    what: &str,
    found: &[T],
    expected: impl IntoIterator<Item = T>,
) -> Result<(), SelfTestError> {
    for (i, (&found, expected)) in found.iter().zip(expected).enumerate() {
        if found != expected {
            let what = format!("{what}, place {i}");
            return Err(SelfTestError::Wrong { what, found: found.into(), expected: expected.into() });
        }
    }
    Ok(())
}

/// Selects bytes of (b : a) by selectors of four bits; the fourth bit asks for the byte's sign
/// instead.
pub(super) fn permuted_bytes(a: u32, b: u32, selectors: u32) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    u32::from_le_bytes(std::array::from_fn(|i| {
        let selector = selectors >> (4 * i);
        let byte = bytes[(selector & 7) as usize];
        if selector & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 }
    }))
}

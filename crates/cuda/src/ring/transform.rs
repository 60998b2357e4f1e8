//! Transforms alone, for measurements.

use spirea_backend::BackendError;

use super::tables::{Tables, by_degree};
use super::twiddles::Butterfly;
use crate::args;
use crate::driver::Buffer;

/// Direction of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Coefficients to values.
    Forward,
    /// Values to coefficients.
    Inverse,
}

/// Queues the transforms of polynomials `[polynomial][limb][N]` below the primes, in place, with
/// one kind of butterfly. All butterflies give the same words.
///
/// # Errors
/// [`BackendError::Shape`] if the words are not whole polynomials of the ring.
pub fn transform_with(
    butterfly: Butterfly,
    direction: Direction,
    tables: &Tables,
    polynomials: &Buffer<u32>,
) -> Result<(), BackendError> {
    let limbs = polynomials.len() / tables.degree();
    if !polynomials.len().is_multiple_of(tables.words()) || limbs >= 1 << 31 {
        return Err(BackendError::Shape(format!("{} words are not polynomials", polynomials.len())));
    }
    if limbs == 0 {
        return Ok(());
    }
    let (twiddles, count) = (tables.twiddles(butterfly), tables.limbs() as u32);
    let forward = args![polynomials, &tables.primes, &twiddles.forward, count];
    let inverse = args![polynomials, &tables.primes, &twiddles.inverse, &twiddles.scales, count];
    let (names, args): (_, &[_]) = match (butterfly, direction) {
        (Butterfly::Shoup, Direction::Forward) => (by_degree!("ntt_forward_shoup"), forward),
        (Butterfly::Shoup, Direction::Inverse) => (by_degree!("ntt_inverse_shoup"), inverse),
        (Butterfly::Montgomery, Direction::Forward) => (by_degree!("ntt_forward_montgomery"), forward),
        (Butterfly::Montgomery, Direction::Inverse) => (by_degree!("ntt_inverse_montgomery"), inverse),
    };
    Ok(tables.launch(names, tables.grid([limbs, 1, 1], 0), args)?)
}

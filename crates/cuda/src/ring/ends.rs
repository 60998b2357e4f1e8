//! The ends of a pipeline: encoding plaintexts as values, adding bodies, and switching to short
//! words.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use rayon::prelude::*;
use spirea_backend::{BackendError, Bodies, FillPolynomial, PanelLayout, SwitchedBits, check_batches};
use spirea_math::Ring;

use super::ciphertexts::Ciphertexts;
use super::primes::MOST_PRIMES;
use super::product::Plain;
use super::tables::{MOST_BODY_BITS, Tables, by_degree};
use super::twiddles::Factor;
use crate::args;
use crate::driver::{Arg, Buffer, Grid, Pinned, Stream};
use crate::fold::{Arrivals, CudaMatrix};

/// Bytes of values that are transformed at once, in whole rows.
const CHUNK: usize = 64 << 20;

/// Implements `encode`: the device transforms and stores some rows while the host fills the next
/// rows.
pub(super) fn encode(
    tables: &Tables,
    rows: usize,
    columns: usize,
    fill: &FillPolynomial<'_>,
) -> Result<Plain, BackendError> {
    let mut plain = Plain::new(tables, rows, columns)?;
    let (device, degree) = (&tables.device, tables.degree());
    let stream = device.main();
    let whole = columns.checked_mul(4 * tables.words()).ok_or_else(|| too_large(rows, columns))?;
    let at_once = (CHUNK / whole).clamp(1, rows);
    if at_once * columns * tables.limbs() >= 1 << 31 {
        return Err(too_large(rows, columns));
    }
    let room = at_once * columns * degree;
    let mut filled = [Arc::new(Pinned::<u32>::new(device, room)?), Arc::new(Pinned::new(device, room)?)];
    let coefficients = device.hold::<u32>(room)?;
    let values = device.hold::<u32>(room * tables.limbs())?;
    let encoded = (0..rows).step_by(at_once).enumerate().try_for_each(|(i, first)| {
        let rows = at_once.min(rows - first);
        let pinned = &mut filled[i % 2];
        let words = Arc::get_mut(pinned).expect("nobody else has it");
        let polynomials = words[..rows * columns * degree].par_chunks_mut(degree).enumerate();
        polynomials.for_each(|(j, words)| {
            fill(first + j / columns, j % columns, bytemuck::cast_slice_mut(words));
        });
        // Waits until the previous rows have arrived on the device, so that their pinned memory may
        // be filled again.
        stream.synchronize()?;
        stream.upload_pinned(
            pinned,
            0..rows * columns * degree,
            &coefficients.range(0..rows * columns * degree),
        )?;
        encode_words(tables, &stream, &coefficients, rows * columns, Rounding::NONE, &values)?;
        plain.store(tables, first, rows, &values)
    });
    // Waits also after a failure, because the pinned memory must live until it is copied.
    stream.synchronize()?;
    encoded?;
    Ok(plain)
}

/// Rounding of words to coefficients, as kernels take it (`ring_ends.cu`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Rounding {
    half: u32,
    dropped: u32,
}

impl Rounding {
    /// Rounding that changes nothing, for words that are coefficients already.
    pub(super) const NONE: Self = Self { half: 0, dropped: 0 };

    /// Rounds to the upper `bits` bits (1 to 31), like [`spirea_backend::centred`].
    pub(super) fn to_upper(bits: u32) -> Self {
        Self { half: 1 << (31 - bits), dropped: 32 - bits }
    }
}

/// Queues on `stream` the encoding of words `[polynomial][N]` as values `[polynomial][limb][N]`.
pub(super) fn encode_words(
    tables: &Tables,
    stream: &Stream,
    words: &Buffer<u32>,
    polynomials: usize,
    rounding: Rounding,
    values: &Buffer<u32>,
) -> Result<(), BackendError> {
    let limbs = polynomials * tables.limbs();
    if limbs >= 1 << 31
        || words.len() < polynomials * tables.degree()
        || values.len() < limbs * tables.degree()
    {
        return Err(too_large(1, polynomials));
    }
    let args: &[Arg] = args![words, Arg::structure(&rounding), values, tables.arg(), &tables.ones];
    Ok(tables.launch_on(stream, by_degree!("ring_encode"), tables.grid([limbs, 1, 1], 0), args)?)
}

fn too_large(rows: usize, columns: usize) -> BackendError {
    BackendError::Shape(format!("a matrix of {rows} x {columns} polynomials"))
}

/// Bodies as kernels take them (`ring_ends.cu`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct BodyWords {
    words: u64,
    count: u64,
    stride: u64,
}

/// Implements `add_bodies`: adds the upper `bits` bits of the words of all queries, in one launch.
pub(super) fn add_bodies(
    tables: &Tables,
    ciphertexts: &mut Ciphertexts,
    folded: &Buffer<u32>,
    bodies: &Bodies,
    bits: u32,
) -> Result<(), BackendError> {
    let (queries, of_query) = (ciphertexts.queries(), ciphertexts.count() * tables.degree());
    bodies.check(queries, folded.len(), of_query)?;
    if bits > MOST_BODY_BITS {
        return Err(BackendError::Shape(format!("bodies of {bits} bits: at most {MOST_BODY_BITS}")));
    }
    if bodies.first.is_empty() || queries == 0 {
        return Ok(());
    }
    let limbs = tables.limbs();
    let with_bodies = bodies.first.len().div_ceil(tables.degree());
    let grid = tables.grid([blocks(&[queries, with_bodies, limbs])?, 1, 1], 0);
    let words = BodyWords {
        words: folded.range(bodies.first.clone()).address(),
        count: bodies.first.len() as u64,
        stride: bodies.stride as u64,
    };
    let scales = tables.body_scales.range(bits as usize * limbs..(bits as usize + 1) * limbs);
    let args: &[Arg] =
        args![Arg::structure(&words), ciphertexts.arg(with_bodies), bits, tables.arg(), scales];
    Ok(tables.launch(by_degree!("ring_bodies"), grid, args)?)
}

/// Multiplies counts to the number of blocks of a grid's first dimension.
fn blocks(counts: &[usize]) -> Result<usize, BackendError> {
    let product = counts.iter().try_fold(1usize, |product, &count| product.checked_mul(count));
    product
        .filter(|&blocks| blocks < 1 << 31)
        .ok_or_else(|| BackendError::Shape(format!("{counts:?} polynomials at once")))
}

/// Maximum number of bits of a switched coefficient.
const MOST_SWITCHED_BITS: u32 = 56;
/// Words of each fixed-point fraction 1 / q_i.
const FRACTION_WORDS: usize = 7;

/// Constants for switching polynomials, as kernels take them (`ring_ends.cu`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Switch {
    scales: [Factor; MOST_PRIMES],
    fractions: [[u32; FRACTION_WORDS]; MOST_PRIMES],
    bits: [u32; 2],
}

impl Switch {
    fn new(ring: &Ring, bits: SwitchedBits) -> Self {
        let mut switch = Self::zeroed();
        for (i, limb) in ring.limbs().iter().enumerate() {
            let (q, inverse) = (limb.prime(), limb.plan.degree_inverse());
            switch.scales[i] = q.shoup(q.mul(limb.cofactor_inverse.value, inverse.value)).into();
            // Digits of 2^224 / q, the highest word first.
            let mut rest = 1u64;
            for word in switch.fractions[i].iter_mut().rev() {
                *word = ((rest << 32) / u64::from(q.value())) as u32;
                rest = (rest << 32) % u64::from(q.value());
            }
        }
        switch.bits = [bits.a, bits.b];
        switch
    }
}

/// Returns the constants for switching ciphertexts as a kernel argument.
fn switching(tables: &Tables, bits: SwitchedBits) -> Result<Arg, BackendError> {
    if ![bits.a, bits.b].iter().all(|bits| (1..=MOST_SWITCHED_BITS).contains(bits)) {
        return Err(BackendError::Shape(format!(
            "switching to {} and {} bits: 1 to {MOST_SWITCHED_BITS}",
            bits.a, bits.b
        )));
    }
    Ok(Arg::structure(&Switch::new(tables.ring(), bits)))
}

/// Returns the grid that switches all ciphertexts of a batch. The exchange of a block shares the
/// memory of the residues.
fn switch_grid(tables: &Tables, ciphertexts: &Ciphertexts) -> Result<Grid, BackendError> {
    let blocks = blocks(&[ciphertexts.queries(), ciphertexts.count(), 2])?;
    Ok(tables.grid([blocks, 1, 1], 0).shared(4 * tables.limbs().max(2) * tables.degree()))
}

/// Implements `reinterpret` with one launch for the matrices of all queries.
pub(super) fn reinterpret(
    tables: &Tables,
    ciphertexts: &Ciphertexts,
    bits: SwitchedBits,
    layout: PanelLayout,
) -> Result<Vec<CudaMatrix>, BackendError> {
    let (switch, device) = (switching(tables, bits)?, &tables.device);
    layout.check_room(ciphertexts.count(), bits.bytes(tables.degree()))?;
    let quads = u32::try_from(layout.quads()).map_err(|_| too_large(1, layout.columns()))?;
    let matrices = (0..ciphertexts.queries()).map(|_| CudaMatrix::zeros(device, layout));
    let matrices = matrices.collect::<Result<Vec<_>, _>>()?;
    if ciphertexts.count() > 0 && !matrices.is_empty() {
        let addresses: Vec<u64> = matrices.iter().map(|matrix| matrix.bytes().all().address()).collect();
        let (addresses, grid) = (device.upload(&addresses)?, switch_grid(tables, ciphertexts)?);
        let args: &[Arg] =
            args![ciphertexts.arg(ciphertexts.count()), &addresses, quads, tables.arg(), switch];
        tables.launch(by_degree!("ring_columns"), grid, args)?;
    }
    Ok(matrices)
}

/// Implements `mod_switch` with one launch for each part; the host waits once, for the bytes of all
/// parts, and then joins the parts of each query.
pub(super) fn mod_switch(
    tables: &Tables,
    arrivals: &Arrivals,
    parts: &[&Ciphertexts],
    bits: SwitchedBits,
) -> Result<Vec<Vec<u8>>, BackendError> {
    let queries = parts.first().map_or(0, |part| part.queries());
    parts.iter().try_for_each(|part| check_batches(queries, part.queries()))?;
    let switch = switching(tables, bits)?;
    let words_of = |part: &Ciphertexts| part.count() * bits.bytes(tables.degree()) / 4;
    // The bytes are ordered by part, then by query.
    let switched = tables.device.alloc::<u32>(parts.iter().map(|part| queries * words_of(part)).sum())?;
    let mut end = 0;
    for part in parts.iter().filter(|part| queries * part.count() > 0) {
        let start = end;
        end += queries * words_of(part);
        let (grid, to) = (switch_grid(tables, part)?, switched.range(start..end));
        let args: &[Arg] = args![part.arg(part.count()), to, tables.arg(), switch.clone()];
        tables.launch(by_degree!("ring_switch"), grid, args)?;
    }
    let lengths: Vec<usize> = parts.iter().map(|part| 4 * words_of(part)).collect();
    arrivals.download(&tables.device.main(), &switched.all(), |words| {
        join(queries, &lengths, bytemuck::cast_slice(words))
    })
}

/// Joins the parts of each query. `bytes` holds them part by part, then query by query; `lengths`
/// are the bytes of each part of one query.
fn join(queries: usize, lengths: &[usize], bytes: &[u8]) -> Vec<Vec<u8>> {
    let answer = |query: usize| {
        let mut answer = Vec::with_capacity(lengths.iter().sum());
        let mut first = 0;
        for &length in lengths {
            answer.extend_from_slice(&bytes[first + query * length..][..length]);
            first += queries * length;
        }
        answer
    };
    (0..queries).into_par_iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_joined_of_their_parts() {
        // Parts a (2 bytes of a query), b (none) and c (1 byte), of three queries.
        let answers = join(3, &[2, 0, 1], &[10, 11, 20, 21, 30, 31, 12, 22, 32]);
        assert_eq!(answers, [[10, 11, 12], [20, 21, 22], [30, 31, 32]]);
        assert!(answers.iter().all(|answer| answer.capacity() == 3));
        assert_eq!(join(2, &[], &[]), [[0u8; 0]; 2]);
        assert!(join(0, &[2, 1], &[]).is_empty());
    }
}

//! What begins and ends a pipeline: plaintexts to values, bodies added, switching to short words.

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
use crate::driver::{Arg, Buffer, Grid, Pinned, Stream, View};
use crate::fold::CudaMatrix;

/// Bytes of values that are transformed at once, as far as whole rows allow.
const CHUNK: usize = 64 << 20;

/// `encode`: while the device transforms and stores some rows, the host fills the next.
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
        // The rows before are on the device, and theirs may be filled again.
        stream.synchronize()?;
        stream.upload_pinned(
            pinned,
            0..rows * columns * degree,
            &coefficients.range(0..rows * columns * degree),
        )?;
        encode_words(tables, &stream, &coefficients, rows * columns, Rounding::NONE, &values)?;
        plain.store(tables, first, rows, &values)
    });
    // Whatever came of it: what is filled stays until it is copied.
    stream.synchronize()?;
    encoded?;
    Ok(plain)
}

/// What coefficients are made of words, as kernels take it (`ring_ends.cu`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Rounding {
    half: u32,
    dropped: u32,
}

impl Rounding {
    /// Words that are coefficients already.
    pub(super) const NONE: Self = Self { half: 0, dropped: 0 };

    /// To the upper 1 to 31 bits: [`spirea_backend::centred`].
    pub(super) fn to_upper(bits: u32) -> Self {
        Self { half: 1 << (31 - bits), dropped: 32 - bits }
    }
}

/// Queues on a stream what makes values `[polynomial][limb][N]` of words `[polynomial][N]`, which there is room for.
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

/// `add_bodies`: of all queries at once where neither their words nor their ciphertexts have gaps, for which the kernel
/// has no arguments; otherwise of one after another.
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
    let full = bodies.first.len() == of_query && bodies.stride == of_query;
    if let (true, Some(all)) = (full, ciphertexts.gapless()) {
        let words = folded.range(bodies.first.start..bodies.of(queries - 1).end);
        return add_words(tables, &all, words, bits);
    }
    (0..queries).try_for_each(|query| {
        add_words(tables, &ciphertexts.of(tables, query), folded.range(bodies.of(query)), bits)
    })
}

/// Adds words, the upper `bits` bits of each, to ciphertexts one after another.
fn add_words(
    tables: &Tables,
    ciphertexts: &View<'_, u32>,
    words: View<'_, u32>,
    bits: u32,
) -> Result<(), BackendError> {
    let limbs = tables.limbs();
    let scales = tables.body_scales.range(bits as usize * limbs..(bits as usize + 1) * limbs);
    let blocks = words.len().div_ceil(tables.degree()) * limbs;
    check_blocks(blocks)?;
    let grid = tables.grid([blocks, 1, 1], 0);
    let args: &[Arg] = args![&words, words.len() as u64, ciphertexts, bits, tables.arg(), scales];
    Ok(tables.launch(by_degree!("ring_bodies"), grid, args)?)
}

/// What a grid takes.
fn check_blocks(blocks: usize) -> Result<(), BackendError> {
    if blocks >= 1 << 31 {
        return Err(BackendError::Shape(format!("{blocks} polynomials at once")));
    }
    Ok(())
}

/// Most bits of a switched coefficient.
const MOST_SWITCHED_BITS: u32 = 56;
/// Words of the fractions that stand for 1 / q_i.
const FRACTION_WORDS: usize = 7;

/// How polynomials are switched, as kernels take it (`ring_ends.cu`).
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
            // 2^224 / q, the highest word first.
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

/// How ciphertexts are switched, as an argument of kernels.
fn switching(tables: &Tables, bits: SwitchedBits) -> Result<Arg, BackendError> {
    if ![bits.a, bits.b].iter().all(|bits| (1..=MOST_SWITCHED_BITS).contains(bits)) {
        return Err(BackendError::Shape(format!(
            "switching to {} and {} bits: 1 to {MOST_SWITCHED_BITS}",
            bits.a, bits.b
        )));
    }
    Ok(Arg::structure(&Switch::new(tables.ring(), bits)))
}

/// Blocks that switch ciphertexts of so many words.
fn switch_grid(tables: &Tables, words: usize) -> Result<Grid, BackendError> {
    let blocks = 2 * (words / tables.ciphertext());
    check_blocks(blocks)?;
    Ok(tables.grid([blocks, 1, 1], tables.limbs().max(2)))
}

/// `reinterpret`.
pub(super) fn reinterpret(
    tables: &Tables,
    ciphertexts: &Ciphertexts,
    bits: SwitchedBits,
    layout: PanelLayout,
) -> Result<Vec<CudaMatrix>, BackendError> {
    let switch = switching(tables, bits)?;
    layout.check_room(ciphertexts.count(), bits.bytes(tables.degree()))?;
    let quads = u32::try_from(layout.quads()).map_err(|_| too_large(1, layout.columns()))?;
    let matrix = |query: usize| {
        let matrix = CudaMatrix::passing(&tables.device, layout)?;
        tables.device.main().zero(&matrix.bytes().range(0..layout.bytes()))?;
        if ciphertexts.count() > 0 {
            let columns = ciphertexts.of(tables, query);
            let grid = switch_grid(tables, columns.len())?;
            let args: &[Arg] = args![columns, matrix.bytes(), quads, tables.arg(), switch.clone()];
            tables.launch(by_degree!("ring_columns"), grid, args)?;
        }
        Ok(matrix)
    };
    (0..ciphertexts.queries()).map(matrix).collect()
}

/// `mod_switch`: one launch for each part, or for each query of a part that has gaps; the host waits once, for the bytes
/// of all.
pub(super) fn mod_switch(
    tables: &Tables,
    parts: &[&Ciphertexts],
    bits: SwitchedBits,
) -> Result<Vec<Vec<u8>>, BackendError> {
    let queries = parts.first().map_or(0, |part| part.queries());
    parts.iter().try_for_each(|part| check_batches(queries, part.queries()))?;
    let switch = switching(tables, bits)?;
    let words_of = |part: &Ciphertexts| part.count() * bits.bytes(tables.degree()) / 4;
    // Part by part, then query by query.
    let switched = tables.device.alloc::<u32>(parts.iter().map(|part| queries * words_of(part)).sum())?;
    let mut end = 0;
    for part in parts.iter().filter(|part| part.count() > 0) {
        let pieces = match part.gapless() {
            Some(all) => vec![all],
            None => (0..queries).map(|query| part.of(tables, query)).collect(),
        };
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let start = end;
            end += piece.len() / tables.ciphertext() * bits.bytes(tables.degree()) / 4;
            let args: &[Arg] = args![piece, &switched.range(start..end), tables.arg(), switch.clone()];
            tables.launch(by_degree!("ring_switch"), switch_grid(tables, piece.len())?, args)?;
        }
    }
    let words = tables.device.main().read(&switched.all())?;
    let mut rest = bytemuck::cast_slice::<u32, u8>(&words);
    let mut answers = vec![Vec::new(); queries];
    for part in parts {
        for answer in &mut answers {
            let (bytes, others) = rest.split_at(4 * words_of(part));
            answer.extend_from_slice(bytes);
            rest = others;
        }
    }
    Ok(answers)
}

//! Blocking and threads: the database is read from memory once for the whole batch.
//!
//! ```text
//! for each chunk of panels                    in parallel, contiguous
//!     for each block of columns               its packed queries stay in the second-level cache
//!         for each panel of the chunk         32 rows x block of the database: first-level cache; a lone query takes two
//!             for each tile of queries        registers
//! ```

use std::ops::Range;

use rayon::prelude::*;
use spirea_backend::{PANEL_ROWS, PanelLayout, QUAD};

use super::tile::Tile;
use super::{Microkernel, Operand, PanelSums, Quad, digits};
use crate::ahead::{APART_BYTES, SCAN, SCAN_PAIRS};
use crate::parallel::Each as _;
use crate::prefetch::Lines;

/// Maximum bytes of packed queries for a block of columns: half of a small second-level cache.
const OPERANDS_BYTES: usize = 128 << 10;
/// Number of quads of a block that several tiles read. They are 16 KiB of the database, half of the
/// first-level cache.
const REREAD_QUADS: usize = 64;
/// Minimum quads of a block, so that adding a tile's sums to memory stays a small part of its work.
const LEAST_QUADS: usize = 32;
/// Number of chunks of panels for each thread, large enough to balance threads that are slowed down
/// by other work.
const CHUNKS_PER_THREAD: usize = 4;

/// Multiplies the database by `queries` on the current thread pool; returns one answer after
/// another.
///
/// `quads` is the whole matrix; `queries` is a whole number of queries of `layout.columns()` words.
pub(crate) fn scalar_fold<K: Microkernel>(
    kernel: K,
    quads: &[Quad],
    layout: PanelLayout,
    queries: &[u32],
) -> Vec<u32> {
    let batch = queries.len() / layout.columns();
    let tiles = tiles(batch, K::TILE);
    let operands = pack(kernel, layout, queries, &tiles);

    let mut sums: Vec<PanelSums> = vec![[0; PANEL_ROWS]; layout.panels() * batch];
    let chunk = layout.panels().div_ceil(CHUNKS_PER_THREAD * rayon::current_num_threads());
    sums.par_chunks_mut(chunk * batch).zip(quads.par_chunks(chunk * layout.quads())).each(&|(
        sums,
        quads,
    )| {
        fold_chunk(kernel, layout, batch, &tiles, &operands, quads, sums)
    });

    let mut answers = vec![0; layout.rows() * batch];
    answers.par_chunks_mut(layout.rows()).enumerate().each(&|(query, answer)| {
        for (panel, rows) in answer.as_chunks_mut::<PANEL_ROWS>().0.iter_mut().enumerate() {
            *rows = sums[panel * batch + query];
        }
    });
    answers
}

/// Divides the queries into tiles as evenly as possible: a batch of 4 becomes 2 and 2, not 3 and 1.
fn tiles(batch: usize, most: usize) -> Vec<Range<usize>> {
    let count = batch.div_ceil(most);
    (0..count).map(|tile| (tile * batch).div_ceil(count)..((tile + 1) * batch).div_ceil(count)).collect()
}

/// Packs all operands by tile, then by quad, then by query of the tile: the order in which the
/// tiles read them.
fn pack<K: Microkernel>(
    _kernel: K,
    layout: PanelLayout,
    queries: &[u32],
    tiles: &[Range<usize>],
) -> Vec<Operand> {
    const PIECE: usize = 1024;
    let mut operands = vec![[0; 4]; queries.len() / QUAD];
    let mut rest = operands.as_mut_slice();
    for tile in tiles {
        let (of_tile, others) = rest.split_at_mut(tile.len() * layout.quads());
        rest = others;
        of_tile.par_chunks_mut(PIECE * tile.len()).enumerate().each(&|(piece, operands)| {
            for (i, query) in tile.clone().enumerate() {
                let words = &queries[query * layout.columns()..(query + 1) * layout.columns()];
                let words = &words.as_chunks::<QUAD>().0[piece * PIECE..];
                for (operand, &words) in operands[i..].iter_mut().step_by(tile.len()).zip(words) {
                    *operand = digits::pack::<K>(words);
                }
            }
        });
    }
    operands
}

/// Returns the number of quads in a block of columns.
fn block_quads(batch: usize, tiles: usize) -> usize {
    let resident = (OPERANDS_BYTES / (size_of::<Operand>() * batch)).max(LEAST_QUADS);
    if tiles > 1 { resident.min(REREAD_QUADS) } else { resident }
}

fn fold_chunk<K: Microkernel>(
    kernel: K,
    layout: PanelLayout,
    batch: usize,
    tiles: &[Range<usize>],
    operands: &[Operand],
    quads: &[Quad],
    sums: &mut [PanelSums],
) {
    let (panel_quads, length) = (layout.quads(), block_quads(batch, tiles.len()));
    for start in (0..panel_quads).step_by(length) {
        let end = (start + length).min(panel_quads);
        let paired = match batch {
            1 => fold_pairs(kernel, layout, start..end, operands, quads, sums),
            _ => 0,
        };
        for (panel, sums) in sums.chunks_exact_mut(batch).enumerate().skip(paired) {
            let first = panel * panel_quads;
            let block = &quads[first + start..first + end];
            // Lines are prefetched while tiles compute. Each of several tiles prefetches its part
            // of the next panel's block; a single tile prefetches ahead within its own reads.
            let following = quads.get(first + panel_quads + start..first + panel_quads + end);
            let mut shares = following.unwrap_or(&[]).chunks(block.len().div_ceil(tiles.len()));
            for tile in tiles {
                let offset = tile.start * panel_quads;
                let operands = &operands[offset + start * tile.len()..offset + end * tile.len()];
                let sums = &mut sums[tile.clone()];
                let mut fold = |ahead| kernel.fold(Tile { blocks: [block], ahead: [ahead], operands, sums });
                match tiles.len() {
                    1 => SCAN
                        .read(size_of_val(block), layout.bytes(), |ahead| fold(Lines::ahead(block, ahead))),
                    _ => fold(
                        shares
                            .next()
                            .map_or(Lines::NONE, |share| Lines::new(share.as_ptr(), size_of_val(share))),
                    ),
                }
            }
        }
    }
}

/// Folds a block of columns for a single query over all pairs of panels, if the panels of a pair
/// are far enough apart. Returns the number of panels folded.
fn fold_pairs<K: Microkernel>(
    kernel: K,
    layout: PanelLayout,
    columns: Range<usize>,
    operands: &[Operand],
    quads: &[Quad],
    sums: &mut [PanelSums],
) -> usize {
    let panel_quads = layout.quads();
    if size_of::<Quad>() * panel_quads < APART_BYTES {
        return 0;
    }
    let (pairs, operands) = (sums.as_chunks_mut::<2>().0, &operands[columns.clone()]);
    let paired = 2 * pairs.len();
    for (sums, panels) in pairs.iter_mut().zip(quads.chunks_exact(2 * panel_quads)) {
        let blocks = [0, panel_quads].map(|panel| &panels[panel..][columns.clone()]);
        SCAN_PAIRS.read(2 * size_of_val(blocks[0]), layout.bytes(), |ahead| {
            let ahead = blocks.map(|block| Lines::ahead(block, ahead));
            kernel.fold_pair(Tile { blocks, ahead, operands, sums });
        });
    }
    paired
}

//! Folds whose answers become plaintext polynomials on the device: the second hint of
//! `double-pack`.
//!
//! The answers of a fold and their values are large (80 and 240 MiB for 1280 columns and 16,384
//! rows). Memory for two blocks of them, and for the polynomials, is allocated for the first query
//! and reused by every later query. This is safe because the main stream computes a query's product
//! before the memory is filled again (VIPIR section 4.4). Blocks alternate between two streams, so
//! that one block is folded while another is transformed. The host only queues work.

use std::sync::Arc;

use parking_lot::Mutex;
use spirea_backend::{BackendError, FoldedBlocks, MAX_BATCH, PanelLayout, check_batches};
use spirea_math::Ring;

use super::ciphertexts::{Ciphertexts, Leaves};
use super::ends::{self, Rounding};
use super::product::{self, Plain};
use super::tables::Tables;
use crate::driver::{Buffer, Device, Stream};
use crate::fold::{CudaMatrix, ScalarFoldPlan};

/// Number of streams that blocks are distributed to.
const LANES: usize = 2;

/// Columns of a public matrix on a device.
#[derive(Debug)]
pub struct Columns {
    /// Layout of the matrices that are folded with these columns.
    layout: PanelLayout,
    count: usize,
    words: Buffer<u32>,
    room: Mutex<Option<Room>>,
}

/// Room in which folds of one shape become plaintexts.
#[derive(Debug)]
struct Room {
    ring: Arc<Ring>,
    folded: FoldedBlocks,
    /// Plans, each for at most [`MAX_BATCH`] of the columns. A plan holds its columns in the form
    /// that its kernel multiplies by.
    plans: Vec<ScalarFoldPlan>,
    lanes: Vec<Lane>,
    plain: Plain,
}

/// Stream with room for a block.
#[derive(Debug)]
struct Lane {
    stream: Stream,
    /// Answers, `[column][N]`.
    answers: Buffer<u32>,
    /// Values, `[column][limb][N]`.
    values: Buffer<u32>,
}

impl Columns {
    pub(super) fn new(
        device: &Arc<Device>,
        layout: PanelLayout,
        words: &[u32],
    ) -> Result<Self, BackendError> {
        let count = layout.columns_of(words)?;
        Ok(Self { layout, count, words: device.hold_values(words)?, room: Mutex::default() })
    }

    /// Computes `encode_fold` for the blocks of each matrix from `first` on.
    pub(crate) fn encode_fold(
        &self,
        tables: &Tables,
        matrices: &[CudaMatrix],
        first: usize,
        folded: FoldedBlocks,
        leaves: &Leaves,
    ) -> Result<Ciphertexts, BackendError> {
        check_batches(matrices.len(), leaves.queries())?;
        let all = FoldedBlocks { blocks: first.saturating_add(folded.blocks), ..folded };
        for matrix in matrices {
            all.check(matrix.layout(), self.layout, tables.degree())?;
            if !Arc::ptr_eq(matrix.device(), self.words.device()) {
                return Err(BackendError::Shape("a matrix on another device".into()));
            }
        }
        let products = Ciphertexts::room(tables, leaves.queries(), folded.blocks)?;
        // A caller that panicked has taken the room. A room that does not fit is dropped before the
        // next one is allocated: memory reserved for queries includes the room only once.
        let mut kept = self.room.lock();
        let fits = |room: &Room| room.folded == folded && Arc::ptr_eq(&room.ring, tables.ring());
        let room = match kept.take().filter(fits) {
            Some(room) => kept.insert(room),
            None => kept.insert(Room::new(self, tables, folded)?),
        };
        for (query, matrix) in matrices.iter().enumerate() {
            room.fill(tables, matrix, first, self)?;
            product::multiply(tables, &room.plain, leaves, query..query + 1, &products, 0)?;
        }
        Ok(products)
    }

    /// Returns the columns of plan number `i`.
    fn piece(&self, i: usize) -> std::ops::Range<usize> {
        i * MAX_BATCH..self.count.min((i + 1) * MAX_BATCH)
    }
}

impl Room {
    fn new(columns: &Columns, tables: &Tables, folded: FoldedBlocks) -> Result<Self, BackendError> {
        let (device, degree, width) = (columns.words.device(), tables.degree(), columns.layout.columns());
        let plain = Plain::new(tables, folded.blocks, columns.count)?;
        let block = PanelLayout::covering(degree, width)?;
        let mut plans = Vec::new();
        for piece in (0..columns.count.div_ceil(MAX_BATCH)).map(|i| columns.piece(i)) {
            let plan = ScalarFoldPlan::new(device, block, piece.len())?;
            plan.take(&device.main(), &columns.words.range(piece.start * width..piece.end * width))?;
            plans.push(plan);
        }
        let lane = |_| -> Result<Lane, BackendError> {
            Ok(Lane {
                stream: device.stream()?,
                answers: device.hold(columns.count * degree)?,
                values: device.hold(columns.count * tables.words())?,
            })
        };
        let lanes = (0..LANES.min(folded.blocks)).map(lane).collect::<Result<_, _>>()?;
        Ok(Self { ring: Arc::clone(tables.ring()), folded, plans, lanes, plain })
    }

    /// Queues the fold of the blocks from `first` on, and the encoding of the answers as
    /// plaintexts.
    fn fill(
        &mut self,
        tables: &Tables,
        matrix: &CudaMatrix,
        first: usize,
        columns: &Columns,
    ) -> Result<(), BackendError> {
        let main = tables.device.main();
        self.lanes.iter().try_for_each(|lane| lane.stream.after(&main))?;
        let (degree, width) = (tables.degree(), columns.layout.columns());
        let queued = (0..self.folded.blocks).zip(self.lanes.iter().cycle()).try_for_each(|(block, lane)| {
            for (i, plan) in self.plans.iter().enumerate() {
                let piece = columns.piece(i);
                let queries = columns.words.range(piece.start * width..piece.end * width);
                let answers = lane.answers.range(piece.start * degree..piece.end * degree);
                plan.multiply(&lane.stream, matrix, (first + block) * degree, &queries, &answers)?;
            }
            let rounding = Rounding::to_upper(self.folded.bits);
            ends::encode_words(tables, &lane.stream, &lane.answers, columns.count, rounding, &lane.values)?;
            self.plain.store_on(&lane.stream, tables, block, 1, &lane.values)
        });
        // The main stream waits also after a failure: it may drop or reuse buffers only after the
        // work of the lanes.
        self.lanes.iter().try_for_each(|lane| main.after(&lane.stream))?;
        queued
    }
}

#[cfg(test)]
mod tests {
    use spirea_backend::{Backend, RingBackend, centred};
    use spirea_cuda_emulation::{Config, Emulation};
    use spirea_math::Modulus;

    use super::*;
    use crate::CudaBackend;

    fn random(count: usize) -> Vec<u32> {
        (0..count as u32).map(|i| i.wrapping_mul(0x9e37_79b1) ^ i.wrapping_mul(0x85eb_ca6b) >> 9).collect()
    }

    /// Tests one column, two columns, and more than one plan takes, with fewer and more blocks than
    /// lanes.
    #[test]
    fn plaintexts_are_those_of_the_words() {
        let emulation = Emulation::install(Config { compute: (8, 6), ..Config::default() });
        let ring = Arc::new(Ring::new(2048, &[Modulus::new(536_608_769)]));
        emulation.in_every_order(|| {
            let backend = CudaBackend::new(0).unwrap();
            let tables = backend.tables(&ring).unwrap();
            for (count, blocks, bits) in [(1, 3, 31), (2, 2, 1), (MAX_BATCH + 3, 1, 18)] {
                let layout = PanelLayout::covering(blocks * 2048 + 1, 6).unwrap();
                let bytes: Vec<u8> = random(layout.bytes()).iter().map(|&word| word as u8).collect();
                let matrix = backend.upload(layout, &bytes).unwrap();
                let words = random(count * layout.columns());
                let columns = backend.columns(layout, &words).unwrap();
                let answers: Vec<u32> = words
                    .chunks(layout.columns())
                    .flat_map(|column| backend.words(backend.scalar_fold(&matrix, column).unwrap()).unwrap())
                    .collect();
                let fill = |block: usize, k: usize, to: &mut [i32]| {
                    let from = &answers[k * layout.rows() + block * 2048..];
                    to.iter_mut().zip(from).for_each(|(to, &word)| *to = centred(word, bits));
                };
                let expected = backend.encode(&tables, blocks, count, &fill).unwrap();
                let leaves = Leaves::room(&tables, 1, count).unwrap();
                let read = |plain: &Plain| backend.device().main().read(&plain.words()).unwrap();
                let matrices = [matrix];
                let found = |first, blocks| {
                    let folded = FoldedBlocks { blocks, bits };
                    columns.encode_fold(&tables, &matrices, first, folded, &leaves).unwrap();
                    read(&columns.room.lock().as_ref().unwrap().plain)
                };
                assert!(found(0, blocks) == read(&expected), "{count} columns, {blocks} blocks");
                // Only some of the blocks, as on a device of a group.
                let last_block = |_: usize, k: usize, to: &mut [i32]| fill(blocks - 1, k, to);
                let expected = backend.encode(&tables, 1, count, &last_block).unwrap();
                assert!(found(blocks - 1, 1) == read(&expected), "the last of {blocks} blocks");
            }
        });
    }
}

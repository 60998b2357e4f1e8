//! Blocking and threads: the database is read once for each group of keys, and shares stay in the
//! caches.
//!
//! ```text
//! for each task                                   in parallel: a bin's rows and the keys that meet them
//!     for each group of keys                      limited by the room for their shares
//!         for each piece of the tree              in parallel, contiguous
//!             for each chunk of the piece         its nodes: breadth first, in the second-level cache
//!                 for each tile of the chunk      its leaves' shares: in the second-level cache
//!                     for each block of its rows  read from memory for all keys of the group; two blocks for a lone key
//! ```

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;

use rayon::prelude::*;
use spirea_backend::{Batch, RowLayout};
use spirea_dpf::{Block as Node, Key, Leaf, OutputKind};

use super::bits::{SIDE, Sliced, XorSliced};
use super::fold::{Bits, Block, GROUP_ROWS, SLACK, Sum, XorMasked, XorTables, is_narrow, sum_bytes};
use super::lanes::{ByteLanes as _, Word};
use super::products::BitProducts;
use super::traverse::Descent;
use super::tree::Tree;
use crate::ahead::{APART_BYTES, SHARE_FOLD, SHARE_FOLD_PAIRS};
use crate::aligned::Aligned;
use crate::isa::{Found, Portable, with_token};
use crate::matrix::CpuRows;
use crate::parallel::Each as _;

/// Maximum number of keys that share one read of the database.
const GROUP_KEYS: usize = 64;
/// Maximum number of keys that share one read and one slicing of the database.
const SLICED_GROUP_KEYS: usize = 128;
/// Maximum bytes of all keys' nodes in a chunk: half of a second-level cache of 512 KiB.
const NODES_BYTES: usize = 256 << 10;
/// Maximum bytes of all keys' shares of a tile.
const SHARES_BYTES: usize = 128 << 10;
/// Maximum number of leaves in a chunk.
pub(super) const MAX_CHUNK: usize = 1024;
/// Maximum number of leaves in a tile.
pub(super) const MAX_TILE: usize = 64;
/// Bytes of rows in a block that is read by all keys: half of a first-level cache of 32 KiB.
const BLOCK_BYTES: usize = 16 << 10;
/// Bytes of rows in a block if there is a single key, which reads each block once.
const LONE_BLOCK_BYTES: usize = 64 << 10;
/// Number of pieces of the tree for each thread, large enough to balance threads that are slowed
/// down by other work.
const PIECES_PER_THREAD: usize = 4;
/// Minimum number of keys for which tables of subsets cost less than masked rows.
const TABLE_KEYS: usize = 4;
/// Minimum number of keys for which products of bit matrices cost less than masked rows.
const SLICED_KEYS: usize = 2;

/// Parameters of a fold, common to all its pieces.
struct Fold<'a> {
    tree: &'a dyn Tree,
    found: Found,
    /// Products of bit matrices, if they are the fastest way.
    products: Option<BitProducts>,
    layout: RowLayout,
    bytes: &'a [u8],
    batch: &'a Batch,
    keys: &'a [Key],
    chunk: usize,
    tile: usize,
}

/// Sums of all keys over the rows so far.
enum Sums {
    /// One row for each key, one part after another.
    Rows(Vec<u8>),
    /// In the form of products of bit matrices.
    Sliced(BitProducts, Sliced),
}

/// Fold of some of a table's rows.
pub(crate) struct Task<'a> {
    /// Properties that the keys share.
    pub batch: Batch,
    /// The keys.
    pub keys: &'a [Key],
}

/// Returns the answers of all keys of all tasks, one after another, computed on the current thread
/// pool.
///
/// Tasks run in parallel, and in the order of memory if they are given in that order. If there are
/// fewer tasks than pieces wanted for the threads, each task is cut into several pieces.
///
/// Without `products`, share bits of several keys are folded by tables.
pub(crate) fn share_folds(
    tree: &dyn Tree,
    found: Found,
    products: Option<BitProducts>,
    rows: &CpuRows,
    tasks: &[Task<'_>],
) -> Vec<u8> {
    let pieces = (PIECES_PER_THREAD * rayon::current_num_threads()).div_ceil(tasks.len().max(1));
    let fold = |task| share_fold(tree, found, products, rows, task, pieces);
    let answers: Vec<_> = tasks.par_iter().collected(&fold);
    answers.concat()
}

/// Returns the answers of a task's keys, one after another.
fn share_fold(
    tree: &dyn Tree,
    found: Found,
    products: Option<BitProducts>,
    rows: &CpuRows,
    task: &Task<'_>,
    pieces: usize,
) -> Vec<u8> {
    let Task { batch, keys } = task;
    let (layout, leaves) = (rows.layout(), batch.domain.leaves());
    let least = group_leaves(batch);
    let mut answers = Vec::with_capacity(keys.len() * layout.answer_bytes());
    let products = products.filter(|_| batch.domain.output() == OutputKind::Bit && keys.len() >= SLICED_KEYS);
    for keys in keys.chunks(if products.is_some() { SLICED_GROUP_KEYS } else { GROUP_KEYS }) {
        let most = |bytes: usize, each: usize| below(bytes / (each * keys.len())).max(least);
        let fair = below((leaves / pieces as u64) as usize).clamp(least, MAX_CHUNK);
        let chunk = most(NODES_BYTES, size_of::<Node>()).min(fair).min(1 << batch.domain.depth());
        let tile = most(SHARES_BYTES, size_of::<Leaf>()).min(MAX_TILE).min(chunk);
        let fold = Fold { tree, found, products, layout, bytes: rows.bytes(), batch, keys, chunk, tile };
        let chunks = leaves.div_ceil(chunk as u64);
        let piece = chunks.div_ceil(pieces as u64);
        let sums = (0..chunks.div_ceil(piece))
            .into_par_iter()
            .map(|i| fold.piece(i * piece..((i + 1) * piece).min(chunks)))
            .reduce(|| fold.no_sums(), |a, b| fold.add(a, &b));
        fold.write(&sums, &mut answers);
    }
    answers
}

/// Returns the number of leaves that hold the shares of a group of rows. Chunks and tiles have at
/// least this number, unless the tree has fewer leaves.
fn group_leaves(batch: &Batch) -> usize {
    GROUP_ROWS.div_ceil(batch.domain.output().per_leaf() as usize)
}

/// Returns the largest power of two that is at most `bound`, and at least 1.
fn below(bound: usize) -> usize {
    1 << bound.max(1).ilog2()
}

/// Clears all bits after the first `bits` bits.
fn clear_behind(shares: &mut [Leaf], bits: usize) {
    let words = bytemuck::cast_slice_mut::<_, u64>(shares.as_flattened_mut());
    let (whole, rest) = (bits / 64, bits % 64);
    if let Some((last, behind)) = words.get_mut(whole..).and_then(<[u64]>::split_first_mut) {
        *last &= (1 << rest) - 1;
        behind.fill(0);
    }
}

impl Fold<'_> {
    /// Returns the bytes of all keys' sums of a part.
    fn part_bytes(&self) -> usize {
        self.keys.len() * sum_bytes(self.layout.row_bytes())
    }

    /// Returns zero sums for all keys, one part after another.
    fn no_sums(&self) -> Vec<u8> {
        vec![0; self.layout.parts() * self.part_bytes()]
    }

    /// Returns the sums over the rows of some chunks.
    fn piece(&self, chunks: Range<u64>) -> Vec<u8> {
        let (parts, row_bytes) = (self.layout.parts(), self.layout.row_bytes());
        let mut sums = match self.products {
            Some(products) => {
                Sums::Sliced(products, Sliced::new(self.keys.len(), parts, row_bytes, self.block_rows()))
            }
            None => Sums::Rows(self.no_sums()),
        };
        let mut nodes = Aligned::<Node>::zeros(self.keys.len() * self.chunk);
        // A tree with fewer rows than a group is padded to a whole group. The number of keys is
        // padded to whole matrices of bits.
        let behind = group_leaves(self.batch);
        let padded = self.keys.len().next_multiple_of(SIDE);
        let mut shares = Aligned::<Leaf>::zeros(padded * self.tile + behind);
        let per_leaf = self.batch.domain.output().per_leaf();
        let descent = |key| Descent::new(self.tree, key, self.chunk);
        let mut descents: Vec<Descent<'_>> = self.keys.iter().map(descent).collect();
        for chunk in chunks {
            for (descent, nodes) in descents.iter_mut().zip(nodes.chunks_exact_mut(self.chunk)) {
                descent.leaf_nodes(chunk, nodes);
            }
            for tile in 0..self.chunk / self.tile {
                let first_leaf = chunk * self.chunk as u64 + (tile * self.tile) as u64;
                let points = self.batch.domain.points();
                let first = (first_leaf * per_leaf).min(points) as usize;
                let end = ((first_leaf + self.tile as u64) * per_leaf).min(points) as usize;
                if first == end {
                    break;
                }
                let shares_of_keys = shares.chunks_exact_mut(self.tile);
                for (i, (key, shares)) in self.keys.iter().zip(shares_of_keys).enumerate() {
                    let nodes = &nodes[i * self.chunk + tile * self.tile..][..self.tile];
                    self.tree.leaves(nodes, key, shares);
                    // Rows after the last point may belong to other keys' points.
                    clear_behind(shares, (end - first) * self.batch.domain.output().bits() as usize);
                }
                self.rows(first..end, &shares, &mut sums);
            }
        }
        match sums {
            Sums::Rows(sums) => sums,
            Sums::Sliced(_, sliced) => {
                let mut sums = self.no_sums();
                for (part, sums) in sums.chunks_exact_mut(self.part_bytes()).enumerate() {
                    for (key, row) in sums.chunks_exact_mut(sum_bytes(row_bytes)).enumerate() {
                        sliced.add_to(key, part, row);
                    }
                }
                sums
            }
        }
    }

    /// Returns the number of rows in a block: whole groups.
    fn block_rows(&self) -> usize {
        let row_bytes = self.layout.row_bytes();
        let rows = match (self.products, self.keys.len()) {
            (Some(_), _) => Sliced::block_rows(row_bytes),
            (None, 1) => LONE_BLOCK_BYTES / row_bytes,
            (None, _) => BLOCK_BYTES / row_bytes,
        };
        rows.max(1).next_multiple_of(GROUP_ROWS)
    }

    /// Folds `rows`, counted from the batch's first row; `shares` begins with the share of the
    /// first of them.
    fn rows(&self, rows: Range<usize>, shares: &[Leaf], sums: &mut Sums) {
        let (row_bytes, block_rows) = (self.layout.row_bytes(), self.block_rows());
        let covers_groups = self.tile >= group_leaves(self.batch);
        if let (Sums::Rows(sums), Some(half)) = (&mut *sums, self.halves(&rows, block_rows)) {
            for first in (0..half).step_by(block_rows) {
                self.pair([first, first + half], block_rows, &rows, shares, sums);
            }
            return;
        }
        for first in rows.clone().step_by(block_rows) {
            let count = block_rows.min(rows.end - first);
            let whole = count.next_multiple_of(GROUP_ROWS);
            for part in 0..self.layout.parts() {
                let start = self.batch.rows.start + first;
                let start = self.layout.range(part, start..start).start;
                let bytes = &self.bytes[start..];
                let reach = whole * row_bytes + SLACK;
                // Rows after the last point have shares of zero, unless the tile is smaller than a
                // group. In that case these rows are replaced by zeros. Bytes after the table's
                // last row are also replaced by zeros.
                let bytes: Cow<'_, [u8]> = if bytes.len() >= reach && (count == whole || covers_groups) {
                    bytes[..reach].into()
                } else {
                    let mut padded = vec![0; reach];
                    padded[..count * row_bytes].copy_from_slice(&bytes[..count * row_bytes]);
                    padded.into()
                };
                SHARE_FOLD.read(whole * row_bytes, self.bytes.len(), |ahead| {
                    let block = Block { bytes: &bytes, row_bytes, rows: whole, ahead };
                    self.block(block, shares, first - rows.start, part, sums);
                });
            }
        }
    }

    /// Returns the rows of each half of a tile if both halves are read at the same time. This
    /// applies if there is a single key with output bits, rows are narrow, and the halves are whole
    /// blocks and at least [`APART_BYTES`] apart.
    fn halves(&self, rows: &Range<usize>, block_rows: usize) -> Option<usize> {
        let (half, row_bytes) = (rows.len() / 2, self.layout.row_bytes());
        let alone = self.keys.len() == 1 && self.batch.domain.output() == OutputKind::Bit;
        let narrow = with_token!(self.found, Portable::<8>, lanes => is_narrow(lanes, row_bytes));
        // Vectors read up to [`SLACK`] bytes after a row; the table's last row has fewer bytes
        // after it.
        let end = self.batch.rows.start + rows.end;
        let inner = self.layout.range(self.layout.parts() - 1, end..end).end + SLACK <= self.bytes.len();
        (alone
            && narrow
            && inner
            && rows.len().is_multiple_of(2 * block_rows)
            && half * row_bytes >= APART_BYTES)
            .then_some(half)
    }

    /// Folds two blocks of a tile, which begin at the rows `firsts` of the tile, in every part.
    fn pair(
        &self,
        firsts: [usize; 2],
        block_rows: usize,
        rows: &Range<usize>,
        shares: &[Leaf],
        sums: &mut [u8],
    ) {
        let row_bytes = self.layout.row_bytes();
        let bits: &[u64] = bytemuck::cast_slice(shares.as_flattened());
        let bits = firsts.map(|first| &bits[first / GROUP_ROWS..]);
        for (part, sums) in sums.chunks_exact_mut(self.part_bytes()).enumerate() {
            let bytes = firsts.map(|first| {
                let start = self.batch.rows.start + rows.start + first;
                let start = self.layout.range(part, start..start).start;
                &self.bytes[start..][..block_rows * row_bytes + SLACK]
            });
            SHARE_FOLD_PAIRS.read(2 * block_rows * row_bytes, self.bytes.len(), |ahead| {
                let blocks = bytes.map(|bytes| Block { bytes, row_bytes, rows: block_rows, ahead });
                with_token!(self.found, Portable::<8>, lanes => lanes.run(XorMasked { blocks, bits, sums }));
            });
        }
    }

    /// Folds a block by the shares of the tile from row `skipped` on.
    fn block(&self, block: Block<'_>, shares: &[Leaf], skipped: usize, part: usize, sums: &mut Sums) {
        let sums = match sums {
            Sums::Rows(sums) => &mut sums[part * self.part_bytes()..][..self.part_bytes()],
            Sums::Sliced(products, sliced) => {
                let (bits, stride) = self.bits(shares, skipped);
                products.run(XorSliced { block, bits, stride, part, sliced });
                return;
            }
        };
        match self.batch.domain.output() {
            OutputKind::Bit => self.xor(block, shares, skipped, sums),
            OutputKind::U32 => self.sum::<u32>(block, shares, skipped, sums),
            _ => self.sum::<u64>(block, shares, skipped, sums),
        }
    }

    /// Returns the share bits of all keys from row `skipped` of the tile on, and the number of
    /// words from the bits of one key to those of the next.
    fn bits<'s>(&self, shares: &'s [Leaf], skipped: usize) -> (Bits<'s>, usize) {
        let bits = &bytemuck::cast_slice(shares.as_flattened())[skipped / GROUP_ROWS..];
        (bits, self.tile * size_of::<Leaf>() / size_of::<u64>())
    }

    fn xor(&self, block: Block<'_>, shares: &[Leaf], skipped: usize, sums: &mut [u8]) {
        let (bits, stride) = self.bits(shares, skipped);
        with_token!(self.found, Portable::<8>, lanes => {
            if self.keys.len() >= TABLE_KEYS {
                lanes.run(XorTables { block, bits, stride, sums });
            } else {
                let sums = sums.chunks_exact_mut(sum_bytes(block.row_bytes));
                for (key, sums) in sums.enumerate() {
                    lanes.run(XorMasked { blocks: [block], bits: [&bits[key * stride..]], sums });
                }
            }
        });
    }

    fn sum<W: Word>(&self, block: Block<'_>, shares: &[Leaf], skipped: usize, sums: &mut [u8]) {
        let shares = &bytemuck::cast_slice::<_, u8>(shares.as_flattened())[skipped * size_of::<W>()..];
        let sum: Sum<'_, W> =
            Sum { block, shares, stride: self.tile * size_of::<Leaf>(), sums, words: PhantomData };
        with_token!(self.found, Portable::<8>, lanes => lanes.run(sum));
    }

    /// Returns the sums of two pieces.
    fn add(&self, mut sums: Vec<u8>, others: &[u8]) -> Vec<u8> {
        self.batch.domain.output().add_to(&mut sums, others);
        sums
    }

    /// Appends the answers. The answer of a key is its sums of all parts, without the bytes after a
    /// row's end.
    fn write(&self, sums: &[u8], answers: &mut Vec<u8>) {
        let row_bytes = self.layout.row_bytes();
        for key in 0..self.keys.len() {
            for part in sums.chunks_exact(self.part_bytes()) {
                answers.extend_from_slice(&part[key * sum_bytes(row_bytes)..][..row_bytes]);
            }
        }
    }
}

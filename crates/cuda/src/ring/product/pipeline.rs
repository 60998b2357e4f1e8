//! Product of a batch as a graph: chunks of slots, whose transpositions run in parallel with other
//! chunks' products.
//!
//! The leaves of each chunk are transposed and multiplied, and the sums are transposed back, in
//! this order. This happens on one of a few lanes; a lane is a stream with room for one chunk. An
//! undivided product would fill the device. Products of chunks leave gaps for the transpositions of
//! other lanes (GPIR, section 5.2.2). Each kernel of a chunk reads the output of the previous
//! kernel from the L2 cache. The launches are recorded once for each number of queries; kernels
//! read the addresses of leaves and results from a table on the device.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use super::launch::{Kernels, Operands};
use super::shape::{MOST_QUERIES, Shape};
use crate::driver::{Buffer, Device, DriverError, Graph, Stream};
use crate::ring::primes::Prime;

/// Number of lanes of a pipeline.
const LANES: usize = 4;

/// Matrix of plaintext polynomials in the device's memory, with the kernels that multiply it.
#[derive(Debug)]
pub(super) struct Stored {
    pub shape: Shape,
    pub primes: Vec<Prime>,
    pub kernels: Kernels,
    pub matrix: Buffer<u32>,
}

/// Room and recorded launches for one matrix and any batch of up to 64 queries.
#[derive(Debug)]
pub(super) struct Pipeline {
    // Dropped before the buffers whose addresses they contain.
    graphs: Mutex<HashMap<usize, Graph>>,
    /// Stream on which graphs are recorded; the graphs run on the main stream.
    recorder: Stream,
    lanes: Vec<Lane>,
    /// Addresses of 64 queries' leaves, then of their results.
    addresses: Buffer<u64>,
}

/// Stream with room for a chunk.
#[derive(Debug)]
struct Lane {
    stream: Stream,
    leaves: Buffer<u32>,
    sums: Buffer<u32>,
}

impl Pipeline {
    /// Allocates room for products of this shape.
    pub fn new(device: &Arc<Device>, shape: Shape, limbs: usize) -> Result<Self, DriverError> {
        let (mut leaves, mut sums, mut chunks) = (0, 0, 0);
        for queries in 1..=MOST_QUERIES {
            let chunk = shape.chunk(queries);
            leaves = leaves.max(chunk.slots * shape.leaf_words(queries));
            sums = sums.max(chunk.slots * 2 * queries * chunk.rows);
            chunks = chunks.max(limbs * shape.degree / chunk.slots);
        }
        let lane =
            |_| Ok(Lane { stream: device.stream()?, leaves: device.hold(leaves)?, sums: device.hold(sums)? });
        Ok(Self {
            graphs: Mutex::default(),
            recorder: device.stream()?,
            lanes: (0..LANES.min(chunks)).map(lane).collect::<Result<_, DriverError>>()?,
            addresses: device.hold(2 * MOST_QUERIES)?,
        })
    }

    /// Queues the product of `plain`, the matrix of this pipeline, with up to 64 queries. Each
    /// query has the address of its leaves and the address of room for its results.
    pub fn run(
        &self,
        plain: &Stored,
        queries: impl ExactSizeIterator<Item = [u64; 2]>,
    ) -> Result<(), DriverError> {
        let (mut addresses, count) = ([0; 2 * MOST_QUERIES], queries.len());
        for (i, [leaves, results]) in queries.enumerate() {
            addresses[i] = leaves;
            addresses[MOST_QUERIES + i] = results;
        }
        let main = plain.matrix.device().main();
        // The lock is held until the launch is queued, so that no other caller overwrites the
        // addresses.
        let mut graphs = self.graphs.lock();
        let graph = match graphs.entry(count) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.record(plain, count)?),
        };
        main.upload(&addresses, &self.addresses.all())?;
        graph.launch(&main)
    }

    fn record(&self, plain: &Stored, queries: usize) -> Result<Graph, DriverError> {
        self.recorder.capture(|recorder| {
            for lane in &self.lanes {
                lane.stream.after(recorder)?;
            }
            self.queue(plain, queries)?;
            self.lanes.iter().try_for_each(|lane| recorder.after(&lane.stream))
        })
    }

    /// Queues all chunks on the lanes.
    fn queue(&self, plain: &Stored, queries: usize) -> Result<(), DriverError> {
        let (shape, kernels) = (plain.shape, &plain.kernels);
        let (chunk, words) = (shape.chunk(queries), plain.primes.len() * shape.degree);
        let block = shape.block(queries, plain.matrix.device().properties().shared_bytes);
        let firsts = (0..words).step_by(chunk.slots);
        for (first_slot, lane) in firsts.zip(self.lanes.iter().cycle()) {
            let mut operands = Operands {
                prime: plain.primes[first_slot / shape.degree],
                queries,
                plain: &plain.matrix,
                leaves: &lane.leaves,
                sums: &lane.sums,
                first_slot,
                first_row: 0,
            };
            kernels.transpose_columns(&lane.stream, shape, chunk, words, &self.addresses, &operands)?;
            for first_row in (0..shape.rows).step_by(chunk.rows) {
                operands.first_row = first_row;
                kernels.multiply(&lane.stream, shape, block, chunk, &operands)?;
                kernels.transpose_sums(&lane.stream, shape, chunk, words, &self.addresses, &operands)?;
            }
        }
        Ok(())
    }
}

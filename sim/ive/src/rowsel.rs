//! RowSel as products of matrices (section III-A): for each of the 4N residues of a polynomial, a
//! matrix of the database with D0 columns is multiplied by a matrix with two columns for each
//! query. The fold of a matrix of bytes is one such product.

use std::ops::Range;

use crate::arch::{Arch, Gemm, Scheme};
use crate::error::IveError;

/// Memory that holds the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// HBM on the package, whose channels also take the results.
    Hbm,
    /// LPDDR, beyond the package.
    Lpddr,
}

impl Residence {
    /// Returns HBM if it has room, or else LPDDR.
    ///
    /// # Errors
    /// [`IveError::Workload`] if neither has room.
    pub fn of(arch: &Arch, bytes: f64) -> Result<Self, IveError> {
        if bytes <= arch.hbm_bytes() {
            Ok(Self::Hbm)
        } else if bytes <= arch.lpddr_bytes() {
            Ok(Self::Lpddr)
        } else {
            let most = arch.hbm_bytes().max(arch.lpddr_bytes());
            Err(IveError::Workload {
                key: "gib",
                problem: format!("{bytes:.3e} bytes of the database on a system that holds {most:.3e}"),
                remedy: "give more systems, or more memory in the architecture's file".into(),
            })
        }
    }
}

/// Report of a core's work in RowSel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowSelReport {
    /// Cycles from the first to the last.
    pub cycles: f64,
    /// Cycles of the multiplying units, summed over all units of a core.
    pub multiplying: f64,
    /// Cycles of the core's channel to HBM.
    pub channel: f64,
}

impl RowSelReport {
    /// Returns the report of `count` repetitions of this work, one after another.
    pub fn times(self, count: f64) -> Self {
        let Self { cycles, multiplying, channel } = self;
        Self { cycles: cycles * count, multiplying: multiplying * count, channel: channel * count }
    }
}

/// Products of matrices: a matrix of the database, whose rows stream, times a matrix with the
/// columns of all queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Products {
    /// Number of products. If there are several products, they are divided among the cores; if
    /// there is one, its rows are divided.
    pub slices: u64,
    /// Rows of the database's matrix.
    pub rows: u64,
    /// Columns of the database's matrix.
    pub depth: u64,
    /// Columns of all queries.
    pub columns: u64,
    /// Bytes of an entry of the database.
    pub entry_bytes: f64,
    /// Bytes of an entry of the queries, and of the results.
    pub word_bytes: f64,
}

impl Products {
    /// Returns RowSel of a batch: a product for each residue of a polynomial.
    pub fn of_polynomials(scheme: &Scheme, rows: u64, depth: u64, queries: u64) -> Self {
        let word_bytes = scheme.word_bits as f64 / 8.0;
        let slices = scheme.primes * scheme.degree;
        Self { slices, rows, depth, columns: 2 * queries, entry_bytes: word_bytes, word_bytes }
    }

    /// Returns the bytes of the database.
    pub fn database_bytes(&self) -> f64 {
        self.slices as f64 * self.rows as f64 * self.depth as f64 * self.entry_bytes
    }

    /// Returns the bytes of the results.
    pub fn result_bytes(&self) -> f64 {
        self.slices as f64 * self.rows as f64 * self.columns as f64 * self.word_bytes
    }
}

/// Tiling of the busiest core's products: panels of rows stream through its buffer, slice by slice.
/// Rows that are too long for the buffer are divided into pieces, which follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Number of slices of the core.
    pub slices: u64,
    /// Number of panels that the buffer holds.
    pub buffered: usize,
    rows: u64,
    rows_of_panel: u64,
    depth: u64,
    pieces: u64,
}

/// Part of the database that an array takes at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Number of the slice on the core.
    pub slice: u64,
    /// Columns of the database.
    pub columns: Range<usize>,
    /// Rows of the database.
    pub rows: Range<usize>,
}

impl Tiling {
    /// Computes the tiling of products.
    pub fn of(arch: &Arch, products: &Products) -> Self {
        let (core, cores) = (arch.core, arch.chip.cores);
        let (slices, rows) = match products.slices {
            1 => (1, products.rows.div_ceil(cores)),
            slices => (slices.div_ceil(cores), products.rows),
        };
        let Products { depth, entry_bytes, .. } = *products;
        let buffer = core.database_buffer_kb as f64 * 1024.0;
        // The buffer holds at least two panels: one is in use while the next one is loaded.
        let longest = (buffer / 2.0 / (core.array_rows as f64 * entry_bytes)) as u64;
        let pieces = depth.div_ceil(longest.max(1));
        let panel_bytes = (core.array_rows * depth.div_ceil(pieces)) as f64 * entry_bytes;
        let buffered = ((buffer / panel_bytes) as usize).max(2);
        Self { slices, buffered, rows, rows_of_panel: core.array_rows, depth, pieces }
    }

    /// Returns the columns of a piece.
    fn piece(&self) -> u64 {
        self.depth.div_ceil(self.pieces)
    }

    /// Returns the number of panels of a slice.
    pub fn panels_of_slice(&self) -> u64 {
        self.pieces * self.rows.div_ceil(self.rows_of_panel)
    }

    /// Returns panel number `number`.
    pub fn panel(&self, number: u64) -> Panel {
        let (of_slice, of_piece) = (self.panels_of_slice(), self.rows.div_ceil(self.rows_of_panel));
        let part = |index: u64, size: u64, end: u64| {
            (index * size).min(end) as usize..((index + 1) * size).min(end) as usize
        };
        Panel {
            slice: number / of_slice,
            columns: part(number % of_slice / of_piece, self.piece(), self.depth),
            rows: part(number % of_piece, self.rows_of_panel, self.rows),
        }
    }

    /// Returns the place of the buffer that a panel fills.
    pub fn place(&self, number: u64) -> usize {
        number as usize % self.buffered
    }
}

/// Returns the multiply-adds a cycle of a core's element-wise unit in products of matrices: each
/// one reads the register file three times and writes it once.
pub fn element_wise_rate(arch: &Arch, word_bytes: f64) -> f64 {
    let ports = arch.core.register_file_bytes_per_cycle / (4.0 * word_bytes);
    ports.min(arch.core.element_wise_rate as f64)
}

/// Number of panels that are simulated one by one. For the others, the pace of the second half is
/// assumed.
const SIMULATED: u64 = 1 << 15;

/// Simulates the busiest core: panels of rows stream through the buffer, each array takes the next
/// panel, and results go to HBM, `result_bytes` of them over the core's channel.
pub fn multiply(arch: &Arch, products: &Products, result_bytes: f64, residence: Residence) -> RowSelReport {
    let core = arch.core;
    let Products { columns, entry_bytes, word_bytes, .. } = *products;
    let tiling = Tiling::of(arch, products);
    let depth = tiling.piece();
    let panels = (tiling.slices * tiling.panels_of_slice()) as f64;
    let panel_bytes = (core.array_rows * depth) as f64 * entry_bytes;
    let (units, compute) = match core.gemm {
        Gemm::Arrays => {
            // Filling and draining the array takes additional cycles.
            let tile = (depth + core.array_overhead) as f64;
            (core.ntt_units, tile * columns.div_ceil(core.array_columns) as f64)
        }
        Gemm::ElementWise => {
            (1, (core.array_rows * depth * columns) as f64 / element_wise_rate(arch, word_bytes))
        }
    };
    let hbm = arch.channel_bytes_per_cycle();
    let result_bytes = result_bytes / panels;
    // If the database is in LPDDR, HBM has no reads of the database between its writes, and so no
    // turnarounds.
    let (load, turn) = match residence {
        Residence::Hbm => (panel_bytes / hbm, result_bytes * arch.turnaround_cycles_per_byte()),
        Residence::Lpddr => (panel_bytes / arch.lpddr_bytes_per_cycle(), 0.0),
    };
    // The matrix of the queries is loaded once for each slice, and stays in the register file for
    // all of its panels.
    let query_bytes = (tiling.slices * tiling.pieces * depth * columns) as f64 * word_bytes / panels;
    let transfer = (result_bytes + query_bytes) / hbm;
    let stream = Stream { tiling, residence, units, compute, load, store: transfer + turn };
    let latency = arch.latency.memory as f64;
    let simulated = SIMULATED as f64;
    let cycles = if panels <= simulated {
        stream.cycles(panels as u64, latency)
    } else {
        let (half, whole) = (stream.cycles(SIMULATED / 2, latency), stream.cycles(SIMULATED, latency));
        whole + (whole - half) * (panels - simulated) / (simulated / 2.0)
    };
    let channel_load = if residence == Residence::Hbm { load } else { 0.0 };
    RowSelReport { cycles, multiplying: panels * compute, channel: panels * (channel_load + transfer) }
}

/// Stream of panels, with the cycles of each stage.
struct Stream {
    tiling: Tiling,
    residence: Residence,
    /// Number of arrays.
    units: u64,
    compute: f64,
    load: f64,
    store: f64,
}

impl Stream {
    /// Returns the cycles of `panels` panels.
    fn cycles(&self, panels: u64, latency: f64) -> f64 {
        let Self { tiling, residence, units, compute, load, store } = *self;
        let mut arrays = vec![0.0f64; units as usize];
        // Time at which the computation of each panel in the buffer ends.
        let mut computed = vec![0.0f64; tiling.buffered.min(panels as usize)];
        // Times at which the channels become free; with the database in HBM there is only one
        // channel.
        let (mut loading, mut storing) = (0.0f64, 0.0f64);
        for number in 0..panels {
            let place = tiling.place(number);
            if number >= tiling.buffered as u64 {
                // The panel that was in this place has been computed, and its results are written.
                storing = storing.max(computed[place]) + store;
            }
            loading = loading.max(computed[place]);
            match residence {
                Residence::Hbm => {
                    loading = loading.max(storing) + load;
                    storing = loading;
                }
                Residence::Lpddr => loading += load,
            }
            let array = &mut arrays[(number % units) as usize];
            *array = array.max(loading + latency) + compute;
            computed[place] = *array;
        }
        let end = arrays.into_iter().fold(0.0, f64::max);
        end.max(storing + computed.len() as f64 * store) + latency
    }
}

/// Simulates RowSel of a batch.
///
/// `rows` are the rows of the system, `queries` the queries of the batch, and `queries_of_channel`
/// the queries whose results the core's channel takes.
pub fn row_selection(
    arch: &Arch,
    rows: u64,
    queries: u64,
    queries_of_channel: f64,
    residence: Residence,
) -> RowSelReport {
    let products = Products::of_polynomials(&arch.scheme, rows, arch.scheme.first_dimension, queries);
    let result_bytes = queries_of_channel * rows as f64 * arch.scheme.ciphertext_bytes() as f64;
    multiply(arch, &products, result_bytes, residence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bound_by_arithmetic_or_by_memory() {
        let arch = Arch::ive().unwrap();
        let (rows, cores) = (1u64 << 12, arch.chip.cores as f64);
        let batch = row_selection(&arch, rows, 64, 64.0 / cores, Residence::Hbm);
        // Each polynomial takes two multiply-adds for each query and each of its 4N residues. The
        // overhead multiplies the cycles by (256 + 36) / 256.
        let products = 2.0 * (rows * 256) as f64 * 16384.0 * 64.0;
        let arithmetic = products / cores / 1024.0 * 292.0 / 256.0;
        assert!((batch.cycles / arithmetic - 1.0).abs() < 0.01, "{batch:?} {arithmetic}");
        assert!((batch.multiplying / 2.0 / arithmetic - 1.0).abs() < 0.01);

        let scan = (rows * 256) as f64 * 57344.0;
        for (residence, bytes_per_cycle) in [
            (Residence::Hbm, arch.channel_bytes_per_cycle()),
            (Residence::Lpddr, arch.lpddr_bytes_per_cycle()),
        ] {
            let one = row_selection(&arch, rows, 1, 1.0 / cores, residence);
            let memory = scan / cores / bytes_per_cycle;
            assert!((one.cycles / memory - 1.0).abs() < 0.02, "{one:?} {memory}");
        }
    }
}

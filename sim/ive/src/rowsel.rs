//! RowSel as products of matrices (section III-A): for each of the 4N residues of a polynomial a matrix of the database
//! with D0 columns, times one of the queries with two columns each. The fold of a matrix of bytes is one such product.

use crate::arch::{Arch, Gemm, Scheme};
use crate::error::IveError;

/// Where the database lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// On the package, on the channels that take the results too.
    Hbm,
    /// Beyond it.
    Lpddr,
}

impl Residence {
    /// On the package if there is room, or else beyond it.
    ///
    /// # Errors
    /// [`IveError::Workload`] if there is room in neither.
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

/// What a core did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowSelReport {
    /// From the first to the last cycle.
    pub cycles: f64,
    /// Cycles of the units that multiply, all of a core added up.
    pub multiplying: f64,
    /// Cycles of the core's channel to HBM.
    pub channel: f64,
}

/// Products of matrices: of the database, whose rows stream, with one that all queries have columns of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Products {
    /// How many; more than one are divided among the cores, the rows of one are.
    pub slices: u64,
    /// Rows of the database.
    pub rows: u64,
    /// Its columns.
    pub depth: u64,
    /// Columns of all queries.
    pub columns: u64,
    /// Bytes of an entry of the database.
    pub entry_bytes: f64,
    /// Bytes of an entry of the queries, and of the results.
    pub word_bytes: f64,
}

impl Products {
    /// RowSel of a batch: a product for each residue of a polynomial.
    pub fn of_polynomials(scheme: &Scheme, rows: u64, depth: u64, queries: u64) -> Self {
        let word_bytes = scheme.word_bits as f64 / 8.0;
        let slices = scheme.primes * scheme.degree;
        Self { slices, rows, depth, columns: 2 * queries, entry_bytes: word_bytes, word_bytes }
    }

    /// Bytes of the database.
    pub fn database_bytes(&self) -> f64 {
        (self.slices * self.rows * self.depth) as f64 * self.entry_bytes
    }

    /// Bytes of the results.
    pub fn result_bytes(&self) -> f64 {
        (self.slices * self.rows * self.columns) as f64 * self.word_bytes
    }
}

/// Multiply-adds a cycle of a core's element-wise unit that multiplies matrices: for each the register file is read
/// three times and written once.
pub fn element_wise_rate(arch: &Arch, word_bytes: f64) -> f64 {
    let ports = arch.core.register_file_bytes_per_cycle / (4.0 * word_bytes);
    ports.min(arch.core.element_wise_rate as f64)
}

/// Simulates the busiest core: panels of rows stream through the buffer, each array takes the next one, results go to
/// HBM; `result_bytes` of them over the core's channel.
pub fn multiply(arch: &Arch, products: &Products, result_bytes: f64, residence: Residence) -> RowSelReport {
    let (core, cores) = (arch.core, arch.chip.cores);
    let Products { depth, columns, entry_bytes, word_bytes, .. } = *products;
    let (slices, rows) = match products.slices {
        1 => (1, products.rows.div_ceil(cores)),
        slices => (slices.div_ceil(cores), products.rows),
    };
    let buffer = core.database_buffer_kb as f64 * 1024.0;
    // Long rows come in pieces, two of which the buffer holds.
    let longest = (buffer / 2.0 / (core.array_rows as f64 * entry_bytes)) as u64;
    let pieces = depth.div_ceil(longest.max(1));
    let depth = depth.div_ceil(pieces);
    let panels = slices * pieces * rows.div_ceil(core.array_rows);
    let panel_bytes = core.array_rows as f64 * depth as f64 * entry_bytes;
    let buffered = (buffer / panel_bytes) as usize;
    let (units, compute) = match core.gemm {
        Gemm::Arrays => {
            // What filling and draining the array adds.
            let tile = (depth + core.array_overhead) as f64;
            (core.ntt_units, tile * columns.div_ceil(core.array_columns) as f64)
        }
        Gemm::ElementWise => {
            (1, (core.array_rows * depth * columns) as f64 / element_wise_rate(arch, word_bytes))
        }
    };
    let hbm = arch.channel_bytes_per_cycle();
    let result_bytes = result_bytes / panels as f64;
    // With the database in LPDDR, HBM does nothing but write.
    let (load, turn) = match residence {
        Residence::Hbm => (panel_bytes / hbm, result_bytes * arch.turnaround_cycles_per_byte()),
        Residence::Lpddr => (panel_bytes / arch.lpddr_bytes_per_cycle(), 0.0),
    };
    // The matrix of the queries comes once for each slice, and stays in the register file for all of its panels.
    let query_bytes = (slices * pieces * depth * columns) as f64 * word_bytes / panels as f64;
    let transfer = (result_bytes + query_bytes) / hbm;
    let store = transfer + turn;
    let mut arrays = vec![0.0f64; units as usize];
    // Ends of the panels that are in the buffer.
    let mut computed = vec![0.0f64; buffered.max(2)];
    // When each channel is free: with the database in HBM they are one.
    let (mut loading, mut storing) = (0.0f64, 0.0f64);
    for panel in 0..panels as usize {
        let place = panel % computed.len();
        if panel >= computed.len() {
            // The panel that was here is over, and its results are written.
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
        let array = &mut arrays[panel % units as usize];
        *array = array.max(loading + arch.latency.memory as f64) + compute;
        computed[place] = *array;
    }
    let left = computed.len().min(panels as usize) as f64;
    let end = arrays.iter().copied().fold(0.0, f64::max);
    let channel_load = if residence == Residence::Hbm { load } else { 0.0 };
    RowSelReport {
        cycles: end.max(storing + left * store) + arch.latency.memory as f64,
        multiplying: panels as f64 * compute,
        channel: panels as f64 * (channel_load + transfer),
    }
}

/// RowSel of a batch.
///
/// `rows` are those of the system, `queries` those of the batch, `queries_of_channel` those whose results the core's
/// channel takes.
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
        // Two multiply-adds for each of 4N residues of each polynomial and query, with (256 + 36) / 256 of the cycles.
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

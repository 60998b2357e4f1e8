//! RowSel as products of matrices (section III-A): for each of the 4N residues of a polynomial a matrix of the database
//! with D0 columns, times one of the queries with two columns each.

use crate::arch::Arch;

/// Where the database lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// On the package, on the channels that take the results too.
    Hbm,
    /// Beyond it.
    Lpddr,
}

/// What a core did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowSelReport {
    /// From the first to the last cycle.
    pub cycles: f64,
    /// Cycles of the arrays, all of a core added up.
    pub array: f64,
    /// Cycles of the core's channel to HBM.
    pub channel: f64,
}

/// Simulates one core: panels of rows stream through the buffer, each array takes the next one, results go to HBM.
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
    let (scheme, core) = (arch.scheme, arch.core);
    let slices = (scheme.primes * scheme.degree).div_ceil(arch.chip.cores);
    let panels = slices * rows.div_ceil(core.array_rows);
    let word_bytes = scheme.word_bits as f64 / 8.0;
    let panel_bytes = core.array_rows as f64 * scheme.first_dimension as f64 * word_bytes;
    let buffered = (core.database_buffer_kb as f64 * 1024.0 / panel_bytes) as usize;
    // An output-stationary array is filled and drained over as many cycles as it has rows and columns.
    let tile = (scheme.first_dimension + core.array_rows + core.array_columns - 2) as f64;
    let compute = tile * (2 * queries).div_ceil(core.array_columns) as f64;
    let result_bytes = queries_of_channel * rows as f64 * scheme.ciphertext_bytes() as f64 / panels as f64;
    let hbm = arch.channel_bytes_per_cycle();
    let (load, store) = match residence {
        Residence::Hbm => (panel_bytes / hbm, result_bytes / hbm),
        Residence::Lpddr => (panel_bytes / arch.lpddr_bytes_per_cycle(), result_bytes / hbm),
    };
    let mut arrays = vec![0.0f64; core.ntt_units as usize];
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
        let array = &mut arrays[panel % core.ntt_units as usize];
        *array = array.max(loading + arch.latency.memory as f64) + compute;
        computed[place] = *array;
    }
    let left = computed.len().min(panels as usize) as f64;
    let end = arrays.iter().copied().fold(0.0, f64::max);
    let channel_load = if residence == Residence::Hbm { load } else { 0.0 };
    RowSelReport {
        cycles: end.max(storing + left * store) + arch.latency.memory as f64,
        array: panels as f64 * compute,
        channel: panels as f64 * (channel_load + store),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bound_by_arithmetic_or_by_memory() {
        let arch = Arch::ive().unwrap();
        let (rows, cores) = (1u64 << 12, arch.chip.cores as f64);
        let batch = row_selection(&arch, rows, 64, 64.0 / cores, Residence::Hbm);
        // Two multiply-adds for each of 4N residues of each polynomial and query, with (256 + 46) / 256 of the cycles.
        let products = 2.0 * (rows * 256) as f64 * 16384.0 * 64.0;
        let arithmetic = products / cores / 1024.0 * 302.0 / 256.0;
        assert!((batch.cycles / arithmetic - 1.0).abs() < 0.01, "{batch:?} {arithmetic}");
        assert!((batch.array / 2.0 / arithmetic - 1.0).abs() < 0.01);

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

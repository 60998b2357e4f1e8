//! RowSel on words: panels pass through the database's buffer, and arrays add up tiles, in the
//! order whose time [`crate::rowsel`] computes.

use spirea_math::Ring;

use crate::arch::Arch;
use crate::rowsel::{Products, Tiling};

/// Multiplies rows of polynomials by columns of polynomials, all as values (NTT form), and returns
/// the polynomials of each column. Rows shorter than others are padded with zeros.
pub fn multiply(
    arch: &Arch,
    ring: &Ring,
    rows: &[Vec<Vec<u32>>],
    columns: &[Vec<&[u32]>],
) -> Vec<Vec<Vec<u32>>> {
    let depth = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut results = vec![vec![ring.zero(); rows.len()]; columns.len()];
    if depth == 0 || columns.is_empty() {
        return results;
    }
    let word_bytes = arch.scheme.word_bits as f64 / 8.0;
    let products = Products {
        slices: ring.words() as u64,
        rows: rows.len() as u64,
        depth: depth as u64,
        columns: columns.len() as u64,
        entry_bytes: word_bytes,
        word_bytes,
    };
    let tiling = Tiling::of(arch, &products);
    for core in 0..arch.chip.cores {
        // The last cores may have fewer slices.
        let slices = tiling.slices.min(products.slices.saturating_sub(core * tiling.slices));
        let panels = slices * tiling.panels_of_slice();
        let mut buffer: Vec<Vec<u32>> = vec![Vec::new(); tiling.buffered];
        let mut loaded = 0;
        for number in 0..panels {
            // Loads run ahead as far as the buffer has places.
            while loaded < panels.min(number + tiling.buffered as u64) {
                let panel = tiling.panel(loaded);
                let word = (core * tiling.slices + panel.slice) as usize;
                let of_row = |row: &Vec<Vec<u32>>| -> Vec<u32> {
                    panel.columns.clone().map(|column| row.get(column).map_or(0, |it| it[word])).collect()
                };
                buffer[tiling.place(loaded)] = rows[panel.rows].iter().flat_map(of_row).collect();
                loaded += 1;
            }
            let panel = tiling.panel(number);
            let word = (core * tiling.slices + panel.slice) as usize;
            let prime = ring.limbs()[word / ring.degree()].prime().value().into();
            let width = arch.core.array_columns as usize;
            for (tile, results) in columns.chunks(width).zip(results.chunks_mut(width)) {
                let words: Vec<Vec<u32>> = tile
                    .iter()
                    .map(|column| {
                        column[panel.columns.clone()].iter().map(|polynomial| polynomial[word]).collect()
                    })
                    .collect();
                let sums = output_stationary(&buffer[tiling.place(number)], &words, prime);
                for (row, sums) in panel.rows.clone().zip(sums) {
                    for (column, sum) in results.iter_mut().zip(sums) {
                        // Adds to the sums of earlier pieces of a long row.
                        let so_far = &mut column[row][word];
                        *so_far = ((u64::from(*so_far) + sum) % prime) as u32;
                    }
                }
            }
        }
    }
    results
}

/// Returns the cells of an array when it is drained, row by row. In each step, a word of every row
/// of the panel is multiplied by a word of every column.
fn output_stationary(panel: &[u32], columns: &[Vec<u32>], prime: u64) -> Vec<Vec<u64>> {
    let depth = columns[0].len();
    let mut cells = vec![vec![0u64; columns.len()]; panel.len() / depth];
    for step in 0..depth {
        for (row, cells) in cells.iter_mut().enumerate() {
            let entry = u64::from(panel[row * depth + step]);
            for (cell, column) in cells.iter_mut().zip(columns) {
                *cell = (*cell + entry * u64::from(column[step])) % prime;
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use spirea_math::Modulus;

    use super::*;

    #[test]
    fn tiles_of_every_size_add_up_to_plain_sums() {
        let primes = [(1 << 27) + (1 << 15) + 1, (1 << 27) + (1 << 17) + 1];
        let ring = Ring::new(64, &primes.map(Modulus::new));
        let word = |seed: usize| (seed as u32).wrapping_mul(2_654_435_761) >> 6;
        let polynomial =
            |seed: usize| -> Vec<u32> { (0..ring.words()).map(|i| word(seed * 1009 + i)).collect() };
        // The last row is shorter.
        let rows: Vec<Vec<_>> = (0..5)
            .map(|row| (0..7 - row / 4).map(|column| polynomial(10 * row + column)).collect())
            .collect();
        let columns: Vec<Vec<_>> =
            (0..6).map(|column| (0..7).map(|i| polynomial(100 + 10 * column + i)).collect()).collect();
        let views: Vec<Vec<&[u32]>> =
            columns.iter().map(|column| column.iter().map(Vec::as_slice).collect()).collect();
        let plain: Vec<Vec<Vec<u32>>> = columns
            .iter()
            .map(|column| {
                let of_row = |row: &Vec<Vec<u32>>| {
                    let mut sum = ring.zero();
                    row.iter().zip(column).for_each(|(a, b)| ring.mul_add(&mut sum, a, b));
                    sum
                };
                rows.iter().map(of_row).collect()
            })
            .collect();
        let ive = Arch::ive().unwrap();
        // Panels have two rows, and tiles have four columns. The cores have equal, then unequal
        // numbers of slices.
        for (database_buffer_kb, cores) in [(448, 32), (1, 3)] {
            let mut arch = ive.clone();
            (arch.core.array_rows, arch.core.array_columns) = (2, 4);
            (arch.core.database_buffer_kb, arch.chip.cores) = (database_buffer_kb, cores);
            assert!(multiply(&arch, &ring, &rows, &views) == plain, "{database_buffer_kb}");
        }
        let mut pieces = ive;
        pieces.core.array_rows = 64;
        pieces.core.database_buffer_kb = 1;
        assert!(multiply(&pieces, &ring, &rows, &views) == plain);
    }
}

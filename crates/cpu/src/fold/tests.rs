//! The tile and the driver over lanes that need no particular processor: plain lanes, and a model
//! of `vpdpbusd` in the shape of the AVX-512 kernel.

use spirea_backend::PanelLayout;

use super::tile::{Tile, fold_tile, fold_up_to_3, read};
use super::{Microkernel, Quad, RowLanes, driver};
use crate::isa::Portable;
use crate::oracle::{Fill, matrix, naive_scalar_fold, words};

/// 16 lanes of four unsigned bytes, multiplied by signed ones.
#[derive(Clone, Copy)]
struct Vpdpbusd;

impl RowLanes for Vpdpbusd {
    type Vector = [u32; 16];
    const LANES: usize = 16;
    const PHASES: usize = 1;

    fn zero(self) -> [u32; 16] {
        [0; 16]
    }

    fn columns(self, quad: [u32; 16], _phase: usize) -> [u32; 16] {
        quad
    }

    fn splat(self, word: u32) -> [u32; 16] {
        [word; 16]
    }

    fn multiply_add(self, sums: [u32; 16], columns: [u32; 16], digits: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|lane| {
            let (columns, digits) = (columns[lane].to_le_bytes(), digits[lane].to_le_bytes());
            let products = columns.iter().zip(digits).map(|(&c, d)| i32::from(c) * i32::from(d as i8));
            sums[lane].wrapping_add(products.sum::<i32>() as u32)
        })
    }

    fn join<const BITS: i32>(self, low: [u32; 16], high: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|lane| low[lane].wrapping_add(high[lane] << BITS))
    }
}

impl Microkernel for Vpdpbusd {
    const TILE: usize = 3;

    fn fold(self, tile: Tile<'_, 1>) {
        fold_up_to_3::<_, 2, 2>(self, tile);
    }

    fn fold_pair(self, tile: Tile<'_, 2>) {
        fold_tile::<_, 2, 2, 1, 1>(self, tile);
    }

    fn read(self, quads: &[Quad], ahead: usize) -> u32 {
        read(self, quads, ahead)
    }
}

fn agrees<K: Microkernel>(kernel: K) {
    // The last shape has panels far enough apart for pairs, and one panel without a partner.
    for (rows, columns) in [(1, 1), (33, 4), (64, 100), (200, 604), (544, 16_388)] {
        let layout = PanelLayout::covering(rows, columns).unwrap();
        for batch in [1, 2, 3, 4, 5, 7] {
            let bytes = matrix(layout, if batch % 2 == 0 { Fill::Ends } else { Fill::Random }, batch as u64);
            let queries = words(layout.columns() * batch, 2, rows as u64);
            let answers = driver::scalar_fold(kernel, bytes.as_chunks().0, layout, &queries);
            assert!(answers == naive_scalar_fold(layout, &bytes, &queries), "{rows} x {columns}, {batch}");
        }
    }
}

#[test]
fn plain_lanes_agree_with_the_definition() {
    agrees(Portable::<4>);
    agrees(Portable::<8>);
}

#[test]
fn the_model_of_vpdpbusd_agrees_with_the_definition() {
    agrees(Vpdpbusd);
}

#[test]
fn reading_adds_every_word() {
    let layout = PanelLayout::covering(64, 20).unwrap();
    let bytes = matrix(layout, Fill::Random, 1);
    let sum = bytes.as_chunks().0.iter().fold(0u32, |sum, &word| sum.wrapping_add(u32::from_le_bytes(word)));
    assert_eq!(read(Vpdpbusd, bytes.as_chunks().0, 0), sum);
}

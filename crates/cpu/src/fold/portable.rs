//! Lanes as arrays: the portable kernel of machines other than x86-64.
//!
//! One column and the whole word of the query at a time: no digits at all.

use super::tile::{Tile, fold_tile, read, tile_from_cache};
use super::{Microkernel, PanelSums, Quad, RowLanes};
use crate::isa::Portable;

impl<const N: usize> RowLanes for Portable<N> {
    type Vector = [u32; N];
    const LANES: usize = N;
    const PHASES: usize = 4;

    #[inline(always)]
    fn zero(self) -> [u32; N] {
        [0; N]
    }

    #[inline(always)]
    fn load(self, quad: &Quad, first_row: usize, phase: usize) -> [u32; N] {
        std::array::from_fn(|lane| u32::from(quad[4 * (first_row + lane) + phase]))
    }

    #[inline(always)]
    fn splat(self, word: u32) -> [u32; N] {
        [word; N]
    }

    #[inline(always)]
    fn multiply_add(self, sums: [u32; N], columns: [u32; N], digits: [u32; N]) -> [u32; N] {
        std::array::from_fn(|lane| sums[lane].wrapping_add(columns[lane].wrapping_mul(digits[lane])))
    }

    #[inline(always)]
    fn join<const BITS: i32>(self, low: [u32; N], high: [u32; N]) -> [u32; N] {
        std::array::from_fn(|lane| low[lane].wrapping_add(high[lane] << BITS))
    }

    #[inline(always)]
    fn add_to(self, vector: [u32; N], sums: &mut PanelSums, first_row: usize) {
        for (sum, lane) in sums[first_row..first_row + N].iter_mut().zip(vector) {
            *sum = sum.wrapping_add(lane);
        }
    }
}

impl<const N: usize> Microkernel for Portable<N> {
    const TILE: usize = 2;

    fn fold(self, tile: Tile<'_>) {
        match tile.sums.len() {
            1 => fold_tile::<_, 4, 1, 1>(self, tile),
            2 => fold_tile::<_, 2, 2, 1>(self, tile),
            _ => unreachable!("a tile has 1 or 2 queries"),
        }
    }

    fn read(self, quads: &[Quad], ahead: usize) -> u32 {
        read(self, quads, ahead)
    }

    fn multiply_adds(self, rounds: u64) -> u64 {
        tile_from_cache(self, rounds)
    }
}

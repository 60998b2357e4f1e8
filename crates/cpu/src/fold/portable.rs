//! Lanes as arrays, for the portable kernel of machines other than x86-64.
//!
//! Each step takes one column and the whole word of the query, without digits.

use super::tile::{Tile, fold_tile, read};
use super::{Microkernel, Quad, RowLanes};
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
    fn columns(self, quad: [u32; N], phase: usize) -> [u32; N] {
        quad.map(|columns| columns >> (8 * phase) & 0xFF)
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
}

impl<const N: usize> Microkernel for Portable<N> {
    const TILE: usize = 2;

    fn fold(self, tile: Tile<'_, 1>) {
        match tile.sums.len() {
            1 => fold_tile::<_, 1, 4, 1, 1>(self, tile),
            2 => fold_tile::<_, 1, 2, 2, 1>(self, tile),
            _ => unreachable!("a tile has 1 or 2 queries"),
        }
    }

    fn read(self, quads: &[Quad], ahead: usize) -> u32 {
        read(self, quads, ahead)
    }
}

//! Assignment of keys to the queries of a pass.

use std::ops::Range;

use parking_lot::Mutex;
use spirea_backend::{Batch, ShareFold};
use spirea_dpf::{Key, Leaf};

use crate::selectors::{Selection, place};
use crate::shape::GROUP;
use crate::table::Table;

/// Keys of several folds, and the selections made from them.
pub(crate) struct Round {
    /// All keys, ordered by selection. Selections are completed approximately in this order.
    pub keys: Vec<Key>,
    /// Selections made from the keys.
    pub selections: Selections,
}

/// Selections that are being assembled from the shares of their keys.
pub(crate) struct Selections {
    rows: usize,
    /// For each key its selection, the row of its first point, and its number of points.
    keys: Vec<(usize, usize, usize)>,
    /// Selections that are not complete yet, each with its number of missing keys.
    open: Vec<Mutex<Option<(Selection, usize)>>>,
}

/// Key, as (fold, key), and the blocks that contain its rows.
type Taken = ((usize, usize), Range<usize>);

impl Round {
    /// Assigns the keys of folds to as few selections as possible. The keys of a selection have no
    /// common block: folds are taken in the order of their rows, and each key joins the first
    /// selection that is free again.
    pub fn new(table: &Table, batches: &[Batch], folds: &[ShareFold<'_>]) -> Self {
        let before: Vec<usize> = folds
            .iter()
            .scan(0, |before, fold| {
                let first = *before;
                *before += fold.keys.len();
                Some(first)
            })
            .collect();
        let mut order: Vec<usize> = (0..folds.len()).collect();
        order.sort_by_key(|&fold| batches[fold].rows.start);
        let mut selections: Vec<Vec<Taken>> = Vec::new();
        for fold in order {
            let rows = &batches[fold].rows;
            let blocks = rows.start / table.block_records..rows.end.div_ceil(table.block_records);
            let mut free = 0;
            for key in 0..folds[fold].keys.len() {
                let is_free =
                    |taken: &Vec<Taken>| taken.last().is_none_or(|(_, last)| last.end <= blocks.start);
                free += selections[free..].iter().take_while(|taken| !is_free(taken)).count();
                if free == selections.len() {
                    selections.push(Vec::new());
                }
                selections[free].push(((fold, key), blocks.clone()));
            }
        }
        let mut round = Self {
            keys: Vec::new(),
            selections: Selections { rows: table.layout.rows(), keys: Vec::new(), open: Vec::new() },
        };
        for (number, taken) in selections.into_iter().enumerate() {
            let missing = taken.len();
            let mut answers = Vec::with_capacity(missing);
            for ((fold, key), blocks) in taken {
                let rows = &batches[fold].rows;
                round.keys.push(folds[fold].keys[key].clone());
                round.selections.keys.push((number, rows.start, rows.len()));
                answers.push((blocks, before[fold] + key));
            }
            let selection = Selection { bits: Vec::new(), answers };
            round.selections.open.push(Mutex::new(Some((selection, missing))));
        }
        round
    }
}

impl Selections {
    /// Returns the number of selections.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// Adds the shares of a key. Returns its selection if that is complete now.
    pub fn add(&self, key: usize, leaves: &[Leaf]) -> Option<Selection> {
        let (number, first_row, points) = self.keys[key];
        let mut open = self.open[number].lock();
        let (selection, missing) = open.as_mut()?;
        // The bits are allocated with the first share, so that later selections take no memory yet.
        selection.bits.resize(self.rows.div_ceil(GROUP), 0);
        place(leaves, points, first_row, &mut selection.bits);
        *missing -= 1;
        if *missing > 0 { None } else { open.take().map(|(selection, _)| selection) }
    }
}

//! A backend that notes how long each step of another takes: the protocols run as they are.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use spirea_dpf::{Key, PrfKind};
use spirea_math::{Expansion, Gadget, Ring};

use crate::{
    Backend, BackendError, EvaluationKeys, FillPolynomial, FoldedBlocks, PanelLayout, Residence, RingBackend,
    RingMatrix, RowLayout, ShareBackend, SwitchedBits,
};

/// How long steps took, by the names that the documentation of steps gives them. Steps of several threads are added up.
#[derive(Debug, Default)]
pub struct StepTimes(Mutex<BTreeMap<&'static str, Duration>>);

impl StepTimes {
    /// The time of each step since this was last asked.
    pub fn take(&self) -> BTreeMap<&'static str, Duration> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, step: &'static str, time: Duration) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *times.entry(step).or_default() += time;
    }
}

/// A backend with a clock. A step is over when the inner backend returns: one on a device that works on then has its
/// time in the step that waits for it.
pub struct Timed<B> {
    inner: Arc<B>,
    times: Arc<StepTimes>,
}

impl<B> Timed<B> {
    /// Times `inner`.
    pub fn new(inner: Arc<B>) -> Self {
        Self { inner, times: Arc::default() }
    }

    /// How long its steps take.
    pub fn times(&self) -> &Arc<StepTimes> {
        &self.times
    }

    fn time<T>(&self, step: &'static str, run: impl FnOnce(&B) -> T) -> T {
        let started = Instant::now();
        let result = run(&self.inner);
        self.times.add(step, started.elapsed());
        result
    }
}

impl<B: Backend> Backend for Timed<B> {
    type Matrix = B::Matrix;
    type Folded = B::Folded;

    fn name(&self) -> String {
        self.inner.name()
    }

    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<B::Matrix, BackendError> {
        self.time("reinterpret", |inner| inner.upload(layout, bytes))
    }

    fn open(
        &self,
        layout: PanelLayout,
        path: &Path,
        residence: Residence,
    ) -> Result<B::Matrix, BackendError> {
        self.time("open", |inner| inner.open(layout, path, residence))
    }

    fn layout(&self, matrix: &B::Matrix) -> PanelLayout {
        self.inner.layout(matrix)
    }

    fn scalar_fold(&self, matrix: &B::Matrix, queries: &[u32]) -> Result<B::Folded, BackendError> {
        self.time("scalar_fold", |inner| inner.scalar_fold(matrix, queries))
    }

    fn words(&self, folded: B::Folded) -> Result<Vec<u32>, BackendError> {
        self.time("scalar_fold", |inner| inner.words(folded))
    }

    fn module_fold(&self, matrix: &B::Matrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
        self.time("module_fold", |inner| inner.module_fold(matrix, a))
    }
}

impl<B: ShareBackend> ShareBackend for Timed<B> {
    type Rows = B::Rows;

    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<B::Rows, BackendError> {
        self.inner.upload_rows(layout, bytes)
    }

    fn open_rows(
        &self,
        layout: RowLayout,
        path: &Path,
        residence: Residence,
    ) -> Result<B::Rows, BackendError> {
        self.time("open", |inner| inner.open_rows(layout, path, residence))
    }

    fn row_layout(&self, rows: &B::Rows) -> RowLayout {
        self.inner.row_layout(rows)
    }

    fn share_fold(
        &self,
        rows: &B::Rows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError> {
        self.time("share_fold", |inner| inner.share_fold(rows, first_row, prf, keys))
    }
}

impl<B: RingBackend> RingBackend for Timed<B> {
    type Tables = B::Tables;
    type Keys = B::Keys;
    type Leaves = B::Leaves;
    type Plain = B::Plain;
    type Ciphertexts = B::Ciphertexts;
    type Selectors = B::Selectors;
    type Columns = B::Columns;

    fn tables(&self, ring: &Arc<Ring>) -> Result<B::Tables, BackendError> {
        self.inner.tables(ring)
    }

    fn keys(&self, tables: &B::Tables, keys: EvaluationKeys<'_>) -> Result<B::Keys, BackendError> {
        self.time("keys", |inner| inner.keys(tables, keys))
    }

    fn encode(
        &self,
        tables: &B::Tables,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<B::Plain, BackendError> {
        self.time("encode", |inner| inner.encode(tables, rows, columns, fill))
    }

    fn expand(
        &self,
        tables: &B::Tables,
        expansion: Expansion,
        queries: &[(&B::Keys, &[u32])],
    ) -> Result<Vec<B::Leaves>, BackendError> {
        self.time("expand", |inner| inner.expand(tables, expansion, queries))
    }

    fn poly_fold(
        &self,
        tables: &B::Tables,
        plain: &B::Plain,
        leaves: &[&B::Leaves],
    ) -> Result<Vec<B::Ciphertexts>, BackendError> {
        self.time("poly_fold", |inner| inner.poly_fold(tables, plain, leaves))
    }

    fn add_bodies(
        &self,
        tables: &B::Tables,
        ciphertexts: &mut B::Ciphertexts,
        folded: &B::Folded,
        words: Range<usize>,
        bits: u32,
    ) -> Result<(), BackendError> {
        self.time("add_bodies", |inner| inner.add_bodies(tables, ciphertexts, folded, words, bits))
    }

    fn selectors(
        &self,
        tables: &B::Tables,
        keys: &B::Keys,
        leaves: &B::Leaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<B::Selectors, BackendError> {
        self.time("selectors", |inner| inner.selectors(tables, keys, leaves, first, depth, gadget))
    }

    fn rgsw_fold(
        &self,
        tables: &B::Tables,
        selectors: &B::Selectors,
        ciphertexts: B::Ciphertexts,
    ) -> Result<B::Ciphertexts, BackendError> {
        self.time("rgsw_fold", |inner| inner.rgsw_fold(tables, selectors, ciphertexts))
    }

    fn mod_switch(
        &self,
        tables: &B::Tables,
        ciphertexts: &[&B::Ciphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        self.time("mod_switch", |inner| inner.mod_switch(tables, ciphertexts, bits))
    }

    fn reinterpret(
        &self,
        tables: &B::Tables,
        ciphertexts: &B::Ciphertexts,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<B::Matrix, BackendError> {
        self.time("reinterpret", |inner| inner.reinterpret(tables, ciphertexts, bits, layout))
    }

    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<B::Columns, BackendError> {
        self.inner.columns(layout, words)
    }

    fn encode_fold(
        &self,
        tables: &B::Tables,
        matrix: &B::Matrix,
        columns: &B::Columns,
        folded: FoldedBlocks,
    ) -> Result<B::Plain, BackendError> {
        self.time("encode_fold", |inner| inner.encode_fold(tables, matrix, columns, folded))
    }
}

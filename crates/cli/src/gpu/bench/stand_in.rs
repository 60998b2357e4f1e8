//! The device with databases of its own making: servers open what no file holds.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use spirea_backend::{
    Backend, BackendError, EvaluationKeys, FillPolynomial, FoldedBlocks, PanelLayout, Residence, RingBackend,
    RingMatrix, RowLayout, ShareBackend, SwitchedBits,
};
use spirea_cuda::CudaBackend;
use spirea_dpf::{Key, PrfKind};
use spirea_math::{Expansion, Gadget, Ring};

/// What a server is at.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// Databases are opened: their contents are random bytes instead of those of files.
    Opening,
    /// Queries are answered.
    Serving,
    /// Queries are answered and every step is waited for, so that it can be timed by itself.
    ByStep,
}

/// A device that fills every database that it opens with random bytes. What a server takes from its files is their
/// lengths.
pub struct StandIn {
    cuda: Arc<CudaBackend>,
    stage: Mutex<Stage>,
}

impl StandIn {
    /// That is going to open databases.
    pub fn new(cuda: Arc<CudaBackend>) -> Self {
        Self { cuda, stage: Mutex::new(Stage::Opening) }
    }

    /// All databases are opened.
    pub fn serve(&self) {
        self.enter(Stage::Serving);
    }

    /// Waits for each step from now on.
    pub fn wait_for_steps(&self) {
        self.enter(Stage::ByStep);
    }

    fn enter(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> Stage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step, over when this returns if steps are waited for.
    fn step<T>(&self, result: Result<T, BackendError>) -> Result<T, BackendError> {
        if self.stage() == Stage::ByStep {
            self.cuda.device().main().synchronize()?;
        }
        result
    }
}

type Cuda = CudaBackend;

impl Backend for StandIn {
    type Matrix = <Cuda as Backend>::Matrix;
    type Folded = <Cuda as Backend>::Folded;

    fn name(&self) -> String {
        self.cuda.name()
    }

    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<Self::Matrix, BackendError> {
        self.step(self.cuda.upload(layout, bytes))
    }

    fn open(&self, layout: PanelLayout, _: &Path, _: Residence) -> Result<Self::Matrix, BackendError> {
        self.cuda.random_matrix(layout, 1)
    }

    fn layout(&self, matrix: &Self::Matrix) -> PanelLayout {
        self.cuda.layout(matrix)
    }

    fn scalar_fold(&self, matrix: &Self::Matrix, queries: &[u32]) -> Result<Self::Folded, BackendError> {
        self.step(self.cuda.scalar_fold(matrix, queries))
    }

    fn words(&self, folded: Self::Folded) -> Result<Vec<u32>, BackendError> {
        self.cuda.words(folded)
    }

    fn module_fold(&self, matrix: &Self::Matrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
        self.step(self.cuda.module_fold(matrix, a))
    }
}

impl ShareBackend for StandIn {
    type Rows = <Cuda as ShareBackend>::Rows;

    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<Self::Rows, BackendError> {
        self.cuda.upload_rows(layout, bytes)
    }

    fn open_rows(&self, layout: RowLayout, _: &Path, _: Residence) -> Result<Self::Rows, BackendError> {
        self.cuda.random_rows(layout, 2)
    }

    fn row_layout(&self, rows: &Self::Rows) -> RowLayout {
        self.cuda.row_layout(rows)
    }

    fn share_fold(
        &self,
        rows: &Self::Rows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError> {
        self.step(self.cuda.share_fold(rows, first_row, prf, keys))
    }
}

impl RingBackend for StandIn {
    type Tables = <Cuda as RingBackend>::Tables;
    type Keys = <Cuda as RingBackend>::Keys;
    type Leaves = <Cuda as RingBackend>::Leaves;
    type Plain = <Cuda as RingBackend>::Plain;
    type Ciphertexts = <Cuda as RingBackend>::Ciphertexts;
    type Selectors = <Cuda as RingBackend>::Selectors;
    type Columns = <Cuda as RingBackend>::Columns;

    fn tables(&self, ring: &Arc<Ring>) -> Result<Self::Tables, BackendError> {
        self.cuda.tables(ring)
    }

    fn keys(&self, tables: &Self::Tables, keys: EvaluationKeys<'_>) -> Result<Self::Keys, BackendError> {
        self.cuda.keys(tables, keys)
    }

    fn encode(
        &self,
        tables: &Self::Tables,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<Self::Plain, BackendError> {
        if self.stage() != Stage::Opening {
            return self.step(self.cuda.encode(tables, rows, columns, fill));
        }
        let random = |row: usize, column: usize, coefficients: &mut [i32]| {
            let mut state = (row * columns + column) as u32;
            for coefficient in coefficients {
                state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                *coefficient = (state >> 16) as i16 as i32;
            }
        };
        self.cuda.encode(tables, rows, columns, &random)
    }

    fn expand(
        &self,
        tables: &Self::Tables,
        expansion: Expansion,
        queries: &[(&Self::Keys, &[u32])],
    ) -> Result<Vec<Self::Leaves>, BackendError> {
        self.step(self.cuda.expand(tables, expansion, queries))
    }

    fn poly_fold(
        &self,
        tables: &Self::Tables,
        plain: &Self::Plain,
        leaves: &[&Self::Leaves],
    ) -> Result<Vec<Self::Ciphertexts>, BackendError> {
        self.step(self.cuda.poly_fold(tables, plain, leaves))
    }

    fn add_bodies(
        &self,
        tables: &Self::Tables,
        ciphertexts: &mut Self::Ciphertexts,
        folded: &Self::Folded,
        words: Range<usize>,
        bits: u32,
    ) -> Result<(), BackendError> {
        self.step(self.cuda.add_bodies(tables, ciphertexts, folded, words, bits))
    }

    fn selectors(
        &self,
        tables: &Self::Tables,
        keys: &Self::Keys,
        leaves: &Self::Leaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<Self::Selectors, BackendError> {
        self.step(self.cuda.selectors(tables, keys, leaves, first, depth, gadget))
    }

    fn rgsw_fold(
        &self,
        tables: &Self::Tables,
        selectors: &Self::Selectors,
        ciphertexts: Self::Ciphertexts,
    ) -> Result<Self::Ciphertexts, BackendError> {
        self.step(self.cuda.rgsw_fold(tables, selectors, ciphertexts))
    }

    fn mod_switch(
        &self,
        tables: &Self::Tables,
        ciphertexts: &[&Self::Ciphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        self.step(self.cuda.mod_switch(tables, ciphertexts, bits))
    }

    fn reinterpret(
        &self,
        tables: &Self::Tables,
        ciphertexts: &Self::Ciphertexts,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<Self::Matrix, BackendError> {
        self.step(self.cuda.reinterpret(tables, ciphertexts, bits, layout))
    }

    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<Self::Columns, BackendError> {
        self.cuda.columns(layout, words)
    }

    fn encode_fold(
        &self,
        tables: &Self::Tables,
        matrix: &Self::Matrix,
        columns: &Self::Columns,
        folded: FoldedBlocks,
    ) -> Result<Self::Plain, BackendError> {
        self.step(self.cuda.encode_fold(tables, matrix, columns, folded))
    }
}

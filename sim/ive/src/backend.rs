//! Backend that executes the lowered graphs: protocols run on the simulated machine unchanged.
//! Their answers agree with those of other backends byte for byte, unless a schedule is wrong.
//!
//! Steps without a schedule that the machine's protocols need are computed by the oracle of all
//! backends: folds of bytes, adding bodies, switching moduli. Other operations are refused.

use std::sync::{Arc, LazyLock};

use spirea_backend::{
    Backend, BackendError, BackendId, Bodies, EvaluationKeys, FileRows, FillPolynomial, FoldedBlocks,
    NaiveBackend, NaiveMatrix, PanelLayout, RingBackend, RingMatrix, SwitchedBits, check_batches,
    check_ciphertexts, check_rotations, whole_halves,
};
use spirea_math::{Expansion, Gadget, Ring, Rotations};

use crate::arch::Arch;
use crate::error::IveError;
use crate::functional::{Ciphertext, Execution, Key, Keys, Machine};
use crate::system::Schedules;

/// The simulated machine as a backend.
#[derive(Clone, Debug)]
pub struct Accelerator {
    /// Architecture of the machine.
    pub arch: Arch,
    /// Schedules of the trees.
    pub schedules: Schedules,
    /// Order of execution.
    pub execution: Execution,
}

/// Matrix of plaintext polynomials (values), row by row.
pub type Plain = Vec<Vec<Vec<u32>>>;

/// Ciphertexts of each query.
type Batch = Vec<Vec<Ciphertext>>;

impl Accelerator {
    fn machine<'a>(&'a self, ring: &'a Ring) -> Machine<'a> {
        Machine { arch: &self.arch, ring, schedules: self.schedules, execution: self.execution }
    }

    fn on_host(
        &self,
        ring: &Arc<Ring>,
        ciphertexts: &Batch,
    ) -> Result<<NaiveBackend as RingBackend>::Ciphertexts, BackendError> {
        NaiveBackend.ciphertexts(ring, ciphertexts.len(), &self.ciphertext_words(ring, ciphertexts)?)
    }
}

fn refused(error: IveError) -> BackendError {
    BackendError::Unavailable(error.to_string())
}

fn missing(operation: &str) -> BackendError {
    BackendError::Unavailable(format!(
        "the simulated accelerator has no schedule for {operation}; it serves simple, exppack-simple, hybrid and onion"
    ))
}

/// Splits words into consecutive ciphertexts.
fn split(ring: &Ring, words: &[u32]) -> Vec<Ciphertext> {
    let parts = words.chunks_exact(2 * ring.words()).map(|words| words.split_at(ring.words()));
    parts.map(|(a, b)| Ciphertext { a: a.to_vec(), b: b.to_vec() }).collect()
}

impl Backend for Accelerator {
    type Matrix = NaiveMatrix;
    type Folded = Vec<u32>;

    fn name(&self) -> String {
        format!("simulated-{}", self.arch.label)
    }

    /// Returns the same id for all machines: keys are words, and no machine holds them.
    fn id(&self) -> BackendId {
        static ID: LazyLock<BackendId> = LazyLock::new(BackendId::unique);
        *ID
    }

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        NaiveBackend.each(count, work);
    }

    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<NaiveMatrix, BackendError> {
        NaiveBackend.upload(layout, bytes)
    }

    fn open(&self, stored: FileRows<'_, PanelLayout>) -> Result<NaiveMatrix, BackendError> {
        NaiveBackend.open(stored)
    }

    fn layout(&self, matrix: &NaiveMatrix) -> PanelLayout {
        NaiveBackend.layout(matrix)
    }

    fn scalar_fold(&self, matrix: &NaiveMatrix, queries: &[u32]) -> Result<Vec<u32>, BackendError> {
        NaiveBackend.scalar_fold(matrix, queries)
    }

    fn words(&self, folded: Vec<u32>) -> Result<Vec<u32>, BackendError> {
        NaiveBackend.words(folded)
    }

    fn folded(&self, queries: usize, words: Vec<u32>) -> Result<Vec<u32>, BackendError> {
        NaiveBackend.folded(queries, words)
    }

    fn module_fold(&self, matrix: &NaiveMatrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
        NaiveBackend.module_fold(matrix, a)
    }
}

impl RingBackend for Accelerator {
    type Tables = Arc<Ring>;
    type Keys = Keys;
    type Plain = Plain;
    type Columns = <NaiveBackend as RingBackend>::Columns;
    type Leaves = Batch;
    type Ciphertexts = Batch;
    type Selectors = Vec<Vec<Key>>;
    type Matrices = <NaiveBackend as RingBackend>::Matrices;

    fn leaves_memory(&self) -> u64 {
        self.arch.hbm_bytes() as u64
    }

    fn tables(&self, ring: &Arc<Ring>) -> Result<Arc<Ring>, BackendError> {
        Ok(Arc::clone(ring))
    }

    fn keys(&self, ring: &Arc<Ring>, keys: EvaluationKeys<'_>) -> Result<Keys, BackendError> {
        keys.levels(ring)?;
        let levels = keys.expansion_gadget.levels(ring);
        let of_level = |rows: &[Ciphertext]| Key { gadget: keys.expansion_gadget, rows: rows.to_vec() };
        Ok(Keys {
            expansion: split(ring, keys.expansion).chunks(levels).map(of_level).collect(),
            rotations: split(ring, keys.rotations).chunks(levels).map(of_level).collect(),
            conversion: Key { gadget: keys.conversion_gadget, rows: split(ring, keys.conversion) },
        })
    }

    fn encode(
        &self,
        ring: &Arc<Ring>,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<Plain, BackendError> {
        let polynomial = |row: usize, column: usize| {
            let mut coefficients = vec![0; ring.degree()];
            fill(row, column, &mut coefficients);
            let wide: Vec<i64> = coefficients.into_iter().map(i64::from).collect();
            let mut values = ring.lift_wide(&wide);
            ring.forward(&mut values);
            values
        };
        Ok((0..rows).map(|row| (0..columns).map(|column| polynomial(row, column)).collect()).collect())
    }

    fn expand(
        &self,
        ring: &Arc<Ring>,
        expansion: Expansion,
        queries: &[(&Keys, &[u32])],
    ) -> Result<Batch, BackendError> {
        let machine = self.machine(ring);
        let expand = |&(keys, words): &(&Keys, &[u32])| {
            check_ciphertexts(ring, 1, words)?;
            let query = machine.coefficients(&split(ring, words)[0]);
            machine.expand(keys, expansion, query).map_err(refused)
        };
        queries.iter().map(expand).collect()
    }

    fn leaves(&self, ring: &Arc<Ring>, queries: usize, words: &[u32]) -> Result<Batch, BackendError> {
        self.ciphertexts(ring, queries, words)
    }

    fn expand_leaf(
        &self,
        ring: &Arc<Ring>,
        expansion: Expansion,
        keys: &[&Keys],
        leaves: &Batch,
        leaf: usize,
    ) -> Result<Batch, BackendError> {
        check_batches(keys.len(), leaves.len())?;
        let machine = self.machine(ring);
        let expand = |(keys, leaves): (&&Keys, &Vec<Ciphertext>)| {
            let root = leaves.get(leaf).ok_or_else(|| BackendError::Shape(format!("no leaf {leaf}")))?;
            machine.expand(keys, expansion, root.clone()).map_err(refused)
        };
        keys.iter().zip(leaves).map(expand).collect()
    }

    fn rotate(
        &self,
        ring: &Arc<Ring>,
        rotations: Rotations,
        keys: &[&Keys],
        leaves: &Batch,
    ) -> Result<Batch, BackendError> {
        check_batches(keys.len(), leaves.len())?;
        check_rotations(ring, rotations)?;
        let machine = self.machine(ring);
        let rotate = |(keys, leaves): (&&Keys, &Vec<Ciphertext>)| {
            machine.rotate(keys, rotations, leaves).map_err(refused)
        };
        keys.iter().zip(leaves).map(rotate).collect()
    }

    fn poly_fold(&self, ring: &Arc<Ring>, plain: &[Plain], leaves: &Batch) -> Result<Batch, BackendError> {
        let machine = self.machine(ring);
        let mut selected = vec![Vec::new(); leaves.len()];
        for rows in plain {
            let folds = machine.select_rows(rows, leaves).map_err(refused)?;
            selected.iter_mut().zip(folds).for_each(|(all, fold)| all.extend(fold));
        }
        Ok(selected)
    }

    fn sum_rotated(
        &self,
        ring: &Arc<Ring>,
        rotations: Rotations,
        keys: &[&Keys],
        ciphertexts: Batch,
    ) -> Result<Batch, BackendError> {
        check_batches(keys.len(), ciphertexts.len())?;
        check_rotations(ring, rotations)?;
        let machine = self.machine(ring);
        let sum = |(keys, ciphertexts): (&&Keys, Vec<Ciphertext>)| {
            machine.sum_rotated(keys, rotations, &ciphertexts).map_err(refused)
        };
        keys.iter().zip(ciphertexts).map(sum).collect()
    }

    fn add_bodies(
        &self,
        ring: &Arc<Ring>,
        ciphertexts: &mut Batch,
        folded: &Vec<u32>,
        bodies: &Bodies,
        bits: u32,
    ) -> Result<(), BackendError> {
        let mut on_host = self.on_host(ring, ciphertexts)?;
        NaiveBackend.add_bodies(ring, &mut on_host, folded, bodies, bits)?;
        let words = NaiveBackend.ciphertext_words(ring, &on_host)?;
        *ciphertexts = self.ciphertexts(ring, ciphertexts.len(), &words)?;
        Ok(())
    }

    fn selectors(
        &self,
        ring: &Arc<Ring>,
        keys: &[&Keys],
        leaves: &Batch,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<Vec<Vec<Key>>, BackendError> {
        check_batches(keys.len(), leaves.len())?;
        let machine = self.machine(ring);
        let levels = gadget.levels(ring);
        let of_query = |(keys, leaves): (&&Keys, &Vec<Ciphertext>)| {
            let rows = depth.checked_mul(levels).and_then(|rows| leaves.get(first..first.checked_add(rows)?));
            let rows =
                rows.ok_or_else(|| BackendError::Shape("too few leaves to make selectors of".into()))?;
            machine.assemble(keys, rows, gadget).map_err(refused)
        };
        keys.iter().zip(leaves).map(of_query).collect()
    }

    fn rgsw_fold(
        &self,
        ring: &Arc<Ring>,
        selectors: &Vec<Vec<Key>>,
        ciphertexts: Batch,
    ) -> Result<Batch, BackendError> {
        check_batches(selectors.len(), ciphertexts.len())?;
        let machine = self.machine(ring);
        let of_query = |(selectors, rows): (&Vec<Key>, Vec<Ciphertext>)| {
            Ok(vec![machine.tournament(selectors, rows).map_err(refused)?])
        };
        selectors.iter().zip(ciphertexts).map(of_query).collect()
    }

    fn ciphertext_words(&self, ring: &Arc<Ring>, ciphertexts: &Batch) -> Result<Vec<u32>, BackendError> {
        let machine = self.machine(ring);
        let values = ciphertexts.iter().flatten().map(|ciphertext| machine.transformed(ciphertext));
        Ok(values.flat_map(|values| [values.a, values.b].concat()).collect())
    }

    fn ciphertexts(&self, ring: &Arc<Ring>, queries: usize, words: &[u32]) -> Result<Batch, BackendError> {
        let of_query = check_ciphertexts(ring, queries, words)?;
        let machine = self.machine(ring);
        let all: Vec<_> = split(ring, words).iter().map(|values| machine.coefficients(values)).collect();
        Ok(all.chunks(of_query).map(<[Ciphertext]>::to_vec).collect())
    }

    fn mod_switch(
        &self,
        ring: &Arc<Ring>,
        parts: &[&Batch],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let parts = parts.iter().map(|part| self.on_host(ring, part)).collect::<Result<Vec<_>, _>>()?;
        NaiveBackend.mod_switch(ring, &parts.iter().collect::<Vec<_>>(), bits)
    }

    fn reinterpret(
        &self,
        _: &Arc<Ring>,
        _: &Batch,
        _: SwitchedBits,
        _: PanelLayout,
    ) -> Result<Self::Matrices, BackendError> {
        Err(missing("reinterpret"))
    }

    fn scalar_fold_own(&self, matrices: &Self::Matrices, queries: &[u32]) -> Result<Vec<u32>, BackendError> {
        NaiveBackend.scalar_fold_own(matrices, queries)
    }

    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<Self::Columns, BackendError> {
        NaiveBackend.columns(layout, words)
    }

    fn encode_fold(
        &self,
        _: &Arc<Ring>,
        _: &Self::Matrices,
        _: &Self::Columns,
        _: FoldedBlocks,
        _: &Batch,
    ) -> Result<Batch, BackendError> {
        Err(missing("encode_fold"))
    }

    whole_halves!(ring => ring);
}

//! Backend that computes nothing: its values consist of their shapes only. A protocol's server runs
//! on this backend unchanged, over files without content. So the operations can be recorded for
//! databases of any size.

use std::fs::File;
use std::sync::{Arc, LazyLock};

use spirea_backend::{
    Backend, BackendError, BackendId, Bodies, EvaluationKeys, FileRows, FillPolynomial, FoldedBlocks,
    NaiveBackend, Observed, PanelLayout, RingBackend, RingMatrix, Split, SwitchedBits, whole_halves,
};
use spirea_math::random::SecretRng;
use spirea_math::{Expansion, Gadget, Ring, Rotations};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{Files, Opening, ProtocolError, Query};

use crate::error::IveError;
use crate::recorder::{Phase, Recorder, phases};

/// Maximum number of queries of a batch.
const MOST_QUERIES: usize = 1 << 12;
/// Maximum size in bytes of a client's hint, which is made of zeros.
const MOST_HINT: u64 = 1 << 31;

/// Records the operations that a server's backend executes for a batch of `queries` queries,
/// whatever the size of its database. The protocol must have one server. The project's own server
/// answers the project's own client, over files that have only lengths.
///
/// # Errors
/// [`IveError::Record`] if there is no such server, or the machine has no step for one of its
/// operations.
pub fn record(params: &ProtocolParams, queries: usize) -> Result<Vec<Phase>, IveError> {
    let refused = |problem: String| {
        IveError::Record {
        protocol: params.name.into(),
        problem,
        remedy: "give simple, exppack-simple, hybrid or onion, a database that it can be chosen for, and a batch that \
                 it takes"
            .into(),
    }
    };
    let failed = |error: ProtocolError| refused(error.to_string());
    let on_disk = |error: std::io::Error| refused(format!("a file without content: {error}"));
    if params.parties > 1 {
        return Err(refused("it has two servers".into()));
    }
    if queries == 0 || queries > MOST_QUERIES {
        return Err(refused(format!("a batch has 1 to {MOST_QUERIES} queries, not {queries}")));
    }
    let hint_bytes = params.sizes.hint_bytes;
    if hint_bytes > MOST_HINT {
        return Err(refused(format!(
            "its client would need a hint of {hint_bytes} bytes; more than {MOST_HINT} are not made"
        )));
    }
    let folder = tempfile::tempdir().map_err(on_disk)?;
    let files = Files::at(folder.path().join("matrix"), folder.path().join("server"));
    for (path, bytes) in [(&files.matrix, params.stored.bytes()), (&files.server, params.server_bytes)] {
        File::create(path).and_then(|file| file.set_len(bytes)).map_err(on_disk)?;
    }
    let backend = Split::new(Arc::new(Outline), Arc::new(NaiveBackend));
    let watched = Arc::new(Observed::<_, Recorder>::new(Arc::new(backend)));
    let server = params.on().open(&watched, &files, Opening::default()).map_err(failed)?;
    let mut rng = SecretRng::from_os().map_err(|error| refused(error.to_string()))?;
    let hint = vec![0; hint_bytes as usize];
    let client = params.client(&hint, &[], &mut rng).map_err(failed)?;
    let keys = client.keys().map(|keys| server.prepare_keys(keys.bytes())).transpose().map_err(failed)?;
    // The operations do not depend on the index, so one query stands for all.
    let prepared = client.query(0, &mut rng).map_err(failed)?;
    let batch: Vec<Query<'_>> = std::iter::repeat_n(&prepared.queries[0], queries)
        .map(|bytes| Query { bytes, keys: keys.as_ref() })
        .collect();
    server.answer(&batch).map_err(failed)?;
    phases(&watched.observer().take())
}

/// Backend whose values are shapes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outline;

/// Numbers of queries and of values for each query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    queries: usize,
    of_query: usize,
}

fn shape(problem: impl Into<String>) -> BackendError {
    BackendError::Shape(problem.into())
}

impl Backend for Outline {
    type Matrix = PanelLayout;
    /// Number of words.
    type Folded = usize;

    fn name(&self) -> String {
        "outline".into()
    }

    fn id(&self) -> BackendId {
        static ID: LazyLock<BackendId> = LazyLock::new(BackendId::unique);
        *ID
    }

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        NaiveBackend.each(count, work);
    }

    fn upload(&self, layout: PanelLayout, _: &[u8]) -> Result<PanelLayout, BackendError> {
        Ok(layout)
    }

    fn open(&self, stored: FileRows<'_, PanelLayout>) -> Result<PanelLayout, BackendError> {
        stored.part()
    }

    fn layout(&self, matrix: &PanelLayout) -> PanelLayout {
        *matrix
    }

    fn scalar_fold(&self, matrix: &PanelLayout, queries: &[u32]) -> Result<usize, BackendError> {
        Ok(matrix.batch_of(queries.len())? * matrix.rows())
    }

    fn words(&self, folded: usize) -> Result<Vec<u32>, BackendError> {
        Ok(vec![0; folded])
    }

    fn folded(&self, _: usize, words: Vec<u32>) -> Result<usize, BackendError> {
        Ok(words.len())
    }

    fn module_fold(&self, matrix: &PanelLayout, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
        a.check(*matrix)?;
        Ok(vec![0; matrix.rows() * a.rank * spirea_backend::RING_DEGREE])
    }
}

impl RingBackend for Outline {
    type Tables = Arc<Ring>;
    type Keys = ();
    /// Number of rows.
    type Plain = usize;
    type Columns = PanelLayout;
    type Leaves = Batch;
    type Ciphertexts = Batch;
    /// Number of queries.
    type Selectors = usize;
    /// Layout of each query's matrix.
    type Matrices = Vec<PanelLayout>;

    fn leaves_memory(&self) -> u64 {
        u64::MAX
    }

    fn tables(&self, ring: &Arc<Ring>) -> Result<Arc<Ring>, BackendError> {
        Ok(Arc::clone(ring))
    }

    fn keys(&self, ring: &Arc<Ring>, keys: EvaluationKeys<'_>) -> Result<(), BackendError> {
        keys.levels(ring).map(drop)
    }

    fn encode(
        &self,
        _: &Arc<Ring>,
        rows: usize,
        _: usize,
        _: &FillPolynomial<'_>,
    ) -> Result<usize, BackendError> {
        Ok(rows)
    }

    fn expand(
        &self,
        _: &Arc<Ring>,
        expansion: Expansion,
        queries: &[(&(), &[u32])],
    ) -> Result<Batch, BackendError> {
        Ok(Batch { queries: queries.len(), of_query: expansion.leaves() })
    }

    fn leaves(&self, ring: &Arc<Ring>, queries: usize, words: &[u32]) -> Result<Batch, BackendError> {
        self.ciphertexts(ring, queries, words)
    }

    fn expand_leaf(
        &self,
        _: &Arc<Ring>,
        expansion: Expansion,
        _: &[&()],
        leaves: &Batch,
        _: usize,
    ) -> Result<Batch, BackendError> {
        Ok(Batch { of_query: expansion.leaves(), ..*leaves })
    }

    fn rotate(
        &self,
        _: &Arc<Ring>,
        rotations: Rotations,
        _: &[&()],
        leaves: &Batch,
    ) -> Result<Batch, BackendError> {
        Ok(Batch { of_query: rotations.leaves(), ..*leaves })
    }

    fn poly_fold(&self, _: &Arc<Ring>, plain: &[usize], leaves: &Batch) -> Result<Batch, BackendError> {
        Ok(Batch { of_query: plain.iter().sum(), ..*leaves })
    }

    fn sum_rotated(
        &self,
        _: &Arc<Ring>,
        rotations: Rotations,
        _: &[&()],
        ciphertexts: Batch,
    ) -> Result<Batch, BackendError> {
        Ok(Batch { of_query: ciphertexts.of_query / rotations.big(), ..ciphertexts })
    }

    fn add_bodies(
        &self,
        ring: &Arc<Ring>,
        ciphertexts: &mut Batch,
        folded: &usize,
        bodies: &Bodies,
        _: u32,
    ) -> Result<(), BackendError> {
        bodies.check(ciphertexts.queries, *folded, ciphertexts.of_query * ring.degree())
    }

    fn selectors(
        &self,
        _: &Arc<Ring>,
        _: &[&()],
        leaves: &Batch,
        _: usize,
        _: usize,
        _: Gadget,
    ) -> Result<usize, BackendError> {
        Ok(leaves.queries)
    }

    fn rgsw_fold(&self, _: &Arc<Ring>, _: &usize, ciphertexts: Batch) -> Result<Batch, BackendError> {
        Ok(Batch { of_query: 1, ..ciphertexts })
    }

    fn ciphertext_words(&self, ring: &Arc<Ring>, ciphertexts: &Batch) -> Result<Vec<u32>, BackendError> {
        Ok(vec![0; ciphertexts.queries * ciphertexts.of_query * 2 * ring.words()])
    }

    fn ciphertexts(&self, ring: &Arc<Ring>, queries: usize, words: &[u32]) -> Result<Batch, BackendError> {
        let of_query = spirea_backend::check_ciphertexts(ring, queries, words)?;
        Ok(Batch { queries, of_query })
    }

    fn mod_switch(
        &self,
        ring: &Arc<Ring>,
        parts: &[&Batch],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let queries = parts.first().map_or(0, |part| part.queries);
        let ciphertexts: usize = parts.iter().map(|part| part.of_query).sum();
        Ok(vec![vec![0; ciphertexts * bits.bytes(ring.degree())]; queries])
    }

    fn reinterpret(
        &self,
        _: &Arc<Ring>,
        ciphertexts: &Batch,
        _: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<Vec<PanelLayout>, BackendError> {
        Ok(vec![layout; ciphertexts.queries])
    }

    fn scalar_fold_own(&self, matrices: &Vec<PanelLayout>, _: &[u32]) -> Result<usize, BackendError> {
        Ok(matrices.iter().map(PanelLayout::rows).sum())
    }

    fn columns(&self, layout: PanelLayout, _: &[u32]) -> Result<PanelLayout, BackendError> {
        Ok(layout)
    }

    fn encode_fold(
        &self,
        _: &Arc<Ring>,
        matrices: &Vec<PanelLayout>,
        _: &PanelLayout,
        folded: FoldedBlocks,
        _: &Batch,
    ) -> Result<Batch, BackendError> {
        if matrices.is_empty() {
            return Err(shape("no matrices"));
        }
        Ok(Batch { queries: matrices.len(), of_query: folded.blocks })
    }

    whole_halves!(ring => ring);
}

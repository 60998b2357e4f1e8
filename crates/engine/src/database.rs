use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use spirea_backend::{BackendError, BackendId, StepTimes, StoredFile};
use spirea_lattice::rlwe::KeyShape;
use spirea_protocols::registry::{ProtocolParams, Seed};
use spirea_protocols::{
    FileHash, Partial, Party, PreparedKeys, ProtocolError, Query, Responder, Sizes, Table, Version,
};
use spirea_store::Snapshot;

use crate::asleep::Asleep;
use crate::scheduler::{Pace, PaceMeter};
use crate::{EngineError, LoadError, Reservation};

/// Maximum bytes of a request's queries, to bound a batch of long queries; a single query may be
/// larger.
pub const MAX_REQUEST_BYTES: usize = 64 << 20;

/// Retry delay for a client, if the keys of other requests take the room that its keys need. These
/// requests are answered within a batch or two.
const KEYS_RETRY: Duration = Duration::from_secs(1);

/// Public properties of a database, without the responder.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Version of the snapshot that answers.
    pub version: Version,
    /// Party of this server, in a protocol with two servers; `None` if the protocol has one.
    pub party: Option<Party>,
    /// The protocol and its parameters.
    pub params: ProtocolParams,
    /// The table.
    pub table: Table,
    /// The hint.
    pub hint: HintFile,
    /// The snapshot's manifest: the bytes whose hash is the version. Empty if there is none.
    pub manifest: Bytes,
    /// Backend that answers: evaluation keys prepared for one backend are useless to another.
    pub backend: BackendId,
}

impl Identity {
    /// Returns the identity of a snapshot that a backend answers.
    pub(crate) fn of(snapshot: &Snapshot, party: Option<Party>, backend: BackendId) -> Self {
        let manifest = snapshot.manifest();
        Self {
            name: manifest.name.clone(),
            version: snapshot.version(),
            party,
            params: manifest.protocol.clone(),
            table: manifest.table.clone(),
            hint: HintFile::of(snapshot),
            manifest: manifest.hashed_bytes().into(),
            backend,
        }
    }
}

/// A hint on disk.
#[derive(Clone, Debug)]
pub struct HintFile {
    /// The file.
    pub file: StoredFile,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of its bytes.
    pub blake3: FileHash,
    /// The file of the hashes of its rows.
    pub rows: StoredFile,
    /// Length of the file of row hashes.
    pub rows_bytes: u64,
}

impl HintFile {
    /// Returns the hint of a snapshot. Its files are opened now, because another snapshot may take
    /// their paths later.
    pub fn of(snapshot: &Snapshot) -> Self {
        let manifest = snapshot.manifest();
        let (file, rows) = (snapshot.hint().clone(), snapshot.hint_rows().clone());
        for opened in [&file, &rows] {
            // The folder of a worker's share has neither file. A request for a missing file tries
            // to open it again, and fails then.
            let _ = opened.file();
        }
        Self {
            file,
            bytes: manifest.hint.bytes,
            blake3: manifest.hint.blake3,
            rows,
            rows_bytes: manifest.hint_rows.as_ref().map_or(0, |rows| rows.bytes),
        }
    }
}

/// A database that answers: the identity of a snapshot and the server half of its protocol.
pub struct Database {
    identity: Identity,
    responder: Box<dyn Responder>,
    max_batch: usize,
    /// Number that identifies the database within this process. The same version on two backends
    /// has two numbers.
    instance: u64,
    pace: Mutex<PaceMeter>,
    on_loss: Option<LossHandler>,
    reservation: Option<Arc<dyn Reservation>>,
    steps: Arc<StepTimes>,
    slots: Option<Box<dyn Fn() -> usize + Send + Sync>>,
    /// True if the responder gives partials and no answers.
    partials: bool,
    /// True if the memory of the responder was released.
    asleep: bool,
}

/// Form of prepared evaluation keys: the backend and the shape that they were prepared for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyForm {
    backend: BackendId,
    shape: Option<KeyShape>,
}

impl KeyForm {
    /// Returns [`Identity::backend`].
    pub(crate) fn backend(&self) -> BackendId {
        self.backend
    }
}

/// Callback for device failures during an answer; its argument is the reason.
pub type LossHandler = Box<dyn Fn(&str) + Send + Sync>;

impl Database {
    /// Creates a database.
    ///
    /// # Errors
    /// [`LoadError::Inconsistent`] if the identity and the responder do not belong together,
    /// [`LoadError::Protocol`] if the parameters or the table are invalid.
    pub fn new(identity: Identity, responder: Box<dyn Responder>) -> Result<Self, LoadError> {
        let Identity { party, params, table, hint, .. } = &identity;
        table.validate()?;
        let sizes = params.sizes;
        let inconsistent = |what: &str| Err(LoadError::Inconsistent(what.into()));
        if party.is_some() != (params.parties > 1) {
            return inconsistent("one of two servers has a party, and a single one has none");
        }
        if responder.sizes() != sizes {
            return inconsistent("the loaded matrix answers queries of another size");
        }
        if hint.bytes != sizes.hint_bytes {
            return inconsistent("the hint is not as long as the parameters say");
        }
        if table.records != params.records() || table.record_bytes() != params.record_bytes() {
            return inconsistent("the table's records are not the protocol's");
        }
        let fitting = MAX_REQUEST_BYTES / sizes.query_bytes.max(1);
        let max_batch = fitting.clamp(1, responder.max_batch().max(1));
        Ok(Self::of(identity, responder, max_batch))
    }

    /// Creates a database; the caller has checked that the parts belong together.
    fn of(identity: Identity, responder: Box<dyn Responder>, max_batch: usize) -> Self {
        static INSTANCES: AtomicU64 = AtomicU64::new(0);
        let instance = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let (pace, steps) = (Mutex::default(), Arc::default());
        Self {
            identity,
            responder,
            max_batch,
            instance,
            pace,
            on_loss: None,
            reservation: None,
            steps,
            slots: None,
            partials: false,
            asleep: false,
        }
    }

    /// Returns the database without its responder's memory. Its identity, its sizes and its hint
    /// remain; requests to it are refused.
    #[must_use]
    pub fn asleep(&self) -> Self {
        let responder = Box::new(Asleep::of(&*self.responder));
        let asleep = Self::of(self.identity.clone(), responder, self.max_batch);
        Self { partials: self.partials, asleep: true, ..asleep }
    }

    /// Returns the database of a snapshot without a responder's memory, as [`Self::asleep`] does,
    /// without opening it. Returns `None` unless this database has the same parameters, except for
    /// their seed: its responder then has the same sizes.
    pub fn asleep_like(&self, snapshot: &Snapshot) -> Option<Self> {
        let Identity { party, backend, .. } = self.identity;
        self.is_like(&snapshot.manifest().protocol).then(|| {
            let identity = Identity::of(snapshot, party, backend);
            Self { identity, ..self.asleep() }
        })
    }

    /// Returns true if the parameters are this database's, except for their seed.
    fn is_like(&self, params: &ProtocolParams) -> bool {
        self.identity.params.reseeded(Seed::default()) == params.reseeded(Seed::default())
    }

    /// Returns true if the memory of the responder was [released](Self::asleep).
    pub fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// Marks the database as one whose responder holds only a share's rows, and so gives partials
    /// and no answers.
    pub(crate) fn of_partials(self) -> Self {
        Self { partials: true, ..self }
    }

    /// Sets the number of batches that the responder takes at the same time; `slots` is called
    /// before each batch.
    pub fn with_slots(self, slots: Box<dyn Fn() -> usize + Send + Sync>) -> Self {
        Self { slots: Some(slots), ..self }
    }

    /// Returns the number of batches that may be computed at the same time.
    pub(crate) fn slots(&self) -> usize {
        self.slots.as_ref().map_or(1, |slots| slots())
    }

    /// Sets the step times that the responder records.
    pub fn with_step_times(self, steps: Arc<StepTimes>) -> Self {
        Self { steps, ..self }
    }

    /// Sets the reservation on devices that other databases share.
    pub fn with_reservation(self, reservation: Arc<dyn Reservation>) -> Self {
        Self { reservation: Some(reservation), ..self }
    }

    /// Sets the callback for device failures.
    pub fn with_loss_handler(self, handler: LossHandler) -> Self {
        Self { on_loss: Some(handler), ..self }
    }

    /// Computes the largest batch once, with dummy queries, so that the device memory for queries
    /// is known and reserved before the first client asks. Returns the bytes of one client's
    /// prepared keys.
    ///
    /// # Errors
    /// Errors of the backend if it has no room.
    pub fn rehearse(&self) -> Result<u64, LoadError> {
        self.with_specimens(|answer| answer(self.max_batch))
    }

    /// Measures the time of a few small batches of dummy queries. From these times the scheduler
    /// decides how long queries wait for each other, until clients' queries give better times.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn measure(&self) -> Result<(), LoadError> {
        self.with_specimens(|answer| {
            // The first batch also reads the table from its file and computes values that are
            // computed only once.
            answer(1)?;
            for queries in PaceMeter::probes(self.max_batch) {
                let started = Instant::now();
                answer(queries)?;
                self.note(queries, started.elapsed());
            }
            Ok(())
        })?;
        // Discards the steps so far, which served no client.
        self.take_steps();
        Ok(())
    }

    /// Calls `run` with a function that answers batches of dummy queries; returns the bytes of
    /// their prepared keys.
    fn with_specimens(
        &self,
        run: impl FnOnce(&dyn Fn(usize) -> Result<(), ProtocolError>) -> Result<(), ProtocolError>,
    ) -> Result<u64, LoadError> {
        let keys_bytes = match self.partials {
            true => self.responder.partial_keys_bytes(),
            false => self.sizes().keys_bytes,
        };
        let mut prepared_bytes = 0;
        let prepared = || {
            let keys = match keys_bytes {
                0 => None,
                bytes => Some(self.in_turn(|responder| responder.prepare_keys(&vec![0; bytes]))?),
            };
            prepared_bytes = keys.as_ref().map_or(0, |keys| keys.memory_bytes() as u64);
            let specimen = self.responder.specimen();
            let query = Query { bytes: &specimen, keys: keys.as_ref() };
            run(&|queries| {
                let batch = vec![query; queries];
                self.in_turn(|responder| match self.partials {
                    true => responder.partial(&batch).map(drop),
                    false => responder.answer(&batch).map(drop),
                })
            })
        };
        match prepared() {
            // A protocol without dummy queries needs little memory except for its answers.
            Ok(()) | Err(ProtocolError::Malformed { .. }) => Ok(prepared_bytes),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes over the estimated time of batches from a database with the same parameters, except
    /// for their seed, on the same backend. If the databases differ in more,
    /// [measures](Self::measure) it.
    ///
    /// # Errors
    /// Those of [`Self::measure`].
    pub fn measure_like(&self, former: &Self) -> Result<(), LoadError> {
        let has_pace = self.identity.backend == former.identity.backend
            && self.is_like(&former.identity.params)
            && former.pace() != Pace::default();
        if !has_pace {
            return self.measure();
        }
        *self.meter() = former.meter().clone();
        // Discards the steps so far, which served no client.
        self.take_steps();
        Ok(())
    }

    /// Returns the estimated time of batches; zero if not known yet.
    pub fn pace(&self) -> Pace {
        self.meter().pace()
    }

    /// Records the time of a batch.
    pub(crate) fn note(&self, queries: usize, time: Duration) {
        self.meter().note(queries, time);
    }

    fn meter(&self) -> MutexGuard<'_, PaceMeter> {
        self.pace.lock()
    }

    /// Returns the times of the steps since the last call; empty if they are not timed. The
    /// preparation of keys is also a step but belongs to no batch.
    pub(crate) fn take_steps(&self) -> BTreeMap<&'static str, Duration> {
        self.steps.take()
    }

    /// Returns the database's process-unique number.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    /// Returns the form of prepared evaluation keys. Keys of one form serve every database with
    /// that form.
    pub(crate) fn key_form(&self) -> KeyForm {
        KeyForm { backend: self.identity.backend, shape: self.identity.params.key_shape }
    }

    /// Returns the identity.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the responder.
    pub fn responder(&self) -> &dyn Responder {
        &*self.responder
    }

    /// Returns the bytes of queries, answers, the hint and a client's keys.
    pub fn sizes(&self) -> Sizes {
        self.responder.sizes()
    }

    /// Returns the largest number of queries in one request.
    pub fn max_batch(&self) -> usize {
        self.max_batch
    }

    /// Checks the public property of queries: their lengths.
    pub(crate) fn admit(&self, queries: &[Bytes]) -> Result<(), EngineError> {
        let expected = self.sizes().query_bytes;
        match queries.iter().find(|query| query.len() != expected) {
            None => Ok(()),
            Some(query) => Err(EngineError::Malformed(format!(
                "a query of {} bytes where the parameters say {expected}",
                query.len()
            ))),
        }
    }

    /// Waits for this database's turn on its devices, then runs `compute`.
    fn in_turn<T>(&self, compute: impl FnOnce(&dyn Responder) -> T) -> T {
        let _turn = self.reservation.as_ref().map(|reservation| reservation.compute_turn());
        compute(&*self.responder)
    }

    /// Prepares a client's evaluation keys on this thread.
    pub(crate) fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, EngineError> {
        let expected = self.sizes().keys_bytes;
        if bytes.len() != expected {
            let detail = format!("keys of {} bytes where the parameters say {expected}", bytes.len());
            return Err(EngineError::Malformed(detail));
        }
        self.in_turn(|responder| match &self.reservation {
            Some(reservation) if !reservation.has_room_for_keys() => {
                Err(EngineError::KeysInUse { retry_after: KEYS_RETRY })
            }
            _ => Ok(responder.prepare_keys(bytes)?),
        })
    }

    /// Answers admitted queries, at most [`Database::max_batch`], on this thread.
    pub(crate) fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Bytes>, EngineError> {
        let answers = self.told(self.in_turn(|responder| responder.answer(queries)))?;
        let expected = self.sizes().answer_bytes;
        if answers.len() != queries.len() || answers.iter().any(|answer| answer.len() != expected) {
            return Err(EngineError::WrongAnswers);
        }
        Ok(answers.into_iter().map(Bytes::from).collect())
    }

    /// Computes this share's partial for queries, at most [`Database::max_batch`], on this thread.
    ///
    /// # Errors
    /// Errors of [`Responder::partial`].
    pub fn partial(&self, queries: &[Query<'_>]) -> Result<Partial, ProtocolError> {
        self.told(self.in_turn(|responder| responder.partial(queries)))
    }

    /// Returns `outcome`, and calls the loss handler if a device failed.
    fn told<T>(&self, outcome: Result<T, ProtocolError>) -> Result<T, ProtocolError> {
        outcome.inspect_err(|error| {
            if let (ProtocolError::Backend(BackendError::Device(reason)), Some(told)) = (error, &self.on_loss)
            {
                told(reason);
            }
        })
    }
}

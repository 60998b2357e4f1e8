//! Opens snapshots on the backends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use spirea_backend::{Backend as _, Residence, Timed};
use spirea_cpu::CpuBackend;
use spirea_cpu::priority::at_normal_priority;
use spirea_engine::{Database, LossHandler};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{Opening, Responder, Role};
use spirea_store::Snapshot;

use crate::backend::{Backends, Opened};

/// A device that failed.
pub(crate) struct Loss {
    /// Kind of the device.
    pub device: &'static str,
    /// Error of the device.
    pub reason: String,
}

/// Opens snapshots on the backends, and receives device failures.
pub(crate) struct Loader {
    backends: RwLock<Backends>,
    opening: Opening,
    /// Channel for device failures.
    losses: Mutex<mpsc::Sender<Loss>>,
}

impl Loader {
    /// Creates a loader, and the channel that receives device failures.
    pub fn new(backends: Backends, opening: Opening) -> (Self, mpsc::Receiver<Loss>) {
        let (sender, losses) = mpsc::channel();
        (Self { backends: RwLock::new(backends), opening, losses: Mutex::new(sender) }, losses)
    }

    /// Returns the form in which loaded snapshots are opened.
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// Opens a verified snapshot in its final form.
    ///
    /// # Errors
    /// A description for the operator, which is also logged.
    pub fn open(&self, snapshot: &Snapshot) -> Result<Arc<Database>, String> {
        self.open_with(snapshot, self.opening)
    }

    /// Opens the final form of a snapshot that answers in its interim form.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn hold(&self, snapshot: &Snapshot) -> Result<Arc<Database>, String> {
        let (database, backend) = self.opened(snapshot, self.opening)?;
        tracing::debug!(database = %snapshot.manifest().name, %backend, "the snapshot is in memory");
        Ok(database)
    }

    /// Opens a verified snapshot in its interim form, if it has one. Touching memory for the first
    /// time takes longer than mapping a file, so tables that are to be copied answer from their
    /// files at first. A table that must be transformed, or copied to a device, is opened once, in
    /// its final form.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_interim(&self, snapshot: &Snapshot) -> Result<Arc<Database>, String> {
        self.open_with(snapshot, self.interim(&snapshot.manifest().protocol))
    }

    /// Returns true if a snapshot has an interim form that differs from its final form.
    pub fn has_interim(&self, snapshot: &Snapshot) -> bool {
        self.interim(&snapshot.manifest().protocol) != self.opening
    }

    /// Returns the form in which [`Self::open_interim`] opens a table with these parameters.
    /// Opening a table whose protocol packs or encrypts into a ring mostly computes, so such a
    /// table is opened once.
    pub fn interim(&self, params: &ProtocolParams) -> Opening {
        match params.sets.ring {
            None if !self.read().prefers_device() => Opening { residence: Residence::Mapped, ..self.opening },
            _ => self.opening,
        }
    }

    /// Returns the processor with a clock of steps, for building a delta that
    /// [`Self::take_over`] serves.
    pub fn builder(&self) -> Arc<Timed<CpuBackend>> {
        Arc::new(Timed::new(self.cpu()))
    }

    /// Makes a database of a delta's server halves, one for each of the protocol's servers, which
    /// its build opened on `timed` in the form of [`Self::interim`]. The database takes over the
    /// pace of `former`, the delta before, if both are alike.
    ///
    /// Returns `None` if the delta must be opened from its files: if a device is to answer, if the
    /// server answers for a share, or if the build opened nothing.
    pub fn take_over(
        &self,
        delta: &Snapshot,
        timed: &Timed<CpuBackend>,
        servers: Vec<Box<dyn Responder>>,
        former: Option<&Arc<Database>>,
    ) -> Option<Arc<Database>> {
        let params = &delta.manifest().protocol;
        let opening = self.interim(params);
        if self.read().prefers_device() || opening.role != Role::WHOLE {
            return None;
        }
        let party = params.party(opening).ok()?;
        let mut openings = params.openings(opening.residence).into_iter().zip(servers);
        let (_, responder) = openings.find(|(opening, _)| opening.party == party)?;
        let database = Database::opened(delta, timed, opening, responder).and_then(|database| {
            let measure =
                || former.map_or_else(|| database.measure(), |former| database.measure_like(former));
            at_normal_priority(measure)?;
            Ok(Arc::new(database))
        });
        let (name, version) = (&delta.manifest().name, delta.version());
        match database {
            Ok(database) => {
                tracing::info!(database = %name, snapshot = %version, backend = %self.cpu().name(), "the snapshot is ready");
                Some(database)
            }
            Err(error) => {
                tracing::warn!(database = %name, snapshot = %version, %error, "opening the delta again");
                None
            }
        }
    }

    fn open_with(&self, snapshot: &Snapshot, opening: Opening) -> Result<Arc<Database>, String> {
        let (database, backend) = self.opened(snapshot, opening)?;
        let (name, version) = (&snapshot.manifest().name, snapshot.version());
        tracing::info!(database = %name, snapshot = %version, %backend, "the snapshot is ready");
        Ok(database)
    }

    /// Opens a verified snapshot; the log has the error if there is one.
    fn opened(&self, snapshot: &Snapshot, opening: Opening) -> Result<(Arc<Database>, String), String> {
        let (name, version) = (&snapshot.manifest().name, snapshot.version());
        // A panic while one database loads must not affect the others.
        match catch_unwind(AssertUnwindSafe(|| self.read().database(snapshot, opening))) {
            Ok(Ok(Opened { database, backend, device })) => {
                let database = match device {
                    Some(device) => database.with_loss_handler(self.loss_handler(device)),
                    None => database,
                };
                Ok((Arc::new(database), backend))
            }
            Ok(Err(error)) => {
                tracing::error!(database = %name, snapshot = %version, %error, "the snapshot could not be loaded");
                Err(error.to_string())
            }
            Err(_) => {
                tracing::error!(database = %name, snapshot = %version, "loading was aborted by a defect");
                Err("loading was aborted by a defect; the log has more".into())
            }
        }
    }

    fn loss_handler(&self, device: &'static str) -> LossHandler {
        let losses = self.losses.lock().clone();
        Box::new(move |reason: &str| {
            // The receiver is gone once the server ends.
            let _ = losses.send(Loss { device, reason: reason.into() });
        })
    }

    /// Removes a failed device; false if it was removed before.
    pub fn lose(&self, device: &str) -> bool {
        self.write().lose(device)
    }

    /// Returns the number of backends that are left for databases.
    pub fn backends(&self) -> usize {
        self.read().count()
    }

    /// Returns the processor, for computations other than answers.
    pub fn cpu(&self) -> Arc<CpuBackend> {
        Arc::clone(self.read().cpu())
    }

    // A panic while a device is removed never leaves a partly changed value.
    fn read(&self) -> RwLockReadGuard<'_, Backends> {
        self.backends.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Backends> {
        self.backends.write()
    }
}

#[cfg(test)]
mod tests {
    use spirea_protocols::Query;
    use spirea_protocols::choice::KeyDelivery;
    use spirea_protocols::registry::Choice;
    use spirea_specimens::snapshots::{options, try_build, write_file};
    use spirea_store::repository::{Applied, Settings, Shrinking};
    use spirea_store::{Changes, Protocol, Repository, Silent};

    use super::*;
    use crate::backend::BackendChoice;
    use crate::gpu_memory::KeyBudget;

    #[test]
    fn a_delta_is_not_prepared_again_to_be_served() {
        let folder = tempfile::tempdir().unwrap();
        let input = write_file(folder.path(), "data.csv", "key,value\na,1\nb,2\n");
        let mut options = options(&input, Some("key"), &["value"]);
        let (protocol, keys) = ("exppack-simple".into(), KeyDelivery::PerQuery);
        options.protocol = Protocol::Named(Choice { protocol, keys, ..Choice::default() });
        let base = try_build(&options).unwrap();
        let repository = Repository::create(folder.path().join("repository"), Settings::default()).unwrap();
        repository.add_base(&base, Shrinking::Refuse, &Silent).unwrap();
        let keys = KeyBudget { most: 0, prepared: Box::new(|_| 0) };
        let backends = Backends::open(&BackendChoice::Cpu, 1, keys).unwrap();
        let (loader, _losses) = Loader::new(backends, Opening::default());

        let mut former = None;
        for number in 0..2 {
            let mut changes = Changes::new();
            changes.put("a", format!("change {number}"));
            let timed = loader.builder();
            let residence = loader.interim(&base.manifest().protocol).residence;
            let applied = repository.apply_open(changes, &timed, residence, &Silent).unwrap();
            let Applied { record, servers } = applied;
            let delta = record.delta.unwrap();
            assert!(timed.observer().take().contains_key("encode"));
            let database = loader.take_over(&delta, &timed, servers, former.as_ref()).unwrap();
            assert_eq!(database.identity().version, delta.version());
            // The clock is now the database's, whose responder goes on using it.
            let query = database.responder().specimen();
            database.responder().answer(&[Query { bytes: &query, keys: None }]).unwrap();
            let steps = timed.observer().take();
            assert!(steps.contains_key("scalar_fold") && !steps.contains_key("encode"), "{steps:?}");
            former = Some(database);
        }
        // A build that opened nothing leaves the opening to the loader.
        let delta = repository.current().unwrap().delta.unwrap();
        assert!(loader.take_over(&delta, &loader.builder(), Vec::new(), None).is_none());
    }
}

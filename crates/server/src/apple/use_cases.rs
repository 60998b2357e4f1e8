//! The use cases that answer, and their versions.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use spirea_apple::messages::{Sha256, Sharding};
use spirea_apple::{Arithmetic, Compression, Database, KeyConfig, UseCase};
use spirea_cpu::CpuBackend;
use spirea_store::{AppleUseCase, Snapshot};

/// Number of kept versions of a use case: the current one, and one for clients that still have its
/// configuration.
const KEPT: usize = 2;

/// A use case on the processor.
pub(crate) type OnCpu = UseCase<CpuBackend>;

/// Opened use cases of a snapshot with their names, before they answer.
pub(crate) type Opened = Vec<(String, Arc<OnCpu>)>;

/// Reason why a use case does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// No snapshot has the use case.
    Unknown,
    /// The snapshot of the use case is being loaded, or could not be loaded.
    Loading,
}

struct Entry {
    /// Name of the database that has the use case.
    database: String,
    /// Versions, newest first; empty until the first one is loaded.
    versions: Vec<Arc<OnCpu>>,
}

/// The use cases of all databases, by name.
#[derive(Default)]
pub(crate) struct UseCases(RwLock<BTreeMap<String, Entry>>);

impl UseCases {
    /// Announces the use cases of a snapshot that is going to be loaded.
    pub fn announce(&self, database: &str, snapshot: &Snapshot) {
        let mut entries = self.write();
        for use_case in snapshot.manifest().apple.iter().flat_map(|apple| &apple.use_cases) {
            let entry = Entry { database: database.into(), versions: Vec::new() };
            entries.entry(use_case.name.clone()).or_insert(entry);
        }
    }

    /// Opens the use cases of a database's snapshot.
    ///
    /// # Errors
    /// A text for the operator if the tables are damaged, or another database has a use case of the
    /// same name.
    pub fn open(&self, database: &str, snapshot: &Snapshot, cpu: &Arc<CpuBackend>) -> Result<Opened, String> {
        let use_cases = snapshot.apple_use_cases().map_err(|error| error.to_string())?;
        if use_cases.is_empty() {
            return Ok(Opened::new());
        }
        let arithmetic = Arithmetic::new(Arc::clone(cpu)).map_err(|error| error.to_string())?;
        let arithmetic = Arc::new(arithmetic);
        let open = |AppleUseCase { name, shards }| {
            if let Some(other) = self.read().get(&name).filter(|entry| entry.database != database) {
                return Err(format!("the database {} has a use case {name} too", other.database));
            }
            let shards = shards
                .into_iter()
                .map(|(shape, tables)| Database::new(Arc::clone(&arithmetic), shape, &tables));
            let use_case = shards
                .collect::<Result<_, _>>()
                .and_then(|shards| UseCase::new(shards, Sharding::Sha256(Sha256 {}), Compression::None));
            Ok((name, Arc::new(use_case.map_err(|error| error.to_string())?)))
        };
        use_cases.into_iter().map(open).collect()
    }

    /// Makes `opened` the newest versions of the database's use cases. Removes use cases of the
    /// database that are not in `opened`.
    pub fn publish(&self, database: &str, opened: Opened) {
        let mut entries = self.write();
        entries
            .retain(|name, entry| entry.database != database || opened.iter().any(|(kept, _)| kept == name));
        for (name, use_case) in opened {
            let entry = Entry { database: database.into(), versions: Vec::new() };
            let Entry { versions, .. } = entries.entry(name).or_insert(entry);
            // A former version with an equal configuration is dropped: its queries are answered
            // from the newest data.
            versions.retain(|version| version.config_id() != use_case.config_id());
            versions.insert(0, use_case);
            versions.truncate(KEPT);
        }
    }

    /// Returns the versions of a use case, newest first: at least one.
    pub fn versions(&self, name: &str) -> Result<Vec<Arc<OnCpu>>, Absent> {
        match self.read().get(name) {
            None => Err(Absent::Unknown),
            Some(entry) if entry.versions.is_empty() => Err(Absent::Loading),
            Some(entry) => Ok(entry.versions.clone()),
        }
    }

    /// Returns the names of all use cases.
    pub fn names(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    /// Returns the keys with this identifier that a use case asks for.
    pub fn key_config(&self, identifier: &[u8]) -> Option<KeyConfig> {
        let entries = self.read();
        let versions = entries.values().flat_map(|entry| &entry.versions);
        let mut configs = versions.map(|version| version.key_config());
        configs.find(|config| config.hash() == identifier).cloned()
    }

    // A panic under this lock never leaves a partly changed entry.
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Entry>> {
        self.0.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Entry>> {
        self.0.write()
    }
}

use std::sync::Arc;

use spirea_protocols::signature::Signature;
use spirea_protocols::{TableKind, Version, delta};

use crate::scheduler::{Lane, Load};
use crate::{Database, LoadError};

/// Version of a database that answers: a base, and perhaps a delta with the changes since the base
/// was built. Clones share base and delta, and the queue of the version's requests.
#[derive(Clone)]
pub struct Served {
    version: Version,
    base: Arc<Database>,
    delta: Option<Arc<Database>>,
    signature: Option<Arc<Signature>>,
    values: Option<u64>,
    lane: Lane,
}

impl From<Database> for Served {
    fn from(base: Database) -> Self {
        let (version, values) = (base.identity().version, base.identity().table.entries);
        let base = Arc::new(base);
        Self { version, base, delta: None, signature: None, values: Some(values), lane: Lane::default() }
    }
}

impl Served {
    /// Combines a base and its delta into a version. Several versions may share a base.
    ///
    /// # Errors
    /// [`LoadError::Inconsistent`] if the two do not belong together.
    pub fn new(base: Arc<Database>, delta: Option<Arc<Database>>) -> Result<Self, LoadError> {
        if let Some(delta) = &delta {
            let (of_base, of_delta) = (base.identity(), delta.identity());
            let inconsistent = |what: &str| Err(LoadError::Inconsistent(what.into()));
            if of_delta.table.kind != TableKind::Keyword || of_delta.table.fields != of_base.table.fields {
                return inconsistent("the delta's table is not one of changes to the base's");
            }
            if of_delta.name != of_base.name || of_delta.party != of_base.party {
                return inconsistent(
                    "the delta belongs to another database than the base, or to another party",
                );
            }
        }
        let version =
            delta::version(base.identity().version, delta.as_ref().map(|delta| delta.identity().version));
        let values = delta.is_none().then_some(base.identity().table.entries);
        Ok(Self { version, base, delta, signature: None, values, lane: Lane::default() })
    }

    /// Returns the version with its delta replaced by `delta`, another form of the same delta. An
    /// example is a delta that was opened again. If `delta` belongs to another version, the version
    /// is unchanged.
    #[must_use]
    pub fn with_delta(self, delta: Arc<Database>) -> Self {
        let is_own = |own: &Arc<Database>| own.identity().version == delta.identity().version;
        match self.delta.as_ref().is_some_and(is_own) {
            true => Self { delta: Some(delta), ..self },
            false => self,
        }
    }

    /// Sets the operator's signature.
    pub fn signed(self, signature: Option<Signature>) -> Self {
        Self { signature: signature.map(Arc::new), ..self }
    }

    /// Sets the number of values that base and delta have together, if known.
    pub fn with_values(self, values: Option<u64>) -> Self {
        Self { values: values.or(self.values), ..self }
    }

    /// Returns the number of values in base and delta together, or of rows of a table by position;
    /// `None` if they were not counted.
    pub fn values(&self) -> Option<u64> {
        self.values
    }

    /// Returns the operator's signature, if there is one.
    pub fn signature(&self) -> Option<&Signature> {
        self.signature.as_deref()
    }

    /// Returns the version that clients name.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Returns the table as it was built.
    pub fn base(&self) -> &Arc<Database> {
        &self.base
    }

    /// Returns the delta, the changes since the base was built, if any.
    pub fn delta(&self) -> Option<&Arc<Database>> {
        self.delta.as_ref()
    }

    /// Iterates over the base, then the delta.
    pub fn parts(&self) -> impl Iterator<Item = &Arc<Database>> {
        [&self.base].into_iter().chain(&self.delta)
    }

    /// Returns true if all parts are open, and none was [released](Database::asleep).
    pub fn is_open(&self) -> bool {
        self.parts().all(|part| !part.is_asleep())
    }

    /// Returns the version's separate queue, which is unused if all versions share a queue.
    pub(crate) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Returns the numbers of requests that wait and that are being answered, if the version has
    /// its own queue ([`Engine::of_remote`]).
    ///
    /// [`Engine::of_remote`]: crate::Engine::of_remote
    pub fn load(&self) -> Load {
        self.lane.load()
    }

    /// Returns true if only the caller holds this version, and neither an engine nor a request
    /// does.
    pub fn is_left(&self) -> bool {
        self.lane.is_left()
    }

    /// Returns the largest number of look-ups in one request.
    pub fn max_batch(&self) -> usize {
        self.parts().map(|part| part.max_batch()).min().unwrap_or(1)
    }
}

/// Maximum number of versions of a database that are kept. Versions that share a base cost little.
pub const MOST_VERSIONS: usize = 16;

/// The versions of a database that answer, newest first.
#[derive(Clone, Default)]
pub(crate) struct Versions(Vec<Served>);

impl Versions {
    /// Maximum number of bases among the versions: the newest base, and the base that clients may
    /// still query.
    const BASES: usize = 2;

    /// Creates a list of these versions, newest first.
    pub fn exactly(mut versions: Vec<Served>) -> Self {
        versions.truncate(MOST_VERSIONS);
        Self(versions)
    }

    /// Returns all versions, newest first.
    pub fn all(&self) -> &[Served] {
        &self.0
    }

    /// Makes a version the newest, in place of any version of the same name, and drops versions
    /// that are too old.
    pub fn push(&mut self, served: Served) {
        self.0.retain(|other| other.version != served.version);
        self.0.insert(0, served);
        self.trim();
    }

    /// Adds a version as the oldest, unless it already answers or is too old.
    pub fn push_former(&mut self, served: Served) {
        if self.find(Some(&served.version)).is_none() {
            self.0.push(served);
            self.trim();
        }
    }

    /// Replaces every database of the same version by `database`.
    pub fn replace(&mut self, database: &Arc<Database>) {
        let version = database.identity().version;
        for served in &mut self.0 {
            for part in [&mut served.base].into_iter().chain(&mut served.delta) {
                if part.identity().version == version {
                    *part = Arc::clone(database);
                }
            }
        }
    }

    fn trim(&mut self) {
        self.0.truncate(MOST_VERSIONS);
        let mut bases: Vec<Version> = Vec::new();
        self.0.retain(|served| {
            let base = served.base.identity().version;
            if !bases.contains(&base) {
                bases.push(base);
            }
            bases.iter().position(|&known| known == base) < Some(Self::BASES)
        });
    }

    /// Returns the version of this name, by default the newest.
    pub fn find(&self, version: Option<&Version>) -> Option<&Served> {
        match version {
            None => self.0.first(),
            Some(version) => self.0.iter().find(|served| served.version == *version),
        }
    }
}

use std::sync::Arc;

use spirea_protocols::signature::Signature;
use spirea_protocols::{TableKind, delta};

use crate::scheduler::{Lane, Load};
use crate::{Database, LoadError};

/// A version of a database that answers: a base, and perhaps a delta with what has changed since the base was built.
/// Clones share both, and what is asked of it.
#[derive(Clone)]
pub struct Served {
    version: [u8; 32],
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
    /// A version of a base and its delta. Several versions may share a base.
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

    /// The same, with the operator's signature.
    pub fn signed(self, signature: Option<Signature>) -> Self {
        Self { signature: signature.map(Arc::new), ..self }
    }

    /// The same, with the number of values that base and delta have together, if it is known.
    pub fn with_values(self, values: Option<u64>) -> Self {
        Self { values: values.or(self.values), ..self }
    }

    /// Values that base and delta have together, or rows of a table by position; none if nobody has counted them.
    pub fn values(&self) -> Option<u64> {
        self.values
    }

    /// The operator's signature, if there is one.
    pub fn signature(&self) -> Option<&Signature> {
        self.signature.as_deref()
    }

    /// The version that clients name.
    pub fn version(&self) -> &[u8; 32] {
        &self.version
    }

    /// The table as it was built.
    pub fn base(&self) -> &Arc<Database> {
        &self.base
    }

    /// What has changed since, if anything has.
    pub fn delta(&self) -> Option<&Arc<Database>> {
        self.delta.as_ref()
    }

    /// The base, then the delta.
    pub fn parts(&self) -> impl Iterator<Item = &Arc<Database>> {
        [&self.base].into_iter().chain(&self.delta)
    }

    /// Where its requests wait if it has a queue of its own.
    pub(crate) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Requests waiting and being answered, where it has a queue of its own ([`Engine::of_remote`]).
    ///
    /// [`Engine::of_remote`]: crate::Engine::of_remote
    pub fn load(&self) -> Load {
        self.lane.load()
    }

    /// Whether neither an engine nor a request has it: nobody but who asks.
    pub fn is_left(&self) -> bool {
        self.lane.is_left()
    }

    /// The most look-ups in one request.
    pub fn max_batch(&self) -> usize {
        self.parts().map(|part| part.max_batch()).min().unwrap_or(1)
    }
}

/// The most versions of a database that are kept. Those that share a base cost little.
pub const MOST_VERSIONS: usize = 16;

/// The versions of a database that answer, newest first.
#[derive(Clone, Default)]
pub(crate) struct Versions(Vec<Served>);

impl Versions {
    /// The most bases among them: the newest, and the one that clients may still be asking.
    const BASES: usize = 2;

    /// These, newest first.
    pub fn exactly(mut versions: Vec<Served>) -> Self {
        versions.truncate(MOST_VERSIONS);
        Self(versions)
    }

    /// All, newest first.
    pub fn all(&self) -> &[Served] {
        &self.0
    }

    /// Makes a version the newest, in place of any that has its name, and lets go of those that are too old.
    pub fn push(&mut self, served: Served) {
        self.0.retain(|other| other.version != served.version);
        self.0.insert(0, served);
        self.trim();
    }

    /// Adds a version as the oldest, unless it answers already, or is too old.
    pub fn push_former(&mut self, served: Served) {
        if self.find(Some(&served.version)).is_none() {
            self.0.push(served);
            self.trim();
        }
    }

    /// Puts a database in the place of those of its version.
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
        let mut bases: Vec<[u8; 32]> = Vec::new();
        self.0.retain(|served| {
            let base = served.base.identity().version;
            if !bases.contains(&base) {
                bases.push(base);
            }
            bases.iter().position(|&known| known == base) < Some(Self::BASES)
        });
    }

    /// The newest, or the one of this name.
    pub fn find(&self, version: Option<&[u8; 32]>) -> Option<&Served> {
        match version {
            None => self.0.first(),
            Some(version) => self.0.iter().find(|served| served.version == *version),
        }
    }
}

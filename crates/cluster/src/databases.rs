//! Databases of a coordinator: the placed snapshots, and which of them answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use spirea_backend::Share;
use spirea_engine::{Engine, Load, Served};
use spirea_protocols::{Opening, Party, Role, Version};
use spirea_server::Processor;
use spirea_store::Snapshot;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::group::{Group, Patience};
use crate::placement::{DatabasePlacement, Placement, SnapshotPlacement};
use crate::rate::Rate;
use crate::remote::{Ending, RemoteShares, Shares};
use crate::replica::Expected;
use crate::report::ReplicaReport;
use crate::tls::MutualTls;

/// Pause before another attempt to open a snapshot that could not be opened.
const REOPEN: Duration = Duration::from_secs(2);
/// Time for which a snapshot stays current while some share has no replica, because workers may
/// come back.
const GRACE: Duration = Duration::from_secs(10);

/// Resources for opening snapshots.
pub(crate) struct Means {
    pub engine: Arc<Engine>,
    pub processor: Processor,
    pub tls: Arc<MutualTls>,
    pub party: Option<Party>,
    pub patience: Patience,
    pub runtime: Handle,
    pub ending: Ending,
}

/// The databases of a coordinator.
pub(crate) struct Databases {
    means: Means,
    placed: Mutex<Placed>,
    /// Notified when a replica changes or a snapshot has been opened.
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Placed {
    placement: Placement,
    databases: Snapshots,
    /// Snapshots that are no longer placed but still have pending requests.
    leaving: Snapshots,
}

/// Snapshots by the names of their databases.
type Snapshots = BTreeMap<String, Vec<Arc<Mutex<Opened>>>>;

impl Placed {
    /// Drops snapshots that are no longer placed and have no pending requests.
    fn let_go(&mut self) {
        self.leaving.retain(|_, snapshots| {
            snapshots.retain(|opened| opened.lock().stage.is_asked());
            !snapshots.is_empty()
        });
    }
}

/// A placed snapshot.
struct Opened {
    path: PathBuf,
    /// Required version.
    version: Version,
    count: usize,
    replicas: Vec<Vec<String>>,
    stage: Stage,
    /// Last time at which every share had a replica.
    complete: Option<Instant>,
}

enum Stage {
    /// The snapshot cannot be read: the cause, and the time of the next attempt.
    Refused(String, Instant),
    /// The manifest is read and workers are being connected. The snapshot is being opened, or waits
    /// for its workers so that batches can be timed.
    Opening(Shares),
    /// The snapshot answers.
    Ready(Shares, Served),
}

impl Stage {
    fn shares(&self) -> Option<&Shares> {
        match self {
            Self::Refused(..) => None,
            Self::Opening(shares) | Self::Ready(shares, _) => Some(shares),
        }
    }

    fn load(&self) -> Load {
        match self {
            Self::Refused(..) | Self::Opening(_) => Load::default(),
            Self::Ready(_, served) => served.load(),
        }
    }

    /// Returns true if clients get or will get answers from this snapshot.
    fn is_asked(&self) -> bool {
        matches!(self, Self::Ready(_, served) if !served.is_left())
    }
}

/// Report of a database.
#[derive(Debug, Serialize)]
pub(crate) struct DatabaseReport {
    pub name: String,
    /// Requests that wait, and requests that are being answered.
    pub waiting: usize,
    pub running: usize,
    pub queries_per_second: f64,
    pub queries: u64,
    /// Current version, in hexadecimal digits.
    pub current: Option<String>,
    pub snapshots: Vec<SnapshotReport>,
}

/// Report of a snapshot.
#[derive(Debug, Serialize)]
pub(crate) struct SnapshotReport {
    pub path: PathBuf,
    pub version: Option<String>,
    /// `refused`, `opening`, `ready`, or `leaving` if the snapshot is no longer placed.
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Requests for the snapshot, both waiting and being answered.
    pub in_flight: usize,
    pub shares: Vec<Vec<ReplicaReport>>,
}

impl Databases {
    /// Creates an empty set of databases.
    pub fn new(means: Means) -> Arc<Self> {
        Arc::new(Self { means, placed: Mutex::default(), changed: Arc::default() })
    }

    /// Serves exactly the placed snapshots from now on.
    pub fn apply(self: &Arc<Self>, placement: Placement) {
        let mut placed = self.placed.lock();
        let mut former = std::mem::take(&mut placed.databases);
        let mut leaving = std::mem::take(&mut placed.leaving);
        for DatabasePlacement { name, snapshots } in &placement.databases {
            if !self.means.engine.knows(name) {
                // From the first request on, clients hear that the database is being loaded, not
                // that it does not exist.
                self.means.engine.expect(name, Version::default());
            }
            let mut known = former.remove(name).unwrap_or_default();
            known.append(&mut leaving.remove(name).unwrap_or_default());
            let take = |snapshot: &SnapshotPlacement| {
                let same = |opened: &Arc<Mutex<Opened>>| {
                    let opened = opened.lock();
                    (&opened.path, opened.version, opened.count)
                        == (&snapshot.path, snapshot.version, snapshot.shares.len())
                };
                match known.iter().position(same) {
                    Some(index) => {
                        let opened = known.swap_remove(index);
                        opened.lock().place(&snapshot.shares);
                        opened
                    }
                    None => self.open(name, snapshot),
                }
            };
            let snapshots = snapshots.iter().map(take).collect();
            placed.databases.insert(name.clone(), snapshots);
            leaving.insert(name.clone(), known);
        }
        for (name, mut known) in former {
            self.means.engine.forget(&name);
            leaving.entry(name).or_default().append(&mut known);
        }
        placed.leaving = leaving;
        placed.let_go();
        placed.placement = placement;
        drop(placed);
        self.changed.notify_waiters();
    }

    /// Updates the answering versions whenever a replica or a snapshot changes, for ever.
    pub async fn attend(self: Arc<Self>) {
        loop {
            let changed = self.changed.notified();
            self.settle();
            // Some conditions change with time alone.
            let _ = tokio::time::timeout(GRACE / 10, changed).await;
        }
    }

    /// Serves every version that can answer; the last complete one becomes the current version.
    fn settle(self: &Arc<Self>) {
        let mut placed = self.placed.lock();
        for (name, snapshots) in &placed.databases {
            let mut ready = Vec::new();
            let mut current = None;
            for opened in snapshots {
                let served = self.look(name, opened);
                if let Some((served, complete)) = served {
                    if complete {
                        current = Some(ready.len());
                    }
                    ready.push(served);
                }
            }
            // While no snapshot is complete, the current one stays.
            let answering = self.means.engine.versions(name).unwrap_or_default();
            let former = answering.first().and_then(|newest| {
                ready.iter().position(|served: &Served| served.version() == newest.version())
            });
            if let Some(current) = current.or(former) {
                let newest = ready.remove(current);
                let wanted: Vec<Served> = [newest].into_iter().chain(ready.into_iter().rev()).collect();
                if !wanted.iter().map(Served::version).eq(answering.iter().map(Served::version)) {
                    tracing::info!(database = %name, versions = wanted.len(), "other versions answer");
                    self.means.engine.serve_exactly(name, wanted);
                }
            }
        }
        placed.let_go();
    }

    /// Returns the snapshot if it answers, with `true` if all its shares had a replica within the
    /// last [`GRACE`]. Retries a snapshot that could not be read.
    fn look(self: &Arc<Self>, name: &str, opened: &Arc<Mutex<Opened>>) -> Option<(Served, bool)> {
        let mut this = opened.lock();
        let now = Instant::now();
        if let Stage::Refused(_, again) = this.stage
            && now > again
        {
            let (path, version, count) = (this.path.clone(), this.version, this.count);
            this.stage = self.begin(name, (&path, version), count, opened);
            this.connect();
        }
        if this.stage.shares().is_some_and(Shares::are_ready) {
            this.complete = Some(now);
        }
        match &this.stage {
            Stage::Ready(_, served) => {
                Some((served.clone(), this.complete.is_some_and(|then| now.duration_since(then) < GRACE)))
            }
            Stage::Refused(..) | Stage::Opening(_) => None,
        }
    }

    fn open(self: &Arc<Self>, name: &str, snapshot: &SnapshotPlacement) -> Arc<Mutex<Opened>> {
        let SnapshotPlacement { path, version, shares } = snapshot;
        let opened = Arc::new(Mutex::new(Opened {
            path: path.clone(),
            version: *version,
            count: shares.len(),
            replicas: shares.clone(),
            stage: Stage::Refused(String::new(), Instant::now()),
            complete: None,
        }));
        let stage = self.begin(name, (path, *version), shares.len(), &opened);
        let mut this = opened.lock();
        this.stage = stage;
        this.connect();
        drop(this);
        opened
    }

    /// Reads the manifest of the placed folder and version, and opens the snapshot on a thread of
    /// its own.
    fn begin(
        self: &Arc<Self>,
        name: &str,
        (path, version): (&Path, Version),
        count: usize,
        opened: &Arc<Mutex<Opened>>,
    ) -> Stage {
        let refused = |cause: String| {
            tracing::error!(database = %name, snapshot = %path.display(), %cause, "a snapshot cannot be served");
            Stage::Refused(cause, Instant::now() + REOPEN)
        };
        let snapshot = match Snapshot::open(path) {
            Ok(snapshot) => snapshot,
            Err(error) => return refused(error.to_string()),
        };
        if snapshot.version() != version {
            let (found, wanted) = (snapshot.version().to_string(), version.to_string());
            return refused(format!(
                "{}: the folder has version {found}, and the placement names {wanted}; bring that version there",
                path.display()
            ));
        }
        let found = &snapshot.manifest().name;
        if found != name {
            return refused(format!("it is of the database {found:?}, not of {name:?}"));
        }
        let share = match Share::new(0, count) {
            Ok(share) => share,
            Err(error) => return refused(error.to_string()),
        };
        let Means { tls, runtime, .. } = &self.means;
        let group = |share| {
            let expected = Expected { version: snapshot.version(), share };
            Group::new(expected, tls, &self.changed, runtime)
        };
        let shares = Shares {
            version: snapshot.version(),
            groups: Arc::new(share.all().map(group).collect()),
            answered: Arc::new(Mutex::new(Rate::default())),
        };
        let (databases, opened, of_thread) = (Arc::downgrade(self), Arc::downgrade(opened), shares.clone());
        let work = move || {
            // A snapshot that is no longer placed is not opened any further.
            let placed = || Some((databases.upgrade()?, opened.upgrade()?));
            let Some((databases, _)) = placed() else { return };
            let joined = databases.join(&snapshot, share, &of_thread);
            drop(databases);
            let joined = joined.and_then(|database| {
                while !of_thread.are_ready() {
                    if placed().is_none() {
                        return Err("it is no longer placed".into());
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                // The coordinator sends the first batches itself, to measure how long batches take.
                database.measure().map_err(|error| error.to_string())?;
                Ok(Served::from(database))
            });
            let signature = snapshot.signature().map_err(|error| error.to_string());
            let joined = joined.and_then(|served| Ok(served.signed(signature?)));
            let Some((databases, opened)) = placed() else { return };
            let mut opened = opened.lock();
            opened.stage = match joined {
                Ok(served) => Stage::Ready(of_thread, served),
                Err(cause) => {
                    tracing::error!(snapshot = %snapshot.folder().display(), %cause, "a snapshot cannot be served");
                    Stage::Refused(cause, Instant::now() + REOPEN)
                }
            };
            drop(opened);
            databases.changed.notify_waiters();
        };
        match std::thread::Builder::new().name("spirea-open".into()).spawn(work) {
            Ok(_) => Stage::Opening(shares),
            Err(error) => refused(format!("the system gives no thread: {error}")),
        }
    }

    /// Opens the database of a snapshot whose rows lie on workers.
    fn join(
        &self,
        snapshot: &Snapshot,
        share: Share,
        shares: &Shares,
    ) -> Result<spirea_engine::Database, String> {
        let Means { processor, party, patience, runtime, ending, .. } = &self.means;
        snapshot.verify_beside_matrix().map_err(|error| error.to_string())?;
        let opening = Opening { role: Role::Joins(share), party: *party, ..Opening::default() };
        let (of_slots, shares) = (shares.clone(), shares.clone());
        let (patience, runtime) = (*patience, (runtime.clone(), ending.clone()));
        let opened = processor.open_behind(snapshot, opening, |joins| {
            Box::new(RemoteShares::new(joins, shares, patience, runtime))
        });
        let slots = Box::new(move || of_slots.slots());
        opened.map(|database| database.with_slots(slots)).map_err(|error| error.to_string())
    }

    /// Reports the databases in the order of the placement, followed by databases that are no
    /// longer placed but still have pending requests.
    pub fn report(&self) -> Vec<DatabaseReport> {
        let placed = self.placed.lock();
        let of = |name: &String| {
            let [databases, leaving] = [&placed.databases, &placed.leaving]
                .map(|snapshots| snapshots.get(name).map_or(&[][..], Vec::as_slice));
            self.report_of(name, databases, leaving)
        };
        let left = placed.leaving.keys().filter(|name| !placed.databases.contains_key(*name));
        placed.placement.databases.iter().map(|database| &database.name).chain(left).map(of).collect()
    }

    fn report_of(
        &self,
        name: &str,
        snapshots: &[Arc<Mutex<Opened>>],
        leaving: &[Arc<Mutex<Opened>>],
    ) -> DatabaseReport {
        let newest = self.means.engine.version(name, None).ok();
        let mut report = DatabaseReport {
            name: name.into(),
            waiting: 0,
            running: 0,
            queries_per_second: 0.0,
            queries: 0,
            current: newest.map(|newest| newest.version().to_string()),
            snapshots: Vec::new(),
        };
        for (opened, is_placed) in
            snapshots.iter().map(|opened| (opened, true)).chain(leaving.iter().map(|opened| (opened, false)))
        {
            let opened = opened.lock();
            let (state, cause) = match &opened.stage {
                Stage::Refused(cause, _) => ("refused", Some(cause.clone())),
                Stage::Opening(_) => ("opening", None),
                Stage::Ready(..) => (if is_placed { "ready" } else { "leaving" }, None),
            };
            let (load, shares) = (opened.stage.load(), opened.stage.shares());
            report.waiting += load.waiting;
            report.running += load.running;
            if let Some(shares) = shares {
                let mut answered = shares.answered.lock();
                report.queries_per_second += answered.per_second(Instant::now());
                report.queries += answered.total();
            }
            report.snapshots.push(SnapshotReport {
                path: opened.path.clone(),
                version: shares.map(|shares| shares.version.to_string()),
                state,
                cause,
                in_flight: load.waiting + load.running,
                shares: shares
                    .map_or_else(Vec::new, |shares| shares.groups.iter().map(Group::report).collect()),
            });
        }
        report
    }
}

impl Opened {
    /// Assigns these workers to the shares.
    fn place(&mut self, replicas: &[Vec<String>]) {
        self.replicas = replicas.to_vec();
        self.connect();
    }

    fn connect(&self) {
        if let Some(shares) = self.stage.shares() {
            shares.groups.iter().zip(&self.replicas).for_each(|(group, urls)| group.place(urls));
        }
    }
}

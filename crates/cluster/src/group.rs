//! The replicas of a share as a group: which replica is asked, when a second one is asked, and what
//! happens when a replica fails.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use spirea_protocols::{Partial, ProtocolError};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, sleep_until, timeout};

use crate::replica::{Ask, Expected, Refusal, Replica};
use crate::report::{ReplicaReport, ReplicaState};
use crate::standing::{Offence, SecondOpinions};
use crate::times::{HedgeBudget, Times};
use crate::tls::MutualTls;

/// Pause before a retry after all replicas were busy or failed.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of failures on one batch while replicas remain reachable. A batch on which all
/// replicas fail is not retried for ever.
const MOST_FAILURES: usize = 6;

/// A batch is stuck after `STUCK_FACTOR` times the time of a slow batch, and no sooner than
/// `STUCK_LEAST`. Before any batch has been timed, it is stuck after `STUCK_UNKNOWN`.
const STUCK_FACTOR: u32 = 10;
const STUCK_LEAST: Duration = Duration::from_secs(1);
const STUCK_UNKNOWN: Duration = Duration::from_secs(2);
const STUCK: &str = "it does not get on with a batch";

/// On average, one batch in `COMPARED` is also sent to another replica. So is the first batch of
/// each replica.
const COMPARED: u64 = 64;
const DIFFERENT: &str = "its partial differs from that of two other replicas";
const UNDECIDED: &str = "its partial differs from another replica's, and no third one tells which is right";

/// A partial, and the replica that sent it.
pub(crate) struct Answered {
    pub partial: Partial,
    pub replica: Arc<Replica>,
}

/// The replicas that were asked for a batch.
#[derive(Default)]
struct Round {
    asked: Vec<Arc<Replica>>,
    /// Replicas that have not answered.
    waiting: Vec<Arc<Replica>>,
}

impl Round {
    /// Records that a replica is asked, and returns it.
    fn ask(&mut self, replica: Arc<Replica>) -> Arc<Replica> {
        self.asked.push(Arc::clone(&replica));
        self.waiting.push(Arc::clone(&replica));
        replica
    }
}

/// Timeouts of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Time without any replica working on the batch: all are lost or busy.
    pub lost: Duration,
    /// Time with replicas working on the batch.
    pub computing: Duration,
}

/// A share and its replicas.
pub(crate) struct Group {
    expected: Expected,
    replicas: RwLock<Vec<Arc<Replica>>>,
    /// Notified when a replica becomes available or unavailable.
    changed: Arc<Notify>,
    times: Mutex<Times>,
    budget: Mutex<HedgeBudget>,
    opinions: Mutex<SecondOpinions>,
    /// Permit for comparing one batch at a time.
    comparing: Arc<Semaphore>,
    tls: Arc<MutualTls>,
    runtime: Handle,
}

impl Group {
    /// Creates a share without replicas. `changed` is notified when replicas become available or
    /// unavailable.
    pub fn new(expected: Expected, tls: &Arc<MutualTls>, changed: &Arc<Notify>, runtime: &Handle) -> Self {
        Self {
            expected,
            replicas: RwLock::default(),
            changed: Arc::clone(changed),
            times: Mutex::default(),
            budget: Mutex::default(),
            opinions: Mutex::new(SecondOpinions::new(Instant::now())),
            comparing: Arc::new(Semaphore::new(1)),
            tls: Arc::clone(tls),
            runtime: runtime.clone(),
        }
    }

    /// Replaces the replicas by those at `urls`. Removed replicas finish the batches that they
    /// have.
    pub fn place(&self, urls: &[String]) {
        let mut replicas = self.write();
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut *replicas)
            .into_iter()
            .partition(|replica| urls.iter().any(|url| url == replica.url()));
        let place = |url: &String| {
            let known = kept.iter().find(|replica| replica.url() == url).cloned();
            known.unwrap_or_else(|| {
                Replica::connect(url, self.expected, &self.tls, &self.changed, &self.runtime)
            })
        };
        *replicas = urls.iter().map(place).collect();
        drop(replicas);
        gone.iter().for_each(|replica| replica.leave());
    }

    /// Returns the number of replicas that can be asked.
    pub fn ready(&self) -> usize {
        self.read().iter().filter(|replica| replica.state() == ReplicaState::Ready).count()
    }

    /// Reports the replicas.
    pub fn report(&self) -> Vec<ReplicaReport> {
        self.read().iter().map(|replica| replica.report()).collect()
    }

    /// Returns the share's partial of a batch, `bytes` long, from the first replica to answer. If
    /// no replica can be asked, waits for one.
    ///
    /// # Errors
    /// [`ProtocolError::Unanswered`] if no replica answered in time, or if replicas failed on the
    /// batch `MOST_FAILURES` times and no other one was left to ask.
    pub async fn partial(
        &self,
        ask: &Ask,
        bytes: usize,
        patience: Patience,
    ) -> Result<Answered, ProtocolError> {
        let Patience { mut lost, mut computing } = patience;
        let mut failures = 0;
        self.budget.lock().earn();
        loop {
            let changed = self.changed.notified();
            let began = Instant::now();
            let outcome = timeout(computing, self.round(ask, bytes, &mut failures)).await;
            computing = computing.saturating_sub(began.elapsed());
            let ended = Instant::now();
            match outcome {
                Ok(Some(Ok(answered))) => return Ok(answered),
                Ok(Some(Err(Refusal::Failed(cause) | Refusal::Misread(cause))))
                    if failures >= MOST_FAILURES =>
                {
                    return Err(self.unanswered(&cause));
                }
                Ok(Some(Err(_))) => sleep(PAUSE).await,
                // No replica can be asked.
                Ok(None) => drop(timeout(lost, changed).await),
                Err(_) => return Err(self.unanswered("no replica was done with it in time")),
            }
            lost = lost.saturating_sub(ended.elapsed());
            if lost.is_zero() {
                return Err(self.unanswered("no replica could be asked in time"));
            }
        }
    }

    /// Returns the partial of a replica other than `but`, if one can be asked and the limit on
    /// second opinions allows it.
    pub async fn second_opinion(&self, ask: &Ask, bytes: usize, but: &Arc<Replica>) -> Option<Partial> {
        let other = self.pick(std::slice::from_ref(but))?;
        if !self.opinions.lock().pay(Instant::now()) {
            return None;
        }
        timeout(self.stuck_after(ask), other.partial(ask, bytes)).await.ok()?.ok()
    }

    /// Returns the permit for comparing a batch of the replica, if that batch is to be compared.
    /// Batches are drawn at random, so that no replica knows which of its partials are compared.
    pub fn draw(&self, replica: &Replica) -> Option<OwnedSemaphorePermit> {
        let drawn = RandomState::new().build_hasher().finish().is_multiple_of(COMPARED);
        if !(drawn || replica.is_new()) || self.ready() < 2 {
            return None;
        }
        let place = Arc::clone(&self.comparing).try_acquire_owned().ok()?;
        replica.note_drawn();
        Some(place)
    }

    /// Compares the partial of a batch, `bytes` long, with another replica's. Honest replicas send
    /// equal bytes. If the two partials differ, a third replica decides which of the two replicas
    /// is asked last for a while. Without a decision, both replicas are asked last, so that an
    /// operator sees them.
    pub async fn compare(&self, ask: &Ask, bytes: usize, answered: &Answered) {
        let Answered { partial, replica } = answered;
        // An avoided replica may have lied, so its partial is no evidence against others.
        let pick = |asked: &[Arc<Replica>]| self.pick(asked).filter(|other| !other.rank().0);
        let patience = self.stuck_after(ask);
        let opinion_of =
            async |other: &Replica| timeout(patience, other.uncounted(ask, bytes)).await.ok()?.ok();
        let Some(second) = pick(std::slice::from_ref(replica)) else { return };
        let Some(other) = opinion_of(&second).await else { return };
        if other == *partial {
            return;
        }
        let third = match pick(&[Arc::clone(replica), Arc::clone(&second)]) {
            Some(third) => opinion_of(&third).await,
            None => None,
        };
        match third {
            Some(third) if third == *partial => second.offend(Offence::Lie, DIFFERENT),
            Some(third) if third == other => replica.offend(Offence::Lie, DIFFERENT),
            _ => [replica, &second].iter().for_each(|replica| replica.offend(Offence::Lie, UNDECIDED)),
        }
    }

    fn unanswered(&self, cause: &str) -> ProtocolError {
        let share = self.expected.share;
        ProtocolError::Unanswered(format!("share {} of {}: {cause}", share.index(), share.count()))
    }

    /// Returns the time after which a batch is stuck. Another replica is then asked, regardless of
    /// the budget for second requests.
    fn stuck_after(&self, ask: &Ask) -> Duration {
        self.times
            .lock()
            .slow(ask.queries)
            .map_or(STUCK_UNKNOWN, |slow| (slow * STUCK_FACTOR).max(STUCK_LEAST))
    }

    /// Asks the replicas one after another, each once, until one answers; sends a second request
    /// beside a slow one. Returns `None` if no replica can be asked, and the last refusal if all
    /// that were asked refused.
    async fn round(
        &self,
        ask: &Ask,
        bytes: usize,
        failures: &mut usize,
    ) -> Option<Result<Answered, Refusal>> {
        let mut round = Round::default();
        let mut attempts = FuturesUnordered::new();
        let begin = |replica: Arc<Replica>| async move {
            let began = Instant::now();
            let outcome = replica.partial(ask, bytes).await;
            (replica, outcome, began.elapsed())
        };
        attempts.push(begin(round.ask(self.pick(&[])?)));
        let slow = self.times.lock().slow(ask.queries);
        let mut hedge_at = slow.map(|slow| Instant::now() + slow);
        let stuck_after = self.stuck_after(ask);
        let mut stuck_at = Instant::now() + stuck_after;
        loop {
            let hedge = async {
                match hedge_at {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some((replica, outcome, time)) = attempts.next() => {
                    round.waiting.retain(|other| !Arc::ptr_eq(other, &replica));
                    match outcome {
                        Ok(partial) => {
                            self.times.lock().note(ask.queries, time);
                            return Some(Ok(Answered { partial, replica }));
                        }
                        Err(refusal) => {
                            // A lost replica does not show that the batch is at fault.
                            if let Refusal::Failed(_) | Refusal::Misread(_) = refusal {
                                *failures += 1;
                            }
                            match self.pick(&round.asked) {
                                Some(next) => attempts.push(begin(round.ask(next))),
                                None if attempts.is_empty() => return Some(Err(refusal)),
                                None => (),
                            }
                        }
                    }
                }
                () = hedge => {
                    hedge_at = None;
                    if let Some(second) = self.pick(&round.asked)
                        && self.budget.lock().pay()
                    {
                        second.note_hedge();
                        attempts.push(begin(round.ask(second)));
                    }
                }
                () = sleep_until(stuck_at.into()) => {
                    stuck_at = Instant::now() + stuck_after;
                    if let Some(next) = self.pick(&round.asked) {
                        round.waiting.iter().for_each(|stuck| stuck.offend(Offence::Fault, STUCK));
                        attempts.push(begin(round.ask(next)));
                    }
                }
            }
        }
    }

    /// Returns the least loaded replica that can be asked and is not in `asked`. Avoided replicas
    /// come last.
    fn pick(&self, asked: &[Arc<Replica>]) -> Option<Arc<Replica>> {
        let replicas = self.read();
        let free = replicas.iter().filter(|replica| {
            replica.state() == ReplicaState::Ready && !asked.iter().any(|other| Arc::ptr_eq(other, replica))
        });
        let ranked = free.map(|replica| (replica.rank(), replica));
        let best = ranked.min_by(|((avoided, burden), _), ((other, more), _)| {
            avoided.cmp(other).then(burden.total_cmp(more))
        });
        best.map(|(_, replica)| Arc::clone(replica))
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Arc<Replica>>> {
        self.replicas.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Arc<Replica>>> {
        self.replicas.write()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.read().iter().for_each(|replica| replica.leave());
    }
}

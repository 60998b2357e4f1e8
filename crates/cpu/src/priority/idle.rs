//! The time of idle processors, for threads of low priority on Linux.
//!
//! A thread with a high nice value is a thread like any other when the kernel chooses a processor
//! for a thread that wakes up. Both threads of a look-up may then come to one of two processors,
//! while the other one computes a publication. A processor with threads of the policy `SCHED_IDLE`
//! counts as idle, and these threads leave it at once. But while other threads want all processors,
//! they get less than a hundredth of the time. A watcher therefore compares how long they ran with
//! how long they waited. Threads that starve get the normal policy, with their nice value, until
//! they have run for a while. If the process may not give threads the normal policy again, all
//! threads keep it.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::thread::{Pid, gettid};

/// Time between two looks of the watcher.
const LOOK: Duration = Duration::from_millis(if cfg!(test) { 250 } else { 15_000 });
/// Threads starve if together they run for less than this time between two looks, and wait.
const STARVED: Duration = LOOK.checked_div(20).unwrap();
/// Threads that starved have the normal policy until together they have run for this time. Threads
/// of low priority in other processes wait meanwhile. They do not starve: without normal threads,
/// the relief ends within seconds.
const RELIEF: Duration = LOOK.checked_div(5).unwrap();
/// Maximum time of a relief.
const LONGEST_RELIEF: Duration = LOOK.saturating_mul(4);
/// Time between two looks during a relief.
const RELIEF_LOOK: Duration = LOOK.checked_div(60).unwrap();

/// Threads of low priority, and their policy.
static THREADS: Mutex<Threads> = Mutex::new(Threads { all: Vec::new(), policy: Policy::Idle });
/// The watcher's thread, once there is one.
static WATCHER: OnceLock<Thread> = OnceLock::new();

/// Lets threads of low priority use the time of idle processors from now on, instead of a part of
/// all processors' time. It has no effect if the process may not give such threads the normal
/// policy again, which takes a limit `RLIMIT_NICE` of at least 10 or the capability `CAP_SYS_NICE`,
/// or if the kernel does not tell how long threads wait (`/proc/self/task/*/schedstat`).
pub fn use_idle_time() {
    static FIRST: Mutex<()> = Mutex::new(());
    let _first = FIRST.lock();
    if WATCHER.get().is_some() {
        return;
    }
    // A thread that ends tries what threads of low priority will need.
    let trial = || super::become_nicer().is_ok() && Policy::may_change(gettid());
    let trial = thread::Builder::new().spawn(trial).map(|trial| trial.join().unwrap_or(false));
    if let Ok(true) = trial
        && let Ok(watcher) = thread::Builder::new().name("spirea-watcher".into()).spawn(watch)
    {
        let _ = WATCHER.set(watcher.thread().clone());
    }
}

/// Policy of threads of low priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// The threads run while processors are idle.
    Idle,
    /// The threads get the part of the time that their nice value says.
    Normal,
}

impl Policy {
    /// Gives a thread of this process the policy. Returns false if the kernel refuses.
    fn give(self, thread: Pid) -> bool {
        let policy = match self {
            Self::Idle => libc::SCHED_IDLE,
            Self::Normal => libc::SCHED_OTHER,
        };
        // The kernel's `sched_param` is one number. That of musl has more fields, and musl's
        // function of this name does nothing.
        let call = libc::SYS_sched_setscheduler;
        let priority: libc::c_int = 0;
        // SAFETY: the kernel reads the priority, and changes this thread alone.
        unsafe { libc::syscall(call, thread.as_raw_nonzero(), policy, &raw const priority) == 0 }
    }

    /// Returns true if a thread, which is the calling one, may leave the normal policy and return,
    /// and if the kernel tells its times.
    fn may_change(thread: Pid) -> bool {
        Times::of(thread).is_some() && Self::Idle.give(thread) && Self::Normal.give(thread)
    }
}

/// Threads of low priority.
struct Threads {
    all: Vec<Pid>,
    policy: Policy,
}

impl Threads {
    /// Gives all threads, and those that come later, a policy.
    fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        for &thread in &self.all {
            policy.give(thread);
        }
    }
}

/// A thread that the watcher looks at, until it ends.
pub(super) struct Watched(Pid);

impl Watched {
    /// Hands the calling thread to the watcher; `None` if there is none.
    pub(super) fn new() -> Option<Self> {
        let (watcher, thread) = (WATCHER.get()?, gettid());
        let mut threads = THREADS.lock();
        threads.policy.give(thread);
        threads.all.push(thread);
        watcher.unpark();
        Some(Self(thread))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        THREADS.lock().all.retain(|&thread| thread != self.0);
    }
}

/// Times of a thread since its start: in which it ran, and in which it waited for a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    ran: Duration,
    waited: Duration,
}

impl Times {
    /// Returns a thread's times; `None` if it has ended, or if the kernel does not tell.
    fn of(thread: Pid) -> Option<Self> {
        let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
        Self::parse(&std::fs::read_to_string(path).ok()?)
    }

    /// Parses two numbers of nanoseconds, and whatever follows them.
    fn parse(text: &str) -> Option<Self> {
        let mut times = text.split_whitespace().map(|number| number.parse().map(Duration::from_nanos));
        Some(Self { ran: times.next()?.ok()?, waited: times.next()?.ok()? })
    }
}

/// Times of threads by their numbers.
type AllTimes = BTreeMap<i32, Times>;

/// Returns the times of all threads of low priority.
fn look() -> AllTimes {
    let threads = THREADS.lock().all.clone();
    let times = |thread: Pid| Some((thread.as_raw_nonzero().get(), Times::of(thread)?));
    threads.into_iter().filter_map(times).collect()
}

/// Looks at the threads, and lets them run if they starve, until the process ends.
fn watch() {
    loop {
        let before = look();
        if before.is_empty() {
            thread::park();
        }
        thread::sleep(LOOK);
        let now = look();
        if starve(&before, &now) {
            THREADS.lock().set_policy(Policy::Normal);
            relieve(now);
            THREADS.lock().set_policy(Policy::Idle);
        }
    }
}

/// Waits until threads have run for the time of a relief since a look.
fn relieve(mut before: AllTimes) {
    let (began, mut ran) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < LONGEST_RELIEF && ran < RELIEF {
        thread::sleep(RELIEF_LOOK);
        let now = look();
        ran += between(&before, &now).ran;
        before = now;
    }
}

/// Returns the sum of all threads' times between two looks. A thread that was not there at the
/// first look counts from the second one on.
fn between(before: &AllTimes, now: &AllTimes) -> Times {
    let mut sum = Times { ran: Duration::ZERO, waited: Duration::ZERO };
    for (thread, now) in now {
        if let Some(before) = before.get(thread) {
            sum.ran += now.ran.saturating_sub(before.ran);
            sum.waited += now.waited.saturating_sub(before.waited);
        }
    }
    sum
}

/// Returns true if threads hardly ran between two looks, although they could.
fn starve(before: &AllTimes, now: &AllTimes) -> bool {
    let Times { ran, waited } = between(before, now);
    waited > LOOK / 2 && ran < STARVED
}

#[cfg(test)]
mod tests {
    use std::hint::spin_loop;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;
    use crate::priority::low_priority_pool;

    fn times(ran: u64, waited: u64) -> Times {
        Times { ran: Duration::from_millis(ran), waited: Duration::from_millis(waited) }
    }

    #[test]
    fn threads_starve_if_they_wait_and_hardly_run() {
        let before = BTreeMap::from([(1, times(500, 10)), (2, times(0, 0))]);
        let starved = |one: Times, two: Times| starve(&before, &BTreeMap::from([(1, one), (2, two)]));
        assert!(starved(times(510, 230), times(2, 200)));
        // They run for a twentieth of the time, or have no work.
        assert!(!starved(times(510, 220), times(3, 200)));
        assert!(!starved(times(501, 30), times(0, 0)));
        // A thread that was not there before has no times yet.
        assert!(!starve(&BTreeMap::new(), &before));
        assert!(!starve(&before, &BTreeMap::from([(3, times(0, 5000))])));
    }

    #[test]
    fn times_are_parsed() {
        assert_eq!(Times::parse("7000000 9000000 12\n"), Some(times(7, 9)));
        for wrong in ["", "7000000", "7000000 x 12", "-1 2 3"] {
            assert_eq!(Times::parse(wrong), None, "{wrong}");
        }
    }

    fn policy() -> i64 {
        // SAFETY: returns a property of the calling thread.
        unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }
    }

    /// Confines the calling thread, and threads that it starts from now on, to one processor.
    fn confine() {
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        sched_setaffinity(None, &one).unwrap();
    }

    #[test]
    fn threads_of_low_priority_use_idle_time_until_they_starve() {
        use_idle_time();
        // In containers, processes often may not return from this policy.
        if WATCHER.get().is_none() {
            return;
        }
        let before = policy();
        let done = AtomicBool::new(false);
        let busy = || {
            while !done.load(Ordering::Relaxed) {
                spin_loop();
            }
        };
        let wait_for = |expected: i32| {
            while policy() != i64::from(expected) {
                spin_loop();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                confine();
                let pool = low_priority_pool(1).unwrap();
                // While threads of another test starve, the policy is the normal one.
                pool.install(|| wait_for(libc::SCHED_IDLE));
                scope.spawn(busy);
                scope.spawn(busy);
                pool.install(|| wait_for(libc::SCHED_OTHER));
                done.store(true, Ordering::Relaxed);
                pool.install(|| wait_for(libc::SCHED_IDLE));
            });
        });
        assert_eq!(policy(), before);
    }
}

//! Priority of work that must not delay look-ups, such as building a version that is published.
//!
//! Such work runs on threads of its own: look-ups neither wait behind its loops in a queue of
//! tasks, nor share a processor with it in equal parts. This also applies to the loops of code that
//! knows no backend, because rayon runs a loop in the pool of the thread that starts the loop. On
//! Linux, its threads have a nice value, and in a program that asks for it, they use the time of
//! idle processors ([`use_idle_time`]). On other systems, threads have no priority of their own, so
//! only the queues are separate.

mod heap;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod idle;

use std::cell::Cell;

use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Nice value of threads of low priority above that of the process. While all processors are busy,
/// such a thread gets a tenth of the time of a normal thread, so that its work ends under any load.
/// It has no effect while the thread uses the time of idle processors.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NICER: i32 = 10;

thread_local! {
    static IS_LOW: Cell<bool> = const { Cell::new(false) };
}
#[cfg(any(target_os = "linux", target_os = "android"))]
thread_local! {
    static WATCHED: std::cell::RefCell<Option<idle::Watched>> = const { std::cell::RefCell::new(None) };
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub use idle::use_idle_time;
/// Does nothing: threads have no priority of their own on this system.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn use_idle_time() {}

/// Returns true if the calling thread's operations belong on threads of low priority.
pub(crate) fn is_low() -> bool {
    IS_LOW.get()
}

/// Lowers the priority of the calling thread until it ends. Backends then compute its operations on
/// threads of low priority. An unprivileged process cannot raise a priority again, so the thread
/// should have no other work.
pub fn lower_priority() {
    IS_LOW.set(true);
    // The kernel refuses no thread that becomes nicer; without its consent the work is only
    // separate.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let _ = become_nicer();
        WATCHED.with_borrow_mut(|watched| *watched = watched.take().or_else(idle::Watched::new));
    }
}

/// Gives the calling thread the nice value of threads of low priority.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn become_nicer() -> rustix::io::Result<()> {
    low().and_then(|nice| rustix::process::setpriority_process(None, nice))
}

/// Returns the nice value of threads of low priority. The main thread has that of the process; a
/// thread inherits that of its creator.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn low() -> rustix::io::Result<i32> {
    use rustix::process::{getpid, getpriority_process};
    const NICEST: i32 = 19;
    Ok(getpriority_process(Some(getpid()))?.saturating_add(NICER).min(NICEST))
}

/// Number of threads of a pool for work that has no backend: rayon's default, one for each
/// processor.
const DEFAULT_THREADS: usize = 0;
/// Maximum number of unused pools that are kept.
const MOST_UNUSED: usize = 2;

/// Pools without work. Each has served an earlier call of [`at_low_priority`].
static UNUSED: Mutex<Vec<ThreadPool>> = Mutex::new(Vec::new());

/// Runs `work` and the loops in it at low priority, on threads that have no other work meanwhile,
/// and waits for its end. `work` may therefore hold locks during its loops: a thread that waits for
/// the end of a loop takes no other work that needs the same locks. If the system gives no threads,
/// runs `work` on the calling thread. Memory that `work` has freed returns to the system.
///
/// # Panics
/// If `work` panics.
pub fn at_low_priority<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if is_low() && rayon::current_thread_index().is_some() {
        return work();
    }
    let unused = UNUSED.lock().pop();
    let Ok(pool) = unused.map_or_else(|| low_priority_pool(DEFAULT_THREADS), Ok) else { return work() };
    let result = pool.install(work);
    let mut unused = UNUSED.lock();
    if unused.len() < MOST_UNUSED {
        unused.push(pool);
    }
    drop(unused);
    // The calling thread does this: one of low priority may wait for a processor while it holds a
    // heap's lock, which look-ups need.
    heap::return_free_memory();
    result
}

/// Creates a pool of threads of low priority.
pub(crate) fn low_priority_pool(threads: usize) -> Result<ThreadPool, ThreadPoolBuildError> {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("spirea-low-{i}"))
        .start_handler(|_| lower_priority())
        .build()
}

/// Runs `work` so that backends compute its operations on their normal threads, also if the calling
/// thread has a low priority. For measuring how long answers take.
pub fn at_normal_priority<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_LOW.set(self.0);
        }
    }
    let _restore = Restore(IS_LOW.replace(false));
    work()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::thread;

    use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
    use spirea_backend::Backend as _;

    use super::*;
    use crate::CpuBackend;

    /// Names of the threads on which the backend runs loops.
    fn threads(backend: &CpuBackend) -> Vec<String> {
        let names = Mutex::new(Vec::new());
        backend.each(2, &|_| names.lock().push(thread::current().name().unwrap_or("").to_owned()));
        names.into_inner()
    }

    fn all_start_with(names: &[String], start: &str) -> bool {
        !names.is_empty() && names.iter().all(|name| name.starts_with(start))
    }

    #[test]
    fn work_of_low_priority_has_threads_of_its_own() {
        let backend = CpuBackend::new(2).unwrap();
        assert!(all_start_with(&threads(&backend), "spirea-cpu-"));
        at_low_priority(|| {
            assert!(all_start_with(&threads(&backend), "spirea-low-"));
            // Nothing changes within it.
            at_low_priority(|| assert!(all_start_with(&threads(&backend), "spirea-low-")));
            at_normal_priority(|| assert!(all_start_with(&threads(&backend), "spirea-cpu-")));
            assert!(all_start_with(&threads(&backend), "spirea-low-"));
        });
        assert!(!is_low() && all_start_with(&threads(&backend), "spirea-cpu-"));
    }

    #[test]
    fn neither_kind_of_work_waits_for_the_other() {
        let backend = CpuBackend::new(1).unwrap();
        let ((begun, begins), (go, gone)) = (channel(), channel());
        let gone = Mutex::new(gone);
        // Holds one of the threads on which the caller's loops run.
        let hold = || {
            backend.each(2, &|i| {
                if i == 0 {
                    begun.send(()).unwrap();
                    gone.lock().recv().unwrap();
                }
            });
        };
        thread::scope(|scope| {
            let look_up = scope.spawn(hold);
            begins.recv().unwrap();
            at_low_priority(|| assert_eq!(threads(&backend).len(), 2));
            go.send(()).unwrap();
            look_up.join().unwrap();

            let building = scope.spawn(|| at_low_priority(hold));
            begins.recv().unwrap();
            assert_eq!(threads(&backend).len(), 2);
            go.send(()).unwrap();
            building.join().unwrap();
        });
    }

    /// Names of the threads on which a loop without a backend runs.
    fn threads_without_backend() -> Vec<String> {
        let name = |_| thread::current().name().unwrap_or("").to_owned();
        (0..1000).into_par_iter().map(name).collect()
    }

    #[test]
    fn loops_without_a_backend_have_low_priority_too() {
        assert!(threads_without_backend().iter().all(|name| !name.starts_with("spirea-low-")));
        at_low_priority(|| {
            assert!(all_start_with(&threads_without_backend(), "spirea-low-"));
            at_low_priority(|| assert!(all_start_with(&threads_without_backend(), "spirea-low-")));
        });
        // A thread of low priority is not enough: its loops would run in rayon's common pool.
        thread::spawn(|| {
            lower_priority();
            at_low_priority(|| assert!(all_start_with(&threads_without_backend(), "spirea-low-")));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn works_that_need_one_lock_do_not_wait_for_each_other_on_one_thread() {
        let lock = Mutex::new(());
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    at_low_priority(|| {
                        let _held = lock.lock();
                        assert!(all_start_with(&threads_without_backend(), "spirea-low-"));
                    });
                });
            }
        });
        assert!(UNUSED.lock().len() <= MOST_UNUSED);
    }

    #[test]
    fn a_panic_is_the_callers() {
        let panic = catch_unwind(AssertUnwindSafe(|| at_low_priority(|| panic!("defect"))));
        assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "defect");
        assert_eq!(at_low_priority(|| 7), 7);
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn threads_are_nicer_and_no_other_thread_is() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let backend = CpuBackend::new(2).unwrap();
        let lowered = at_low_priority(|| {
            let found = Mutex::new(vec![nice()]);
            backend.each(2, &|_| found.lock().push(nice()));
            found.into_inner()
        });
        assert_eq!(lowered, [low().unwrap(); 3]);
        assert!(low().unwrap() > before || before >= 19);
        assert_eq!(nice(), before);
        backend.each(2, &|_| assert_eq!(nice(), before));
    }
}

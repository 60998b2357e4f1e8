//! Queue between evaluation workers and clusters (IM-PIR section 3.4, Figure 8).

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

struct State<T> {
    tasks: VecDeque<T>,
    /// Number of tasks that were taken, and neither done nor given back.
    taken: usize,
    /// Number of clusters that still take tasks.
    workers: usize,
    is_closed: bool,
}

/// Queue of tasks that any cluster may take. Its length is bounded, so that evaluation does not run
/// ahead of the memories.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    room: usize,
}

/// Registration of a cluster that takes tasks; it ends when dropped.
pub(crate) struct Worker<'a, T>(&'a Queue<T>);

impl<T> Queue<T> {
    /// Creates a queue for at most `room` tasks, at least 1.
    pub fn new(room: usize) -> Self {
        let state = State { tasks: VecDeque::new(), taken: 0, workers: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), room: room.max(1) }
    }

    /// Registers another cluster that takes tasks.
    pub fn worker(&self) -> Worker<'_, T> {
        self.state.lock().workers += 1;
        Worker(self)
    }

    /// Adds a task, waiting for room; drops the task if all clusters have left.
    pub fn push(&self, task: T) {
        let mut state = self.state.lock();
        while state.tasks.len() >= self.room && state.workers > 0 {
            self.changed.wait(&mut state);
        }
        if state.workers > 0 {
            state.tasks.push_back(task);
            self.changed.notify_all();
        }
    }

    /// Declares that no more tasks will come.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }
}

impl<T> Worker<'_, T> {
    /// Waits for `count` tasks, so that the number of passes does not depend on the time at which
    /// tasks come. Takes fewer once the queue is closed. Returns an empty list if no task is left,
    /// and no other cluster can give a task back.
    pub fn take(&self, count: usize) -> Vec<T> {
        let count = count.min(self.0.room);
        let mut state = self.0.state.lock();
        loop {
            if state.tasks.len() >= count || (state.is_closed && !state.tasks.is_empty()) {
                let count = count.min(state.tasks.len());
                state.taken += count;
                self.0.changed.notify_all();
                return state.tasks.drain(..count).collect();
            }
            if state.is_closed && state.taken == 0 {
                return Vec::new();
            }
            self.0.changed.wait(&mut state);
        }
    }

    /// Reports that `tasks` of the taken tasks are done.
    pub fn done(&self, tasks: usize) {
        self.0.state.lock().taken -= tasks;
        self.0.changed.notify_all();
    }

    /// Returns tasks that this cluster could not do, for other clusters.
    pub fn give_back(&self, tasks: Vec<T>) {
        let mut state = self.0.state.lock();
        state.taken -= tasks.len();
        state.tasks.extend(tasks);
        self.0.changed.notify_all();
    }
}

impl<T> Drop for Worker<'_, T> {
    fn drop(&mut self) {
        self.0.state.lock().workers -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn every_task_is_done_once_whoever_fails() {
        for (workers, failing) in [(1, 0), (3, 1), (4, 3)] {
            let queue = Queue::new(2);
            let done = Mutex::new(Vec::new());
            let all: Vec<_> = (0..workers).map(|_| queue.worker()).collect();
            std::thread::scope(|scope| {
                for (i, worker) in all.into_iter().enumerate() {
                    let done = &done;
                    scope.spawn(move || {
                        loop {
                            let tasks = worker.take(3);
                            if tasks.is_empty() {
                                return;
                            }
                            if i < failing {
                                worker.give_back(tasks);
                                return;
                            }
                            let count = tasks.len();
                            done.lock().extend(tasks);
                            worker.done(count);
                        }
                    });
                }
                (0..100).for_each(|task| queue.push(task));
                queue.close();
            });
            let mut done = done.into_inner();
            done.sort_unstable();
            assert_eq!(done, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn tasks_are_taken_together_however_late_they_come() {
        let queue = Queue::new(8);
        let worker = queue.worker();
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| [worker.take(4).len(), worker.take(4).len()]);
            for task in 0..6 {
                queue.push(task);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            queue.close();
            assert_eq!(taken.join().unwrap(), [4, 2]);
        });
    }

    #[test]
    fn nobody_waits_for_clusters_that_have_left() {
        let queue = Queue::new(1);
        let worker = queue.worker();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let tasks = worker.take(1);
                worker.give_back(tasks);
                drop(worker);
            });
            (0..10).for_each(|task| queue.push(task));
            queue.close();
        });
    }
}

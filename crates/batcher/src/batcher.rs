//! The policy: selects the requests that are computed together, and the time of their computation.
//! It is a state machine that is told the time, so a simulation and a test run it exactly as the
//! server does.
//!
//! Times are durations since a fixed instant.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::Pace;

/// Time that a query waits for others, in order to share a scan of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// As long as the scan takes. Waiting longer costs more than sharing the scan saves, so latency
    /// is at most about twice that of a query alone (IVE, section V).
    #[default]
    Scan,
    /// A fixed time; zero to compute waiting queries as soon as the backend is free.
    Fixed(Duration),
}

impl Window {
    fn lasts(self, pace: Pace) -> Duration {
        match self {
            Self::Scan => pace.scan,
            Self::Fixed(time) => time,
        }
    }
}

/// Conditions for the computation of a request.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Group of the request. Requests of one group may share a batch: they are for one database,
    /// and so have the same protocol, parameters and version.
    pub group: u64,
    /// Maximum number of queries in a batch.
    pub limit: usize,
    /// Estimated time of the group's batches.
    pub pace: Pace,
}

/// A request of a batch.
#[derive(Debug)]
pub struct Request<T> {
    /// Time of its arrival.
    pub arrived: Duration,
    /// Number of its queries; they are never split over batches.
    pub queries: usize,
    /// Value that came with it.
    pub item: T,
}

/// Requests to compute together.
#[derive(Debug)]
pub struct Batch<T> {
    /// Number that identifies the batch.
    pub number: u64,
    /// Group of its requests.
    pub group: u64,
    /// Number of its queries: at most the limit, unless a single request has more.
    pub queries: usize,
    /// The requests, in the order of their arrival.
    pub requests: Vec<Request<T>>,
}

/// Next action of the scheduler.
#[derive(Debug)]
pub enum Next<T> {
    /// Compute this batch, then call [`finished`](Batcher::finished).
    Launch(Batch<T>),
    /// Ask again at this time, or when a request arrives.
    Wait(Duration),
    /// Wait until a request arrives or a batch is finished.
    Idle,
}

/// A request that found the queue full.
#[derive(Debug)]
pub struct Full<T> {
    /// Value that came with it.
    pub item: T,
    /// Estimated time of the work that waits or runs.
    pub backlog: Duration,
}

/// Identifier of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestNumber {
    group: u64,
    number: u64,
}

/// Numbers of requests that wait and that are being answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests in all running batches.
    pub running: usize,
}

struct Waiting<T> {
    number: u64,
    request: Request<T>,
}

struct Group<T> {
    terms: Terms,
    window: Duration,
    queries: usize,
    /// Waiting requests of the group; never empty.
    waiting: VecDeque<Waiting<T>>,
}

impl<T> Group<T> {
    /// Returns the end of the window.
    fn ends(&self) -> Duration {
        self.waiting[0].request.arrived.saturating_add(self.window)
    }

    fn is_due(&self, now: Duration) -> bool {
        self.queries >= self.terms.limit || self.ends() <= now
    }

    /// Takes the first requests whose queries make one batch.
    fn take(&mut self) -> Vec<Request<T>> {
        let sums = self.waiting.iter().scan(0, |sum, waiting| {
            *sum += waiting.request.queries;
            Some(*sum)
        });
        // A single request is taken even if it exceeds the limit; otherwise it would wait forever.
        let count = sums.take_while(|&sum| sum <= self.terms.limit).count().max(1);
        let requests: Vec<_> = self.waiting.drain(..count).map(|waiting| waiting.request).collect();
        self.queries -= requests.iter().map(|request| request.queries).sum::<usize>();
        requests
    }

    /// Returns the estimated time of all requests that wait here.
    fn backlog(&self) -> Duration {
        let Terms { limit, pace, .. } = self.terms;
        let scans = u32::try_from(self.queries.div_ceil(limit.max(1))).unwrap_or(u32::MAX);
        let queries = pace.time(self.queries).saturating_sub(pace.scan);
        pace.scan.saturating_mul(scans).saturating_add(queries)
    }
}

/// A batch that is being computed.
struct Running {
    requests: usize,
    estimate: Duration,
}

/// Queue of waiting requests, in groups, for a backend with slots for batches: one slot by default,
/// see [`Batcher::set_slots`].
///
/// A group's window opens with its first waiting request. The group is ready when the window ends
/// or when it has a full batch, and is launched as soon as a slot is free. Among several ready
/// groups, the group with the oldest request is launched first. While all slots are taken, groups
/// continue to fill. The queue is bounded. While it is full, no request can arrive, so every group
/// is ready at once.
pub struct Batcher<T> {
    window: Window,
    capacity: usize,
    groups: BTreeMap<u64, Group<T>>,
    waiting: usize,
    slots: usize,
    /// Running batches, by number.
    running: BTreeMap<u64, Running>,
    next_number: u64,
}

impl<T> Batcher<T> {
    /// Creates a queue of at most `capacity` requests, at least 1.
    pub fn new(window: Window, capacity: usize) -> Self {
        Self {
            window,
            capacity: capacity.max(1),
            groups: BTreeMap::new(),
            waiting: 0,
            slots: 1,
            running: BTreeMap::new(),
            next_number: 0,
        }
    }

    /// Sets the number of batches that may be computed at the same time, at least 1. Running
    /// batches continue.
    pub fn set_slots(&mut self, slots: usize) {
        self.slots = slots.max(1);
    }

    /// True if another batch may begin beside the running batches.
    pub fn has_slot(&self) -> bool {
        self.running.len() < self.slots
    }

    /// Returns the number of running batches.
    pub fn batches(&self) -> usize {
        self.running.len()
    }

    /// Admits a request.
    ///
    /// # Errors
    /// [`Full`], with the value that came with the request, if the queue is full.
    pub fn arrive(
        &mut self,
        now: Duration,
        terms: Terms,
        queries: usize,
        item: T,
    ) -> Result<RequestNumber, Full<T>> {
        if self.waiting >= self.capacity {
            return Err(Full { item, backlog: self.backlog() });
        }
        let admitted = RequestNumber { group: terms.group, number: self.number() };
        let window = self.window.lasts(terms.pace);
        let empty = || Group { terms, window, queries: 0, waiting: VecDeque::new() };
        let group = self.groups.entry(terms.group).or_insert_with(empty);
        // The latest estimate applies to all waiting requests of the group.
        (group.terms, group.window) = (terms, window);
        group.queries += queries;
        let request = Request { arrived: now, queries, item };
        group.waiting.push_back(Waiting { number: admitted.number, request });
        self.waiting += 1;
        Ok(admitted)
    }

    /// Removes a request, if it still waits.
    pub fn withdraw(&mut self, admitted: RequestNumber) -> Option<T> {
        let group = self.groups.get_mut(&admitted.group)?;
        let index = group.waiting.binary_search_by_key(&admitted.number, |waiting| waiting.number).ok()?;
        let Waiting { request, .. } = group.waiting.remove(index)?;
        group.queries -= request.queries;
        self.left(admitted.group, 1);
        Some(request.item)
    }

    /// Returns the next action.
    pub fn next(&mut self, now: Duration) -> Next<T> {
        if !self.has_slot() {
            return Next::Idle;
        }
        let full = self.waiting >= self.capacity;
        let due = self.groups.iter_mut().filter(|(_, group)| full || group.is_due(now));
        let Some((&key, group)) = due.min_by_key(|(_, group)| group.waiting[0].number) else {
            return self.groups.values().map(Group::ends).min().map_or(Next::Idle, Next::Wait);
        };
        let requests = group.take();
        let queries = requests.iter().map(|request| request.queries).sum();
        let running = Running { requests: requests.len(), estimate: group.terms.pace.time(queries) };
        self.left(key, requests.len());
        let number = self.number();
        self.running.insert(number, running);
        Next::Launch(Batch { number, group: key, queries, requests })
    }

    /// Marks a batch as finished, which frees its slot.
    pub fn finished(&mut self, batch: u64) {
        self.running.remove(&batch);
    }

    /// Returns the numbers of requests that wait and that are being answered.
    pub fn load(&self) -> Load {
        Load { waiting: self.waiting, running: self.running.values().map(|running| running.requests).sum() }
    }

    /// Removes all waiting requests.
    pub fn drain(&mut self) -> Vec<T> {
        self.waiting = 0;
        let groups = std::mem::take(&mut self.groups);
        groups.into_values().flat_map(|group| group.waiting).map(|waiting| waiting.request.item).collect()
    }

    /// Updates the counts after requests have left a group.
    fn left(&mut self, key: u64, count: usize) {
        self.waiting -= count;
        if self.groups.get(&key).is_some_and(|group| group.waiting.is_empty()) {
            self.groups.remove(&key);
        }
    }

    /// Returns the estimated time of all waiting and running requests, over all slots.
    fn backlog(&self) -> Duration {
        let running = self.running.values().map(|running| running.estimate);
        let all = running.chain(self.groups.values().map(Group::backlog));
        let all = all.fold(Duration::ZERO, Duration::saturating_add);
        all / u32::try_from(self.slots).unwrap_or(u32::MAX)
    }

    /// Returns a fresh number for a request or a batch.
    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }
}

//! The policy: which requests are computed together, and when. A state machine that is told the time, so that a
//! simulation and a test run it as the server does.
//!
//! Times are durations since any one instant.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::Pace;

/// How long a query waits for others to share a scan of the database with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// As long as the scan takes: waiting longer costs more than sharing it saves, so latency is at most about twice
    /// that of a query alone (IVE, section V).
    #[default]
    Scan,
    /// This long; zero to compute what is there as soon as the backend is free.
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

/// What a request may be computed with.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Requests of one group may share a batch: those of one database, so of one protocol, parameters and version.
    pub group: u64,
    /// The most queries of a batch.
    pub limit: usize,
    /// About how long batches of the group take.
    pub pace: Pace,
}

/// A request of a batch.
#[derive(Debug)]
pub struct Request<T> {
    /// When it arrived.
    pub arrived: Duration,
    /// Its queries; they are never split over batches.
    pub queries: usize,
    /// What came with it.
    pub item: T,
}

/// Requests to compute together.
#[derive(Debug)]
pub struct Batch<T> {
    /// What no other batch has.
    pub number: u64,
    /// Their group.
    pub group: u64,
    /// Their queries: at most the limit, unless a single request has more.
    pub queries: usize,
    /// The requests, in the order of their arrival.
    pub requests: Vec<Request<T>>,
}

/// What there is to do.
#[derive(Debug)]
pub enum Next<T> {
    /// Compute this batch, and say when it is [`finished`](Batcher::finished).
    Launch(Batch<T>),
    /// Ask again at this time, or when a request arrives.
    Wait(Duration),
    /// Nothing until a request arrives or a batch is finished.
    Idle,
}

/// A request that found the queue full.
#[derive(Debug)]
pub struct Full<T> {
    /// What came with it.
    pub item: T,
    /// About how long what waits will take.
    pub backlog: Duration,
}

/// Names a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestNumber {
    group: u64,
    number: u64,
}

/// Requests waiting and being answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that are being answered: those of all batches at hand.
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
    /// Never empty.
    waiting: VecDeque<Waiting<T>>,
}

impl<T> Group<T> {
    /// The end of the window.
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
        // One alone is never too much, or it would wait for ever.
        let count = sums.take_while(|&sum| sum <= self.terms.limit).count().max(1);
        let requests: Vec<_> = self.waiting.drain(..count).map(|waiting| waiting.request).collect();
        self.queries -= requests.iter().map(|request| request.queries).sum::<usize>();
        requests
    }

    /// About how long all that waits here takes.
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

/// Requests that wait, in groups, for a backend that has slots for batches: one, unless it is
/// [told](Batcher::set_slots) of more.
///
/// A group's window opens with its first waiting request. It is launched when the window ends, or when it has a full
/// batch, as soon as a slot is free; of several such groups, the one whose oldest request waits longest. While
/// all slots are taken, groups go on filling. The queue is bounded; while it is full nothing more can come, so no
/// group waits for more.
pub struct Batcher<T> {
    window: Window,
    capacity: usize,
    groups: BTreeMap<u64, Group<T>>,
    waiting: usize,
    slots: usize,
    /// By the number of the batch.
    running: BTreeMap<u64, Running>,
    next_number: u64,
}

impl<T> Batcher<T> {
    /// A queue of at most `capacity` requests, at least 1.
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

    /// So many batches may be computed at the same time from now on, at least 1. Those at hand go on.
    pub fn set_slots(&mut self, slots: usize) {
        self.slots = slots.max(1);
    }

    /// Whether another batch may begin while those at hand go on.
    pub fn has_slot(&self) -> bool {
        self.running.len() < self.slots
    }

    /// Batches at hand.
    pub fn batches(&self) -> usize {
        self.running.len()
    }

    /// Takes a request in.
    ///
    /// # Errors
    /// [`Full`], with what came with it, if there is no place.
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
        // The latest estimate holds for all that wait.
        (group.terms, group.window) = (terms, window);
        group.queries += queries;
        let request = Request { arrived: now, queries, item };
        group.waiting.push_back(Waiting { number: admitted.number, request });
        self.waiting += 1;
        Ok(admitted)
    }

    /// Takes a request out again, if it still waits.
    pub fn withdraw(&mut self, admitted: RequestNumber) -> Option<T> {
        let group = self.groups.get_mut(&admitted.group)?;
        let index = group.waiting.binary_search_by_key(&admitted.number, |waiting| waiting.number).ok()?;
        let Waiting { request, .. } = group.waiting.remove(index)?;
        group.queries -= request.queries;
        self.left(admitted.group, 1);
        Some(request.item)
    }

    /// What there is to do.
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

    /// A batch is finished, and its slot free again.
    pub fn finished(&mut self, batch: u64) {
        self.running.remove(&batch);
    }

    /// Requests waiting and being answered.
    pub fn load(&self) -> Load {
        Load { waiting: self.waiting, running: self.running.values().map(|running| running.requests).sum() }
    }

    /// Takes all requests out that wait.
    pub fn drain(&mut self) -> Vec<T> {
        self.waiting = 0;
        let groups = std::mem::take(&mut self.groups);
        groups.into_values().flat_map(|group| group.waiting).map(|waiting| waiting.request.item).collect()
    }

    /// Requests have left a group.
    fn left(&mut self, key: u64, count: usize) {
        self.waiting -= count;
        if self.groups.get(&key).is_some_and(|group| group.waiting.is_empty()) {
            self.groups.remove(&key);
        }
    }

    /// About how long all that is here takes, in all slots.
    fn backlog(&self) -> Duration {
        let running = self.running.values().map(|running| running.estimate);
        let all = running.chain(self.groups.values().map(Group::backlog));
        let all = all.fold(Duration::ZERO, Duration::saturating_add);
        all / u32::try_from(self.slots).unwrap_or(u32::MAX)
    }

    /// What no request and no batch has yet.
    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }
}

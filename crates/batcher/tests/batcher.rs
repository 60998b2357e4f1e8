//! The policy of batches: invariants for any arrivals, and costs and gains in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use spirea_batcher::simulation::{Arrival, Launched, Simulated, Simulation, poisson};
use spirea_batcher::{Batch, Batcher, Next, Pace, PaceMeter, RequestNumber, Terms, Window};

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[derive(Clone, Debug)]
enum Step {
    /// A request of a group, with `queries` queries, arrives after a pause.
    Arrive { group: u64, queries: usize, pause: u64 },
    /// A waiting request is withdrawn after a pause.
    Withdraw { which: usize, pause: u64 },
    /// A running batch is finished after a pause.
    Finish { which: usize, pause: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..3u64, 1..6usize, 0..40u64).prop_map(|(group, queries, pause)| Step::Arrive { group, queries, pause }),
        1 => (any::<usize>(), 0..40u64).prop_map(|(which, pause)| Step::Withdraw { which, pause }),
        3 => (any::<usize>(), 0..40u64).prop_map(|(which, pause)| Step::Finish { which, pause }),
    ];
    prop::collection::vec(step, 1..120)
}

/// A test's record of a waiting request.
#[derive(Clone, Copy)]
struct Known {
    number: usize,
    place: RequestNumber,
    arrived: Duration,
    queries: usize,
}

const LIMIT: usize = 6;
const CAPACITY: usize = 9;

/// A batcher beside plain lists of its expected content.
struct Checked {
    batcher: Batcher<usize>,
    window: Duration,
    now: Duration,
    waiting: BTreeMap<u64, VecDeque<Known>>,
    slots: usize,
    /// Running batches.
    running: Vec<u64>,
    arrived: usize,
    gone: usize,
}

impl Checked {
    fn new(window: Window, pace: Pace, slots: usize) -> Self {
        let ends = match window {
            Window::Scan => pace.scan,
            Window::Fixed(time) => time,
        };
        let mut batcher = Batcher::new(window, CAPACITY);
        if slots > 1 {
            batcher.set_slots(slots);
        }
        Self {
            batcher,
            window: ends,
            now: Duration::ZERO,
            waiting: BTreeMap::new(),
            slots,
            running: Vec::new(),
            arrived: 0,
            gone: 0,
        }
    }

    fn count(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    fn is_busy(&self) -> bool {
        self.running.len() == self.slots
    }

    fn is_due(&self, requests: &VecDeque<Known>) -> bool {
        let queries: usize = requests.iter().map(|known| known.queries).sum();
        requests.front().is_some_and(|first| {
            first.arrived + self.window <= self.now || queries >= LIMIT || self.count() == CAPACITY
        })
    }

    /// Performs all actions due now; returns the time of the next action.
    fn pump(&mut self) -> Option<Duration> {
        loop {
            match self.batcher.next(self.now) {
                Next::Launch(batch) => self.launched(batch),
                Next::Wait(until) => {
                    assert!(!self.is_busy() && self.count() > 0 && until > self.now);
                    assert!(!self.waiting.values().any(|requests| self.is_due(requests)), "one is late");
                    return Some(until);
                }
                Next::Idle => {
                    assert!(self.is_busy() || self.count() == 0);
                    return None;
                }
            }
        }
    }

    fn launched(&mut self, batch: Batch<usize>) {
        assert!(!self.is_busy(), "the backend has no slot");
        assert!(!self.running.contains(&batch.number));
        self.running.push(batch.number);
        let group = &self.waiting[&batch.group];
        assert!(self.is_due(group), "too early");
        let due = self.waiting.values().filter(|requests| self.is_due(requests));
        let oldest = due.map(|requests| requests[0].number).min();
        assert_eq!(Some(group[0].number), oldest, "another waits longer");
        let launched: Vec<usize> = batch.requests.iter().map(|request| request.item).collect();
        let first: Vec<Known> = group.iter().take(launched.len()).copied().collect();
        assert_eq!(launched, first.iter().map(|known| known.number).collect::<Vec<_>>(), "not in order");
        let queries: usize = first.iter().map(|known| known.queries).sum();
        assert_eq!(batch.queries, queries);
        assert!(queries <= LIMIT || launched.len() == 1);
        if let Some(next) = group.get(launched.len()) {
            assert!(queries + next.queries > LIMIT, "one more would have fitted");
        }
        self.waiting.get_mut(&batch.group).unwrap().drain(..launched.len());
        self.gone += launched.len();
    }

    /// Lets time pass, and performs the actions that become due.
    fn pass(&mut self, pause: u64) {
        let end = self.now + ms(pause);
        while let Some(until) = self.pump().filter(|&until| until <= end) {
            self.now = until;
        }
        self.now = end;
        self.pump();
    }

    fn run(&mut self, step: &Step, pace: Pace) {
        match *step {
            Step::Arrive { group, queries, pause } => {
                self.pass(pause);
                let (number, terms) = (self.arrived, Terms { group, limit: LIMIT, pace });
                match self.batcher.arrive(self.now, terms, queries, number) {
                    Ok(place) => {
                        let known = Known { number, place, arrived: self.now, queries };
                        self.waiting.entry(group).or_default().push_back(known);
                        assert!(self.count() <= CAPACITY);
                        self.arrived += 1;
                    }
                    Err(full) => assert_eq!((self.count(), full.item), (CAPACITY, number)),
                }
            }
            Step::Withdraw { which, pause } => {
                self.pass(pause);
                let all: Vec<(u64, usize)> = self
                    .waiting
                    .iter()
                    .flat_map(|(&group, requests)| (0..requests.len()).map(move |i| (group, i)))
                    .collect();
                if !all.is_empty() {
                    let (group, i) = all[which % all.len()];
                    let known = self.waiting.get_mut(&group).unwrap().remove(i).unwrap();
                    assert_eq!(self.batcher.withdraw(known.place), Some(known.number));
                    assert_eq!(self.batcher.withdraw(known.place), None, "nobody goes twice");
                    self.gone += 1;
                }
            }
            Step::Finish { which, pause } => {
                self.pass(pause);
                if !self.running.is_empty() {
                    let batch = self.running.swap_remove(which % self.running.len());
                    self.batcher.finished(batch);
                }
            }
        }
        self.pump();
        assert_eq!(self.batcher.load().waiting, self.count());
        assert_eq!(self.batcher.batches(), self.running.len());
        assert_eq!(self.batcher.load().running > 0, !self.running.is_empty());
    }
}

proptest! {
    /// No request is lost, duplicated, overtaken in its group, late while a slot is free, or beyond
    /// a bound.
    #[test]
    fn every_request_is_launched_once_in_order_and_in_time(
        steps in steps(), window in 0..4u64, scan in 0..80u64, slots in 1..4usize
    ) {
        let pace = Pace { scan: ms(scan), each: ms(3) };
        let window = if window == 0 { Window::Scan } else { Window::Fixed(ms(20 * (window - 1))) };
        let mut checked = Checked::new(window, pace, slots);
        for step in &steps {
            checked.run(step, pace);
        }
        // All remaining requests are launched, each at the latest when its window has ended and a
        // slot is free.
        while checked.count() > 0 || !checked.running.is_empty() {
            checked.run(&Step::Finish { which: 0, pause: 100 }, pace);
        }
        prop_assert_eq!(checked.gone, checked.arrived);
    }

    #[test]
    fn what_is_drained_is_what_waited(steps in steps()) {
        let pace = Pace { scan: ms(50), each: ms(3) };
        let mut checked = Checked::new(Window::Scan, pace, 1);
        for step in &steps {
            checked.run(step, pace);
        }
        let mut drained = checked.batcher.drain();
        drained.sort_unstable();
        let mut waited: Vec<usize> = checked.waiting.values().flatten().map(|known| known.number).collect();
        waited.sort_unstable();
        prop_assert_eq!(drained, waited);
        prop_assert_eq!(checked.batcher.load().waiting, 0);
    }
}

#[test]
fn a_refusal_tells_how_long_what_waits_takes() {
    let pace = Pace { scan: ms(1000), each: ms(10) };
    let terms = |group| Terms { group, limit: 4, pace };
    let mut batcher = Batcher::new(Window::Scan, 3);
    batcher.arrive(ms(0), terms(0), 4, ()).unwrap();
    assert!(matches!(batcher.next(ms(0)), Next::Launch(_)));
    for group in [0, 0, 1] {
        batcher.arrive(ms(1), terms(group), 3, ()).unwrap();
    }
    let full = batcher.arrive(ms(2), terms(0), 1, ()).unwrap_err();
    // One batch runs; two requests of the first group wait, and one of the second: 4 scans and 4 +
    // 6 + 3 queries.
    assert_eq!(full.backlog, ms(4000 + 130));
    // With two batches at the same time, the backlog takes half of that time.
    batcher.set_slots(2);
    assert_eq!(batcher.arrive(ms(2), terms(0), 1, ()).unwrap_err().backlog, ms(4130 / 2));
}

#[test]
fn fewer_slots_are_heeded_when_batches_are_finished() {
    let terms = Terms { group: 0, limit: 1, pace: Pace::default() };
    let mut batcher = Batcher::new(Window::Scan, 8);
    for item in 0..4 {
        batcher.arrive(ms(0), terms, 1, item).unwrap();
    }
    batcher.set_slots(2);
    let numbers = [(); 2].map(|()| match batcher.next(ms(0)) {
        Next::Launch(batch) => batch.number,
        next => panic!("{next:?}"),
    });
    assert!(matches!(batcher.next(ms(0)), Next::Idle));
    batcher.set_slots(0);
    batcher.finished(numbers[1]);
    assert!(matches!(batcher.next(ms(0)), Next::Idle));
    batcher.finished(numbers[0]);
    assert!(matches!(batcher.next(ms(0)), Next::Launch(_)));
}

/// Backend whose batches take a scan and a time for each query.
#[derive(Clone, Copy, Debug)]
struct Backend {
    pace: Pace,
    limit: usize,
}

/// Backends of four databases. For the first, the scan is almost the whole time; for the last,
/// queries share little.
const BACKENDS: [Backend; 4] = [
    Backend { pace: Pace { scan: Duration::from_millis(100), each: Duration::from_micros(100) }, limit: 64 },
    Backend { pace: Pace { scan: Duration::from_millis(100), each: Duration::from_millis(2) }, limit: 64 },
    Backend { pace: Pace { scan: Duration::from_millis(100), each: Duration::from_millis(30) }, limit: 32 },
    Backend { pace: Pace { scan: Duration::from_millis(10), each: Duration::from_millis(100) }, limit: 64 },
];

impl Backend {
    /// Returns the queries a second if all batches are full.
    fn saturation(self) -> f64 {
        self.limit as f64 / self.pace.time(self.limit).as_secs_f64()
    }

    fn arrivals(self, share: f64, count: usize) -> Vec<Arrival> {
        let times = poisson(share * self.saturation(), 7).take(count);
        times.map(|at| Arrival { at, queries: 1 }).collect()
    }

    fn run(self, arrivals: &[Arrival], capacity: usize) -> Simulated {
        let mut meter = PaceMeter::default();
        for queries in PaceMeter::probes(self.limit) {
            meter.note(queries, self.pace.time(queries));
        }
        let simulation = Simulation { window: Window::Scan, capacity, limit: self.limit, slots: 1, meter };
        simulation.run(arrivals, |_, queries| self.pace.time(queries))
    }
}

/// Replicas of a database, each of which computes one batch after another, and a coordinator that
/// joins their results, also one batch after another.
struct Replicas {
    free: Vec<Duration>,
    joined: Duration,
}

impl Replicas {
    const LIMIT: usize = 16;
    const PACE: Pace = Pace { scan: ms(100), each: ms(2) };
    const JOIN: Duration = ms(30);

    fn new(count: usize) -> Self {
        Self { free: vec![Duration::ZERO; count], joined: Duration::ZERO }
    }

    /// Returns the duration of a batch that begins now.
    fn time(&mut self, now: Duration, queries: usize) -> Duration {
        let free = self.free.iter_mut().min().unwrap();
        *free = now.max(*free) + Self::PACE.time(queries);
        self.joined = self.joined.max(*free) + Self::JOIN;
        self.joined - now
    }

    fn run(count: usize, slots: usize, arrivals: &[Arrival]) -> Simulated {
        let (mut meter, mut replicas) = (PaceMeter::default(), Self::new(count));
        for queries in PaceMeter::probes(Self::LIMIT) {
            meter.note(queries, Self::PACE.time(queries) + Self::JOIN);
        }
        let simulation =
            Simulation { window: Window::Scan, capacity: 4096, limit: Self::LIMIT, slots, meter };
        simulation.run(arrivals, |now, queries| replicas.time(now, queries))
    }

    /// Returns the queries a second of `count` replicas when more queries arrive than any number of
    /// replicas can answer.
    fn throughput(count: usize, slots: usize) -> f64 {
        let arrivals: Vec<Arrival> =
            poisson(2000.0, 7).take(3000).map(|at| Arrival { at, queries: 1 }).collect();
        let simulated = Self::run(count, slots, &arrivals);
        let ends = simulated.batches.iter().map(|batch| batch.at + batch.took).max().unwrap();
        simulated.batches.iter().map(|batch| batch.queries).sum::<usize>() as f64 / ends.as_secs_f64()
    }
}

#[test]
fn replicas_answer_as_many_times_as_much_as_there_are_of_them() {
    let [one, two, three] = [1, 2, 3].map(|count| Replicas::throughput(count, count + 1));
    assert!(two >= 1.9 * one && three >= 2.8 * one, "{one} {two} {three}");
    // With one batch at a time, a second replica gains nothing, and both replicas wait while
    // results are joined.
    assert!((Replicas::throughput(2, 1) / Replicas::throughput(1, 1) - 1.0).abs() < 1e-9);
    assert!(one >= 1.2 * Replicas::throughput(1, 1), "{one}");
}

#[test]
fn a_slot_more_than_there_are_replicas_delays_nobody_at_low_load() {
    let alone = (Replicas::PACE.time(1) + Replicas::JOIN).as_secs_f64();
    for count in [1, 2] {
        for rate in [0.5, 5.0, 20.0] {
            let arrivals: Vec<Arrival> =
                poisson(rate, 7).take(5000).map(|at| Arrival { at, queries: 1 }).collect();
            let mean = mean_latency(&arrivals, &Replicas::run(count, count + 1, &arrivals));
            assert!(mean <= 2.0 * alone, "{count} at {rate}: {mean} s, alone {alone} s");
        }
    }
}

fn mean_latency(arrivals: &[Arrival], simulated: &Simulated) -> f64 {
    let of = |batch: &Launched| {
        let end = batch.at + batch.took;
        batch.requests.iter().map(|&i| (end - arrivals[i].at).as_secs_f64()).sum::<f64>()
    };
    simulated.batches.iter().map(of).sum::<f64>() / (arrivals.len() - simulated.refused.len()) as f64
}

#[test]
fn at_low_load_a_query_takes_at_most_twice_as_long_as_alone() {
    for backend in BACKENDS {
        let alone = backend.pace.time(1).as_secs_f64();
        for share in [0.001, 0.01, 0.1] {
            let arrivals = backend.arrivals(share, 20_000);
            let simulated = backend.run(&arrivals, 4096);
            assert!(simulated.refused.is_empty());
            let mean = mean_latency(&arrivals, &simulated);
            assert!(mean <= 2.0 * alone, "{backend:?} at {share}: {mean} s, alone {alone} s");
        }
    }
}

#[test]
fn beyond_saturation_all_batches_are_full_and_the_rest_is_refused() {
    for backend in BACKENDS {
        for capacity in [backend.limit, 4 * backend.limit] {
            let arrivals = backend.arrivals(2.0, 20_000);
            let simulated = backend.run(&arrivals, capacity);
            let steady = &simulated.batches[3..simulated.batches.len() - 3];
            let answered: usize = steady.iter().map(|batch| batch.queries).sum();
            let last = &steady[steady.len() - 1];
            let throughput = answered as f64 / (last.at + last.took - steady[0].at).as_secs_f64();
            assert!(throughput > 0.97 * backend.saturation(), "{backend:?}: {throughput}/s");
            assert_eq!(
                simulated.batches.iter().map(|batch| batch.requests.len()).sum::<usize>()
                    + simulated.refused.len(),
                arrivals.len()
            );
        }
    }
}

#[test]
fn near_saturation_the_queue_stays_short() {
    for backend in BACKENDS {
        let arrivals = backend.arrivals(0.9, 20_000);
        let simulated = backend.run(&arrivals, 4096);
        assert!(simulated.refused.is_empty());
        let full = backend.pace.time(backend.limit).as_secs_f64();
        let mean = mean_latency(&arrivals, &simulated);
        assert!(mean < 3.0 * full, "{backend:?}: {mean} s, a full batch {full} s");
    }
}

#[test]
fn a_simulation_is_the_same_for_the_same_seed() {
    let [a, b] = [(); 2].map(|()| BACKENDS[1].run(&BACKENDS[1].arrivals(0.5, 1000), 64));
    assert_eq!(a, b);
    let times: Vec<Duration> = poisson(100.0, 1).take(10_000).collect();
    assert!(times.is_sorted() && times != poisson(100.0, 2).take(10_000).collect::<Vec<_>>());
    let mean = times.last().unwrap().as_secs_f64() / 10_000.0;
    assert!((0.0097..0.0103).contains(&mean), "{mean}");
}

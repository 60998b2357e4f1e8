//! The policy of batches: what holds whatever arrives, and what it costs and gains in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use spirea_batcher::simulation::{Arrival, Launched, Simulated, Simulation, poisson};
use spirea_batcher::{Batch, Batcher, Next, Pace, PaceMeter, RequestNumber, Terms, Window};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[derive(Clone, Debug)]
enum Step {
    /// A request of a group, with so many queries, after a pause.
    Arrive { group: u64, queries: usize, pause: u64 },
    /// One of those that wait goes, after a pause.
    Withdraw { which: usize, pause: u64 },
    /// The batch at hand is finished, after a pause.
    Finish { pause: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..3u64, 1..6usize, 0..40u64).prop_map(|(group, queries, pause)| Step::Arrive { group, queries, pause }),
        1 => (any::<usize>(), 0..40u64).prop_map(|(which, pause)| Step::Withdraw { which, pause }),
        3 => (0..40u64).prop_map(|pause| Step::Finish { pause }),
    ];
    prop::collection::vec(step, 1..120)
}

/// What a test knows of a request that waits.
#[derive(Clone, Copy)]
struct Known {
    number: usize,
    place: RequestNumber,
    arrived: Duration,
    queries: usize,
}

const LIMIT: usize = 6;
const CAPACITY: usize = 9;

/// A batcher beside plain lists of what should be in it.
struct Checked {
    batcher: Batcher<usize>,
    window: Duration,
    now: Duration,
    waiting: BTreeMap<u64, VecDeque<Known>>,
    busy: bool,
    arrived: usize,
    gone: usize,
}

impl Checked {
    fn new(window: Window, pace: Pace) -> Self {
        let ends = match window {
            Window::Scan => pace.scan,
            Window::Fixed(time) => time,
        };
        let batcher = Batcher::new(window, CAPACITY);
        Self {
            batcher,
            window: ends,
            now: Duration::ZERO,
            waiting: BTreeMap::new(),
            busy: false,
            arrived: 0,
            gone: 0,
        }
    }

    fn count(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    fn is_due(&self, requests: &VecDeque<Known>) -> bool {
        let queries: usize = requests.iter().map(|known| known.queries).sum();
        requests.front().is_some_and(|first| {
            first.arrived + self.window <= self.now || queries >= LIMIT || self.count() == CAPACITY
        })
    }

    /// Does what there is to do now; gives the time to come back at.
    fn pump(&mut self) -> Option<Duration> {
        loop {
            match self.batcher.next(self.now) {
                Next::Launch(batch) => self.launched(batch),
                Next::Wait(until) => {
                    assert!(!self.busy && self.count() > 0 && until > self.now);
                    assert!(!self.waiting.values().any(|requests| self.is_due(requests)), "one is late");
                    return Some(until);
                }
                Next::Idle => {
                    assert!(self.busy || self.count() == 0);
                    return None;
                }
            }
        }
    }

    fn launched(&mut self, batch: Batch<usize>) {
        assert!(!std::mem::replace(&mut self.busy, true), "the backend computes already");
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

    /// Lets time pass, and does what becomes due meanwhile.
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
            Step::Finish { pause } => {
                self.pass(pause);
                self.batcher.finished();
                self.busy = false;
            }
        }
        self.pump();
        assert_eq!(self.batcher.load().waiting, self.count());
        assert_eq!(self.batcher.load().running > 0, self.busy);
    }
}

proptest! {
    /// Nothing is lost, doubled, overtaken in its group, late while the backend is free, or beyond a bound.
    #[test]
    fn every_request_is_launched_once_in_order_and_in_time(steps in steps(), window in 0..4u64, scan in 0..80u64) {
        let pace = Pace { scan: ms(scan), each: ms(3) };
        let window = if window == 0 { Window::Scan } else { Window::Fixed(ms(20 * (window - 1))) };
        let mut checked = Checked::new(window, pace);
        for step in &steps {
            checked.run(step, pace);
        }
        // All that is left is launched, each at the latest when its window ends and the backend is free.
        while checked.count() > 0 || checked.busy {
            checked.run(&Step::Finish { pause: 100 }, pace);
        }
        prop_assert_eq!(checked.gone, checked.arrived);
    }

    #[test]
    fn what_is_drained_is_what_waited(steps in steps()) {
        let pace = Pace { scan: ms(50), each: ms(3) };
        let mut checked = Checked::new(Window::Scan, pace);
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
    // One batch runs; of the first group two wait, of the second one: 4 scans and 4 + 6 + 3 queries.
    assert_eq!(full.backlog, ms(4000 + 130));
}

/// A backend whose batches take a scan and some time for each query.
#[derive(Clone, Copy, Debug)]
struct Backend {
    pace: Pace,
    limit: usize,
}

/// From a database that is all scan to one where queries share little.
const BACKENDS: [Backend; 4] = [
    Backend { pace: Pace { scan: Duration::from_millis(100), each: Duration::from_micros(100) }, limit: 64 },
    Backend { pace: Pace { scan: Duration::from_millis(100), each: Duration::from_millis(2) }, limit: 64 },
    Backend { pace: Pace { scan: Duration::from_millis(100), each: Duration::from_millis(30) }, limit: 32 },
    Backend { pace: Pace { scan: Duration::from_millis(10), each: Duration::from_millis(100) }, limit: 64 },
];

impl Backend {
    /// Queries a second when all batches are full.
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
        let simulation = Simulation { window: Window::Scan, capacity, limit: self.limit, meter };
        simulation.run(arrivals, |queries| self.pace.time(queries))
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

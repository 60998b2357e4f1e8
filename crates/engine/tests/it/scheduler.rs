//! The scheduler at work: requests computed together, requests that fail alone, and agreement with
//! the simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use parking_lot::Mutex;
use spirea_engine::scheduler::simulation::{Arrival, Launched, Simulation, poisson};
use spirea_engine::scheduler::{DatabaseQueries, Pace, PaceMeter, Scheduler};
use spirea_engine::{Answers, Database, EngineError, Ticket, Window};
use spirea_protocols::{PreparedKeys, ProtocolError, Query};

use spirea_specimens::scripted::{Behaviour, database, echo, gated, queries};

const AT_ONCE: Window = Window::Fixed(Duration::ZERO);

fn scheduler(capacity: usize) -> Scheduler {
    Scheduler::new(capacity, AT_ONCE).unwrap()
}

fn part(database: &Arc<Database>, first: &[u8]) -> DatabaseQueries {
    DatabaseQueries { database: Arc::clone(database), keys: None, queries: queries(first) }
}

/// Returns the first bytes of the answers, by part.
fn firsts(answers: &Answers) -> Vec<Vec<u8>> {
    answers.answers.iter().map(|part| part.iter().map(|answer| answer[0]).collect()).collect()
}

fn wait(ticket: Ticket) -> Result<Answers, EngineError> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(ticket)
}

fn malformed() -> ProtocolError {
    ProtocolError::Malformed { what: "query", detail: "of this byte".into() }
}

/// Returns a database that records the number of queries of each call.
fn counted(behaviour: Behaviour) -> (Arc<Database>, Arc<Mutex<Vec<usize>>>) {
    let calls = Arc::<Mutex<Vec<usize>>>::default();
    let seen = Arc::clone(&calls);
    let counting = move |queries: &[Query<'_>]| {
        seen.lock().push(queries.len());
        behaviour(queries)
    };
    (Arc::new(database(Box::new(counting))), calls)
}

/// Lets requests gather while a batch of another database is computed, then waits for their
/// answers.
fn together(scheduler: &Scheduler, requests: Vec<Vec<DatabaseQueries>>) -> Vec<Result<Answers, EngineError>> {
    let (behaviour, begins, go) = gated();
    let gate = Arc::new(database(behaviour));
    let first = scheduler.submit(vec![part(&gate, &[0])]).unwrap();
    begins.recv().unwrap();
    let tickets: Vec<Ticket> = requests.into_iter().map(|parts| scheduler.submit(parts).unwrap()).collect();
    go.send(()).unwrap();
    wait(first).unwrap();
    tickets.into_iter().map(wait).collect()
}

#[test]
fn clients_share_a_call_and_keep_their_keys_and_their_answers() {
    let keyed = |queries: &[Query<'_>]| {
        let mut answers = echo(queries)?;
        for (answer, query) in answers.iter_mut().zip(queries) {
            answer[0] += query.keys.unwrap().get::<u8>().unwrap();
        }
        Ok(answers)
    };
    let (database, calls) = counted(Box::new(keyed));
    let request = |key: u8, first: &[u8]| {
        let keys = Some(PreparedKeys::new(Arc::new(key), 1));
        vec![DatabaseQueries { keys, ..part(&database, first) }]
    };
    let requests = vec![request(10, &[1, 2]), request(20, &[1]), request(30, &[3]), request(40, &[4])];
    let outcomes: Vec<Answers> = together(&scheduler(8), requests).into_iter().map(Result::unwrap).collect();
    let answers: Vec<_> = outcomes.iter().map(firsts).collect();
    assert_eq!(answers, [[vec![11, 12]], [vec![21]], [vec![33]], [vec![44]]]);
    assert_eq!(*calls.lock(), [4, 1]);
    assert_eq!(outcomes.iter().map(|answers| answers.batch).collect::<Vec<_>>(), [4, 4, 4, 1]);
    assert_eq!(outcomes.iter().map(|answers| answers.counts).collect::<Vec<_>>(), [true, false, false, true]);
}

#[test]
fn a_request_of_two_parts_is_answered_from_both_with_one_call_each() {
    let shifted = |queries: &[Query<'_>]| {
        let mut answers = echo(queries)?;
        answers.iter_mut().for_each(|answer| answer[0] += 100);
        Ok(answers)
    };
    let ((base, base_calls), (delta, delta_calls)) = (counted(Box::new(echo)), counted(Box::new(shifted)));
    let both = |first: &[u8], second: &[u8]| vec![part(&base, first), part(&delta, second)];
    let requests = vec![both(&[1], &[1]), vec![part(&base, &[2])], both(&[3], &[3, 4])];
    let outcomes = together(&scheduler(8), requests);
    let answers: Vec<_> = outcomes.into_iter().map(|outcome| firsts(&outcome.unwrap())).collect();
    assert_eq!(answers[0], [vec![1], vec![101]]);
    assert_eq!(answers[1], [vec![2]]);
    assert_eq!(answers[2], [vec![3], vec![103, 104]]);
    assert_eq!((&*base_calls.lock(), &*delta_calls.lock()), (&vec![3], &vec![3]));

    // The second database never gets more queries at once than its limit.
    let requests = vec![both(&[1], &[1, 2, 3]), both(&[2], &[4, 5, 6])];
    let outcomes = together(&scheduler(8), requests);
    let answers: Vec<_> = outcomes.into_iter().map(|outcome| firsts(&outcome.unwrap())).collect();
    assert_eq!(answers, [[vec![1], vec![101, 102, 103]], [vec![2], vec![104, 105, 106]]]);
    assert_eq!(delta_calls.lock()[1..], [4, 2]);

    let none = scheduler(8).submit(Vec::new()).map(drop);
    assert!(matches!(none, Err(EngineError::Malformed(_))));
}

#[test]
fn only_the_guilty_request_of_a_batch_fails() {
    let picky = |queries: &[Query<'_>]| match queries.iter().map(|query| query.bytes[0]).max() {
        Some(200) => Err(malformed()),
        Some(201) => panic!("a defect"),
        Some(202) => Ok(Vec::new()),
        _ => echo(queries),
    };
    let check = |guilty: u8, is_right: fn(&EngineError) -> bool| {
        for place in 0..4 {
            let (database, calls) = counted(Box::new(picky));
            let byte = |i: u8| if i == place { guilty } else { i };
            let requests = (0..4).map(|i| vec![part(&database, &[byte(i)])]).collect();
            for (i, outcome) in (0..).zip(together(&scheduler(8), requests)) {
                match outcome {
                    Ok(answers) => assert_eq!(firsts(&answers), [[i]]),
                    Err(error) => assert!(i == place && is_right(&error), "{error}"),
                }
            }
            // The calls: one with all requests, one for each half, and one for each request of the
            // failing half.
            let mut calls = calls.lock().clone();
            calls.sort_unstable();
            assert_eq!(calls, [1, 1, 2, 2, 4]);
        }
    };
    check(200, |error| matches!(error, EngineError::Protocol(ProtocolError::Malformed { .. })));
    check(201, |error| matches!(error, EngineError::Panicked));
    check(202, |error| matches!(error, EngineError::WrongAnswers));
}

#[test]
fn batches_that_failed_and_callers_that_went_are_counted_as_what_was_computed() {
    let picky = |queries: &[Query<'_>]| match queries.iter().any(|query| query.bytes[0] == 200) {
        true => Err(malformed()),
        false => echo(queries),
    };
    let (picky, _) = counted(Box::new(picky));
    let requests = [1, 2, 200, 3].map(|byte| vec![part(&picky, &[byte])]);
    let outcomes = together(&scheduler(8), requests.into());
    let counted: Vec<_> = outcomes.iter().flatten().map(|answers| (answers.batch, answers.counts)).collect();
    assert_eq!(counted, [(2, true), (2, false), (1, true)]);
    assert_eq!(picky.pace(), Pace::default(), "how long a failure takes tells nothing");

    // The caller that represented the batch has gone, so the next caller represents it.
    let scheduler = scheduler(8);
    let (behaviour, begins, go) = gated();
    let gate = Arc::new(database(behaviour));
    let submit = |byte| scheduler.submit(vec![part(&gate, &[byte])]).unwrap();
    let held = submit(0);
    begins.recv().unwrap();
    let [leaver, other] = [submit(1), submit(2)];
    go.send(()).unwrap();
    wait(held).unwrap();
    assert_eq!(begins.recv().unwrap(), [1, 2]);
    drop(leaver);
    go.send(()).unwrap();
    let answers = wait(other).unwrap();
    assert_eq!((answers.batch, answers.counts), (2, true));
}

#[test]
fn databases_do_not_share_batches_and_the_one_that_waits_longest_is_next() {
    let computed = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let logged = || {
        let computed = Arc::clone(&computed);
        let behaviour = move |queries: &[Query<'_>]| {
            computed.lock().push(queries.iter().map(|query| query.bytes[0]).collect());
            echo(queries)
        };
        Arc::new(database(Box::new(behaviour)))
    };
    let (a, b) = (logged(), logged());
    let requests = [(&b, &[1][..]), (&a, &[2]), (&b, &[3]), (&a, &[4, 5, 6])];
    let requests = requests.map(|(database, first)| vec![part(database, first)]);
    let outcomes = together(&scheduler(8), requests.into());
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(*computed.lock(), [vec![1, 3], vec![2, 4, 5, 6]]);
}

/// Clock that a test sets.
#[derive(Clone, Default)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn set(&self, time: Duration) {
        self.0.store(time.as_nanos() as u64, Ordering::SeqCst);
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

/// Event of a simulation, in order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Finish(usize),
    Arrive(usize),
    Launch(usize),
}

/// Runs the scheduler on the simulation's requests, at the same times of the clock, on a backend
/// with the same batch times. The scheduler makes the same batches at the same times, and refuses
/// the same requests.
fn scheduler_follows_simulation(rate: f64, capacity: usize, count: usize) -> Vec<Launched> {
    let pace = Pace { scan: Duration::from_micros(2000), each: Duration::from_micros(137) };
    let times = poisson(rate, 11).take(count).enumerate();
    let arrivals: Vec<Arrival> = times.map(|(i, at)| Arrival { at, queries: 1 + i % 3 }).collect();
    // A scripted database takes 4 queries at once and begins without an estimate.
    let simulation =
        Simulation { window: Window::Scan, capacity, limit: 4, slots: 1, meter: PaceMeter::default() };
    let mut computed = 0;
    let simulated = simulation.run(&arrivals, |_, queries| {
        computed += 1;
        // Some batches take long.
        if computed % 17 == 0 { pace.time(100) } else { pace.time(queries) }
    });

    let hands = Hands::default();
    let clock = {
        let hands = hands.clone();
        Arc::new(move || hands.get())
    };
    let scheduler = Scheduler::with_clock(capacity, Window::Scan, clock).unwrap();
    let ((begun, begins), (go, gone)) = (channel(), channel());
    let gone = Mutex::new(gone);
    let behaviour = move |queries: &[Query<'_>]| {
        begun.send(queries.iter().map(|query| query.bytes[..2].to_vec()).collect::<Vec<_>>()).unwrap();
        gone.lock().recv().unwrap();
        echo(queries)
    };
    let database = Arc::new(database(Box::new(behaviour)));
    let name = |i: usize| (i as u16).to_le_bytes().to_vec();
    let submit = |i: usize| {
        let mut queries = vec![vec![0; queries(&[0])[0].len()]; arrivals[i].queries];
        queries.iter_mut().for_each(|query| query[..2].copy_from_slice(&name(i)));
        let queries = queries.into_iter().map(Into::into).collect();
        scheduler.submit(vec![DatabaseQueries { database: Arc::clone(&database), keys: None, queries }])
    };

    let mut events: Vec<(Duration, Event)> =
        arrivals.iter().enumerate().map(|(i, arrival)| (arrival.at, Event::Arrive(i))).collect();
    for (i, batch) in simulated.batches.iter().enumerate() {
        events.push((batch.at, Event::Launch(i)));
        events.push((batch.at + batch.took, Event::Finish(i)));
    }
    events.sort_unstable();
    let mut tickets: Vec<Option<Ticket>> = arrivals.iter().map(|_| None).collect();
    let mut refused = Vec::new();
    for (at, event) in events {
        hands.set(at);
        match event {
            Event::Arrive(i) => match submit(i) {
                Ok(ticket) => tickets[i] = Some(ticket),
                Err(error) => {
                    assert!(matches!(error, EngineError::Overloaded { .. }), "{error}");
                    refused.push(i);
                }
            },
            Event::Launch(i) => {
                let requests = &simulated.batches[i].requests;
                let expected: Vec<_> =
                    requests.iter().flat_map(|&i| vec![name(i); arrivals[i].queries]).collect();
                assert_eq!(begins.recv().unwrap(), expected, "batch {i} at {at:?}");
            }
            Event::Finish(i) => {
                go.send(()).unwrap();
                let batch = &simulated.batches[i];
                for &request in &batch.requests {
                    let answers = wait(tickets[request].take().unwrap()).unwrap();
                    assert_eq!(answers.waited, batch.at - arrivals[request].at);
                    assert_eq!((answers.compute, answers.batch), (batch.took, batch.queries));
                }
            }
        }
    }
    assert_eq!(refused, simulated.refused);
    assert!(tickets.iter().all(Option::is_none), "every other one has been answered");
    simulated.batches
}

#[test]
fn the_scheduler_does_what_the_simulation_says() {
    // A batch of 4 takes 2.5 ms: at most 1,570 queries, or 785 requests, a second.
    let mean = |batches: &[Launched]| {
        batches.iter().map(|batch| batch.queries).sum::<usize>() as f64 / batches.len() as f64
    };
    let idle = scheduler_follows_simulation(40.0, 32, 100);
    let busy = scheduler_follows_simulation(500.0, 32, 300);
    let overrun = scheduler_follows_simulation(3000.0, 8, 300);
    let sizes = [mean(&idle), mean(&busy), mean(&overrun)];
    assert!(sizes.is_sorted() && sizes[0] < 2.5 && sizes[2] > 3.0, "{sizes:?}");
}

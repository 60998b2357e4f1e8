//! Batch scheduler (section V) with queries that arrive at random: the engine's policy on a virtual
//! clock.

use std::time::Duration;

use spirea_batcher::simulation::{Arrival, Simulation, poisson};
use spirea_batcher::{PaceMeter, Window};

use crate::arch::Arch;
use crate::error::IveError;
use crate::schedule::Digits;
use crate::system::{Deployment, Mapping, Schedules, scan_seconds, usual_batch};

/// Rule for the beginning of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Seconds that the first waiting query waits for others: the time of one scan of the database.
    pub window: f64,
    /// Maximum number of queries of a batch.
    pub limit: usize,
}

impl Policy {
    /// Answers every query alone and immediately.
    pub const ALONE: Self = Self { window: 0.0, limit: 1 };
}

/// Maximum seconds of a batch in a simulation.
const LONGEST: f64 = 1e6;

/// Returns the scheduler's policy for a database of `gib` GiB on `systems` systems, and the seconds
/// of batches of 1, 2, ... queries.
///
/// # Errors
/// [`IveError::Workload`] if there is no room for the batches or they take days,
/// [`IveError::RegisterFile`] if a schedule does not fit.
pub fn served(arch: &Arch, gib: f64, systems: u64) -> Result<(Policy, Vec<f64>), IveError> {
    let limit = usual_batch(arch, gib, systems)?;
    let schedules = Schedules::depth_first(arch, Digits::Forwarded)?;
    let deployment = Deployment::new(arch, &schedules, gib, systems)?;
    let seconds = |queries| Ok(deployment.batch(queries, Mapping::QueryPerCore)?.seconds());
    let service = (1..=limit).map(seconds).collect::<Result<Vec<f64>, IveError>>()?;
    let window = scan_seconds(arch, gib, systems)?;
    let longest = service.iter().copied().fold(window, f64::max);
    if longest > LONGEST {
        return Err(IveError::Workload {
            key: "gib",
            problem: format!("a batch or a scan of {gib} GiB takes {longest:.0} seconds"),
            remedy: format!("give a smaller database or a faster machine, for at most {LONGEST:.0}"),
        });
    }
    Ok((Policy { window, limit: limit as usize }, service))
}

/// Returns the mean seconds from arrival to answer of `count` queries that arrive at `rate` a
/// second. `service` has the seconds of batches of 1, 2, ... queries, up to the policy's limit. The
/// window opens with the first waiting query. A batch begins once its window is over or the batch
/// is full, and the accelerator is free.
pub fn mean_latency(policy: Policy, service: &[f64], rate: f64, count: usize) -> f64 {
    let arrivals: Vec<Arrival> = poisson(rate, 1).take(count).map(|at| Arrival { at, queries: 1 }).collect();
    let simulation = Simulation {
        window: Window::Fixed(Duration::from_secs_f64(policy.window)),
        capacity: usize::MAX,
        limit: policy.limit.clamp(1, service.len()),
        slots: 1,
        meter: PaceMeter::default(),
    };
    let simulated = simulation.run(&arrivals, |_, queries| Duration::from_secs_f64(service[queries - 1]));
    let waited = simulated.batches.iter().flat_map(|batch| {
        let end = batch.at.saturating_add(batch.took);
        batch.requests.iter().map(move |&request| (end, request))
    });
    waited.map(|(end, request)| (end - arrivals[request].at).as_secs_f64()).sum::<f64>() / count as f64
}

/// Number of queries of each simulation in the search for a rate.
const SEARCHED: usize = 40_000;

/// Finds, by bisection, the rate between `low` and `high` up to which `holds` is true.
fn last_rate(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..24 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// Returns the rate from which batches answer sooner than single queries.
pub fn break_even(policy: Policy, service: &[f64]) -> f64 {
    let latency = |policy, rate| mean_latency(policy, service, rate, SEARCHED);
    last_rate(0.0, 1.0 / service[0], |rate| {
        rate == 0.0 || latency(Policy::ALONE, rate) <= latency(policy, rate)
    })
}

/// Returns the highest rate at which the mean latency is at most `factor` times that of a single
/// query.
pub fn last_rate_within(policy: Policy, service: &[f64], factor: f64) -> f64 {
    let limit = policy.limit.clamp(1, service.len());
    let most = limit as f64 / service[limit - 1];
    last_rate(1.0 / service[0], most, |rate| {
        mean_latency(policy, service, rate, SEARCHED) <= factor * service[0]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_alone_wait_as_queueing_theory_says() {
        // For an M/D/1 queue, the latency is the service time plus half of the waiting time of an
        // M/M/1 queue.
        for load in [0.2, 0.5, 0.8] {
            let expected = 1.0 + load / (2.0 * (1.0 - load));
            let mean = mean_latency(Policy::ALONE, &[1.0], load, 400_000);
            assert!((mean / expected - 1.0).abs() < 0.03, "{load}: {mean} {expected}");
        }
    }

    #[test]
    fn queries_that_hardly_ever_arrive_are_answered() {
        // The last queries arrive later than a clock can represent.
        let mean = mean_latency(Policy::ALONE, &[1.0], 1e-20, 100);
        assert!((0.0..=1.0).contains(&mean), "{mean}");
    }

    #[test]
    fn batches_that_take_days_are_refused() {
        let mut arch = Arch::ive().unwrap();
        (arch.chip.clock_hz, arch.chip.cores, arch.lpddr.module_bytes) = (1e6, 1, 1e15);
        let refused = served(&arch, 2e4, 1).unwrap_err();
        assert!(matches!(refused, IveError::Workload { key: "gib", .. }), "{refused}");
    }

    #[test]
    fn a_lone_query_waits_for_its_window_and_a_crowd_shares() {
        let policy = Policy { window: 0.5, limit: 4 };
        let service = [1.0, 1.1, 1.2, 1.3];
        assert!((mean_latency(policy, &service, 1e-3, 2_000) - 1.5).abs() < 0.01);
        // At this rate, single queries would never be answered.
        assert!(mean_latency(policy, &service, 2.0, 50_000) < 4.0);
        assert!(mean_latency(Policy::ALONE, &service, 2.0, 50_000) > 1e3);
        let even = break_even(policy, &service);
        assert!((0.2..0.9).contains(&even), "{even}");
        let last = last_rate_within(policy, &service, 2.5);
        assert!((1.0..3.1).contains(&last), "{last}");
    }
}

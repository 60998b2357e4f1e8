//! How many systems a database and a rate need: clusters of systems that share the database, and as many of them as
//! answer all queries in time.

use serde::Serialize;

use crate::arch::Arch;
use crate::error::IveError;
use crate::rowsel::Residence;
use crate::schedule::Digits;
use crate::scheduler::{mean_latency, served};
use crate::system::{Deployment, Mapping, Schedules, usual_batch};

/// The share of what a cluster can answer that it is given at most: queues have an end below it.
const MOST_LOAD: f64 = 0.9;
/// How many times as many clusters as are needed are looked at: more of them answer sooner.
const SPARE: [f64; 5] = [1.0, 1.5, 2.0, 3.0, 5.0];
/// Queries that latency is the mean of.
const COUNT: usize = 20_000;

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Systems that share a copy of the database.
    pub systems_of_cluster: u64,
    /// Copies.
    pub clusters: u64,
    /// All systems: the cost.
    pub systems: u64,
    /// Whether the database lies in LPDDR, not in HBM.
    pub in_lpddr: bool,
    /// Queries a second that all clusters answer at most.
    pub most_qps: f64,
    /// Mean seconds from arrival to answer at the rate that was asked for.
    pub latency_seconds: f64,
    /// Area of all chips with their HBM.
    pub area_mm2: f64,
    /// Their peak power, without that of LPDDR, which the paper does not give.
    pub power_w: f64,
    /// Energy of a query in a full batch, without that of LPDDR.
    pub energy_joules: f64,
}

/// Choices for a database of so many GiB and so many queries a second, the cheapest first; of those that cost the same,
/// the one that answers soonest.
///
/// # Errors
/// [`IveError::Workload`] if no number of systems holds the database, or the rate is impossible.
pub fn plan(arch: &Arch, gib: f64, qps: f64) -> Result<Vec<Choice>, IveError> {
    if !(1e-6..=1e9).contains(&qps) {
        return Err(IveError::Workload {
            key: "qps",
            problem: format!("{qps} queries a second"),
            remedy: "give 10^-6 to 10^9".into(),
        });
    }
    let schedules = Schedules::depth_first(arch, Digits::Forwarded)?;
    let chip = arch.budget.chip(arch.chip.cores);
    let (mut choices, mut last) = (Vec::new(), None);
    let most = arch.links.most_systems;
    let sizes = std::iter::successors(Some(1), |&systems| (systems < most).then_some(2 * systems));
    for systems_of_cluster in sizes {
        let full = match usual_batch(arch, gib, systems_of_cluster) {
            Ok(full) => full,
            // Too large for these, or too small to divide further.
            Err(error) => {
                last = Some(error);
                continue;
            }
        };
        let deployment = Deployment::new(arch, &schedules, gib, systems_of_cluster)?;
        let report = deployment.batch(full, Mapping::QueryPerCore)?;
        let (policy, service) = served(arch, gib, systems_of_cluster)?;
        // Of batches one after another, keys and all: what the scheduler's clock sees.
        let of_cluster = full as f64 / report.seconds();
        let needed = (qps / (MOST_LOAD * of_cluster)).ceil();
        let mut counts: Vec<u64> = SPARE.iter().map(|spare| (spare * needed).ceil() as u64).collect();
        counts.dedup();
        choices.extend(counts.into_iter().map(|clusters| {
            let systems = clusters * systems_of_cluster;
            Choice {
                systems_of_cluster,
                clusters,
                systems,
                in_lpddr: deployment.residence() == Residence::Lpddr,
                most_qps: clusters as f64 * of_cluster,
                latency_seconds: mean_latency(policy, &service, qps / clusters as f64, COUNT),
                area_mm2: systems as f64 * chip.area_mm2,
                power_w: systems as f64 * chip.power_w,
                energy_joules: report.energy_of_query(),
            }
        }));
    }
    choices.sort_by(|a, b| a.systems.cmp(&b.systems).then(a.latency_seconds.total_cmp(&b.latency_seconds)));
    match (choices.is_empty(), last) {
        (true, Some(error)) => Err(error),
        _ => Ok(choices),
    }
}

/// Of choices, the cheapest first, those that no other is both as cheap and as fast as.
pub fn best(choices: &[Choice]) -> Vec<Choice> {
    let mut fastest = f64::INFINITY;
    let better = choices.iter().filter(|choice| {
        let better = choice.latency_seconds < fastest;
        fastest = fastest.min(choice.latency_seconds);
        better
    });
    better.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_systems_hold_more_and_answer_sooner() {
        let arch = Arch::ive().unwrap();
        let choices = plan(&arch, 1280.0, 500.0).unwrap();
        let best = best(&choices);
        // Transformed, they are 4.4 TiB: 16 systems hold them, and no switch takes more.
        assert!(choices.iter().all(|choice| choice.systems_of_cluster == 16 && choice.most_qps >= 500.0));
        assert!(best.len() > 1 && best[0].systems == choices[0].systems, "{best:?}");
        for pair in best.windows(2) {
            assert!(pair[0].systems < pair[1].systems && pair[0].latency_seconds > pair[1].latency_seconds);
        }
        let mut larger = arch.clone();
        larger.links.most_systems = 64;
        let larger = plan(&larger, 1280.0, 500.0).unwrap();
        assert!(larger.iter().any(|choice| choice.systems_of_cluster == 64));
        for (gib, qps, key) in [
            (1e7, 500.0, "gib"),
            (f64::INFINITY, 500.0, "gib"),
            (1280.0, 0.0, "qps"),
            (1024.0, 1e-20, "qps"),
            (1280.0, 1e20, "qps"),
            (1280.0, f64::NAN, "qps"),
        ] {
            let refused = plan(&arch, gib, qps).unwrap_err();
            assert!(matches!(refused, IveError::Workload { key: named, .. } if named == key), "{refused}");
        }
    }
}

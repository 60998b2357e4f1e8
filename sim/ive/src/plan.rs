//! Number of systems for a database and a rate. The systems of a cluster share the database, and
//! there are enough clusters to answer all queries in time.

use serde::Serialize;

use crate::arch::Arch;
use crate::error::IveError;
use crate::rowsel::Residence;
use crate::schedule::Digits;
use crate::scheduler::{mean_latency, served};
use crate::system::{Deployment, Mapping, Schedules, usual_batch};

/// Maximum load of a cluster, as a fraction of the rate that it can answer: queues remain bounded
/// at this load.
const MOST_LOAD: f64 = 0.9;
/// Considered multiples of the necessary number of clusters; more clusters answer sooner.
const SPARE: [f64; 5] = [1.0, 1.5, 2.0, 3.0, 5.0];
/// Number of queries over which latency is averaged.
const COUNT: usize = 20_000;

/// Possible choice of systems.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Number of systems that share a copy of the database.
    pub systems_of_cluster: u64,
    /// Number of clusters: copies of the database.
    pub clusters: u64,
    /// Number of all systems: the cost.
    pub systems: u64,
    /// True if the database is in LPDDR instead of HBM.
    pub in_lpddr: bool,
    /// Maximum number of queries a second of all clusters.
    pub most_qps: f64,
    /// Mean seconds from arrival to answer at the given rate.
    pub latency_seconds: f64,
    /// Area of all chips with their HBM.
    pub area_mm2: f64,
    /// Peak power of all chips, without LPDDR: the paper does not give its power.
    pub power_w: f64,
    /// Energy of a query in a full batch, without LPDDR.
    pub energy_joules: f64,
}

/// Returns choices for a database of `gib` GiB and `qps` queries a second, the cheapest first;
/// among choices of equal cost, the one with the lowest latency first.
///
/// # Errors
/// [`IveError::Workload`] if no number of systems can hold the database, or the rate is impossible.
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
            // The database is too large for these systems, or too small to divide further.
            Err(error) => {
                last = Some(error);
                continue;
            }
        };
        let deployment = Deployment::new(arch, &schedules, gib, systems_of_cluster)?;
        let report = deployment.batch(full, Mapping::QueryPerCore)?;
        let (policy, service) = served(arch, gib, systems_of_cluster)?;
        // Rate of consecutive batches, including their keys, as the scheduler's clock measures it.
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

/// Returns the choices for which no other one is both as cheap and as fast; `choices` must be
/// sorted by cost.
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
        // After its transform, the database has 4.4 TiB. 16 systems can hold it, and a switch takes
        // no more systems.
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

//! Choice of a protocol: the cost of each, from its own counts of work and a machine's measured
//! rates.

mod rates;

use spirea_lattice::RingSet;
use spirea_math::random::Seed;

use crate::choice::{Choice, KeyDelivery, Preference, SecurityLevel};
use crate::registry::{NAMES, ProtocolParams};
use crate::steps::Unit;
use crate::{ProtocolError, Sizes};

pub use rates::Rates;

/// Resources and requirements of a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needs {
    /// Look-ups per second. If set, protocols with a lower throughput are not recommended.
    pub queries_per_second: Option<f64>,
    /// Client's upload rate, in bytes per second.
    pub uplink: f64,
    /// Client's download rate, in bytes per second.
    pub downlink: f64,
    /// The server's memory in bytes. If set, protocols that need more are not recommended.
    pub memory: Option<u64>,
    /// Look-ups of a client between two versions of the database. The client's hint and keys are
    /// amortised over them.
    pub lookups: f64,
    /// Number of servers that do not collude. With one server, two-server protocols are not
    /// recommended.
    pub servers: usize,
    /// Security that parameter sets must reach.
    pub security: SecurityLevel,
    /// Objective for choosing shapes.
    pub prefer: Preference,
    /// Number of bins of the table. If it is above 1, protocols without bins are not recommended.
    pub bins: usize,
    /// Required key delivery. If set, protocols with another delivery are not recommended. Keys
    /// that are not registered do not link look-ups.
    pub keys: Option<KeyDelivery>,
}

impl Default for Needs {
    /// Assumes a phone's 5 Mbit/s up and 20 Mbit/s down, and 100 look-ups between two versions.
    fn default() -> Self {
        Self {
            queries_per_second: None,
            uplink: 5e6 / 8.0,
            downlink: 20e6 / 8.0,
            memory: None,
            lookups: 100.0,
            servers: 1,
            security: SecurityLevel::default(),
            prefer: Preference::default(),
            bins: 1,
            keys: None,
        }
    }
}

impl Needs {
    /// Returns the choice of `protocol` and `keys` with these needs.
    fn choice(&self, protocol: &str, keys: KeyDelivery) -> Choice {
        let Self { security, prefer, bins, .. } = *self;
        Choice { protocol: protocol.into(), security, prefer, bins, keys, ..Choice::default() }
    }
}

/// Evaluation of a protocol against the needs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The protocol.
    pub protocol: &'static str,
    /// Delivery of its keys, if it has keys.
    pub keys: KeyDelivery,
    /// Its cost, or the reason why no shape fits these records.
    pub outcome: Result<Figures, String>,
}

/// Costs of a protocol with a shape.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The cheapest shape.
    pub params: ProtocolParams,
    /// Bytes on the wire.
    pub sizes: Sizes,
    /// Predicted server time for one query, in seconds, by step.
    pub steps: Vec<(&'static str, f64)>,
    /// Bytes of memory that the server needs with one query in flight.
    pub memory_bytes: u64,
    /// Latency of a look-up for the client, in seconds: upload, computation, download, and the
    /// amortised time of the hint and the keys.
    pub lookup_seconds: f64,
    /// Reason why the needs exclude it, if they do.
    pub ruled_out: Option<String>,
}

impl Figures {
    /// Returns the predicted server time for one query, in seconds.
    pub fn server_seconds(&self) -> f64 {
        self.steps.iter().map(|(_, seconds)| seconds).sum()
    }

    /// Returns a lower bound on the bytes of memory that a query reads, on any machine.
    pub fn read_bytes(&self) -> f64 {
        self.params.work.iter().map(|work| work.count * work.unit.read_bytes() as f64).sum()
    }
}

/// Predicts the server time for one query, in seconds, by step and in the order of the steps.
pub fn predict(params: &ProtocolParams, rates: &Rates) -> Vec<(&'static str, f64)> {
    let mut steps: Vec<(&'static str, f64)> = Vec::new();
    for work in &params.work {
        let seconds = work.count * rates.seconds(work.unit);
        match steps.iter_mut().find(|(step, _)| *step == work.step) {
            Some((_, sum)) => *sum += seconds,
            None => steps.push((work.step, seconds)),
        }
    }
    steps
}

/// Returns the ring sets whose rates a prediction for `params` needs.
pub fn sets(params: &ProtocolParams) -> Vec<RingSet> {
    let mut sets: Vec<RingSet> = params.work.iter().filter_map(|work| work.unit.ring_set()).collect();
    sets.dedup();
    sets
}

/// Returns the cost of every protocol, in the order of [`NAMES`], with an entry for each key
/// delivery.
pub fn plan(records: u64, record_bytes: usize, needs: &Needs, rates: &Rates) -> Vec<Plan> {
    let plan = |(protocol, keys)| {
        let choice = needs.choice(protocol, keys);
        if ProtocolParams::check_keys(&choice).is_err() {
            return None;
        }
        let outcome = match ProtocolParams::choose(&choice, Seed::default(), records, record_bytes) {
            Ok(params) => Ok(weigh(params, needs, rates)),
            Err(error) => Err(error.to_string()),
        };
        Some(Plan { protocol, keys, outcome })
    };
    let ways = NAMES.into_iter().flat_map(|protocol| KeyDelivery::ALL.map(|keys| (protocol, keys)));
    ways.filter_map(plan).collect()
}

/// Returns true if no protocol has a shape for such a table, on any machine.
pub fn is_too_large(records: u64, record_bytes: usize, security: SecurityLevel) -> bool {
    let needs = Needs { security, ..Needs::default() };
    let choice = |protocol| needs.choice(protocol, KeyDelivery::Registered);
    let choose = |protocol| ProtocolParams::choose(&choice(protocol), Seed::default(), records, record_bytes);
    NAMES.into_iter().all(|protocol| choose(protocol).is_err())
}

fn weigh(params: ProtocolParams, needs: &Needs, rates: &Rates) -> Figures {
    let (sizes, steps) = (params.sizes, predict(&params, rates));
    let server: f64 = steps.iter().map(|(_, seconds)| seconds).sum();
    let once = sizes.keys_bytes as f64 / needs.uplink + sizes.hint_bytes as f64 / needs.downlink;
    let lookup_seconds = params.parties as f64
        * (sizes.query_bytes as f64 / needs.uplink + sizes.answer_bytes as f64 / needs.downlink)
        + server
        + once / needs.lookups;
    let memory_bytes = params.memory_bytes;
    let too_slow = needs.queries_per_second.filter(|rate| rate * server > 1.0);
    let ruled_out = if params.parties > needs.servers {
        Some("needs two servers whose operators do not work together".into())
    } else if needs.memory.is_some_and(|memory| memory_bytes > memory) {
        Some("needs more memory than there is".into())
    } else if let Some(reason) = misdelivered(&params, needs) {
        Some(reason.into())
    } else {
        too_slow.map(|rate| format!("cannot answer {rate} look-ups a second one by one"))
    };
    Figures { params, sizes, steps, memory_bytes, lookup_seconds, ruled_out }
}

/// Returns the reason why the key delivery violates the needs, if it does.
fn misdelivered(params: &ProtocolParams, needs: &Needs) -> Option<&'static str> {
    match (params.key_delivery?, needs.keys?) {
        (KeyDelivery::Registered, KeyDelivery::PerQuery) => {
            Some("registers keys, by which a client's look-ups can be linked")
        }
        (KeyDelivery::PerQuery, KeyDelivery::Registered) => Some("sends keys with every query"),
        _ => None,
    }
}

/// Returns the index in `plans` of the protocol with the shortest look-up time among the protocols
/// that the needs allow.
pub fn recommended(plans: &[Plan]) -> Option<usize> {
    let time = |plan: &Plan| match &plan.outcome {
        Ok(figures) if figures.ruled_out.is_none() => Some(figures.lookup_seconds),
        _ => None,
    };
    let allowed = plans.iter().enumerate().filter_map(|(i, plan)| Some((i, time(plan)?)));
    allowed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
}

/// Upper bound on the time of scanning a matrix, in seconds per byte, for any server.
const SLOWEST_SCAN: f64 = 1e-8;

/// The planner's recommendation for a table.
#[derive(Clone, Debug)]
pub struct Recommendation {
    /// The protocol, and the options under which the planner chose it.
    pub choice: Choice,
    /// Figures of the recommended protocol.
    pub figures: Figures,
    /// Figures of the other protocols that the needs allow, ordered by the time of a look-up. A
    /// protocol with several key deliveries appears only once, with its fastest delivery.
    pub others: Vec<Figures>,
}

impl Needs {
    /// Returns the recommended protocol for these records at these rates.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the needs exclude all protocols.
    pub fn recommend(
        &self,
        records: u64,
        record_bytes: usize,
        rates: &Rates,
    ) -> Result<Recommendation, ProtocolError> {
        let plans = plan(records, record_bytes, self, rates);
        let Some(best) = recommended(&plans) else {
            let detail = "no protocol fits these records and needs: see spirea plan";
            return Err(ProtocolError::BadRequest(detail.into()));
        };
        let choice = self.choice(plans[best].protocol, plans[best].keys);
        let allowed = plans.into_iter().filter_map(|plan| plan.outcome.ok());
        let mut allowed: Vec<_> = allowed.filter(|figures| figures.ruled_out.is_none()).collect();
        allowed.sort_by(|a, b| a.lookup_seconds.total_cmp(&b.lookup_seconds));
        let mut names = Vec::new();
        allowed.retain(|figures| {
            let is_first = !names.contains(&figures.params.name);
            names.push(figures.params.name);
            is_first
        });
        let figures = allowed.remove(0);
        Ok(Recommendation { choice, figures, others: allowed })
    }

    /// Returns the protocol that is recommended for these records on every machine, with lower
    /// bounds of each protocol's costs. `None` if the recommendation depends on the machine.
    ///
    /// Only `simple` qualifies: its work is so small that the slowest machine finishes before the
    /// network has transferred the bytes of the other protocols.
    pub fn recommend_for_all_machines(&self, records: u64, record_bytes: usize) -> Option<Recommendation> {
        let recommendation = self.recommend(records, record_bytes, &Rates::default()).ok()?;
        let (best, next) = (&recommendation.figures, recommendation.others.first()?);
        let work = &best.params.work;
        let is_scan = work.iter().all(|work| work.unit == Unit::ScannedByte);
        let slowest: f64 = work.iter().map(|work| work.count * SLOWEST_SCAN).sum();
        (is_scan && best.lookup_seconds + slowest < next.lookup_seconds).then_some(recommendation)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::steps::Work;

    #[test]
    fn every_protocol_has_a_shape_for_a_usual_table_and_work_in_known_steps() {
        for security in [SecurityLevel::Standard, SecurityLevel::Conservative] {
            let needs = Needs { security, ..Needs::default() };
            for plan in plan(1 << 20, 256, &needs, &Rates::default()) {
                if (plan.protocol, security) == ("double", SecurityLevel::Conservative) {
                    assert!(plan.outcome.unwrap_err().contains("chosen against the public matrix"));
                    continue;
                }
                let figures = plan.outcome.unwrap();
                assert_eq!(figures.params.name, plan.protocol);
                assert!(figures.memory_bytes >= figures.params.matrix_bytes());
                let work = &figures.params.work;
                assert!(work.iter().all(|work| work.count > 0.0), "{work:?}");
                assert!(figures.params.sets.securities().all(|(_, set)| security.admits(set)));
                assert!(sets(&figures.params).iter().all(|set| security.ring_sets().contains(set)));
            }
        }
    }

    /// Checks sizes, memory and work of every protocol against `tests/vectors/figures.txt`, the
    /// only record of these figures. They change with a protocol's shapes and its count of work;
    /// `SPIREA_WRITE_VECTORS=1` rewrites the file.
    #[test]
    fn figures_of_usual_tables_are_those_that_were_written_down() {
        let mut found = String::new();
        for (records, record_bytes) in [(300, 64), (1 << 20, 256), (1 << 14, 20_000)] {
            for bins in [1, 8] {
                let needs = Needs { bins, ..Needs::default() };
                for plan in plan(records, record_bytes, &needs, &Rates::default()) {
                    let name = format!(
                        "{records} x {record_bytes}, {bins} bins: {}, {:?}",
                        plan.protocol, plan.keys
                    );
                    let Ok(figures) = plan.outcome else { continue };
                    let (params, read) = (&figures.params, figures.read_bytes());
                    writeln!(found, "{name}").unwrap();
                    writeln!(found, "  set {:?}, {} bits", params.set, params.security_bits).unwrap();
                    let Sizes { query_bytes, answer_bytes, hint_bytes, keys_bytes } = params.sizes;
                    writeln!(
                        found,
                        "  query {query_bytes}, answer {answer_bytes}, hint {hint_bytes}, keys {keys_bytes}"
                    )
                    .unwrap();
                    let [folded, server, memory] =
                        [params.folded_bytes(), params.server_bytes, params.memory_bytes];
                    writeln!(found, "  folded {folded}, server {server}, memory {memory}, read {read}")
                        .unwrap();
                    for Work { step, unit, count } in &params.work {
                        writeln!(
                            found,
                            "  {step}: {count} {}, {} bytes each",
                            unit.name(),
                            unit.read_bytes()
                        )
                        .unwrap();
                    }
                }
            }
        }
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/figures.txt");
        if std::env::var_os("SPIREA_WRITE_VECTORS").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &found).unwrap();
        }
        let known = std::fs::read_to_string(file).unwrap();
        for (known, found) in known.lines().zip(found.lines()) {
            assert_eq!(known, found);
        }
        assert_eq!(known.len(), found.len());
    }

    #[test]
    fn recommendations_respect_memory_and_load() {
        let all = plan(1 << 20, 256, &Needs::default(), &Rates::default());
        let best = recommended(&all).unwrap();
        let memory = all[best].outcome.as_ref().unwrap().memory_bytes;
        let less = Needs { memory: Some(memory - 1), ..Needs::default() };
        let ruled = plan(1 << 20, 256, &less, &Rates::default());
        assert!(ruled[best].outcome.as_ref().unwrap().ruled_out.is_some());
        assert_ne!(recommended(&ruled), Some(best));
        let nothing = Needs { memory: Some(1), ..Needs::default() };
        assert_eq!(recommended(&plan(1 << 20, 256, &nothing, &Rates::default())), None);
        assert!(nothing.recommend(1 << 20, 256, &Rates::default()).is_err());
        let recommended = Needs::default().recommend(1 << 20, 256, &Rates::default()).unwrap();
        assert_eq!(recommended.choice.protocol, all[best].protocol);
        assert_eq!(recommended.figures.params.name, all[best].protocol);
        let times: Vec<_> = recommended.others.iter().map(|other| other.lookup_seconds).collect();
        assert!(times.is_sorted() && times[0] >= recommended.figures.lookup_seconds);
        let mut names: Vec<_> = recommended.others.iter().map(|other| other.params.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len() - 3, "each once, without the best and those of two servers");
    }

    #[test]
    fn small_tables_have_one_protocol_on_all_machines() {
        let needs = Needs::default();
        // A machine with the slowest scan, for which all other work takes no time.
        let slow: Rates = [(Unit::ScannedByte, SLOWEST_SCAN)].into_iter().collect();
        for (records, record_bytes) in [(1, 1), (1000, 40), (20_000, 64)] {
            let settled = needs.recommend_for_all_machines(records, record_bytes).unwrap().choice;
            for rates in [&slow, &Rates::default()] {
                assert_eq!(needs.recommend(records, record_bytes, rates).unwrap().choice, settled);
            }
        }
        for records in [1 << 20, 1 << 30] {
            assert!(needs.recommend_for_all_machines(records, 256).is_none());
        }
    }

    #[test]
    fn keys_come_with_queries_where_nothing_may_link_them() {
        let rates = Rates::default();
        let unlinkable = Needs { keys: Some(KeyDelivery::PerQuery), ..Needs::default() };
        let plans = plan(1 << 22, 256, &unlinkable, &rates);
        assert_eq!(plans.iter().filter(|plan| plan.keys == KeyDelivery::PerQuery).count(), 3);
        for plan in &plans {
            let Ok(figures) = &plan.outcome else { panic!("{plan:?}") };
            let registers = figures.sizes.keys_bytes > 0;
            assert_eq!(figures.ruled_out.as_ref().is_some_and(|why| why.contains("linked")), registers);
            if plan.keys == KeyDelivery::PerQuery {
                let registered = Choice { keys: KeyDelivery::Registered, ..figures.params.choice() };
                let registered = ProtocolParams::choose(&registered, Seed::default(), 1 << 22, 256).unwrap();
                assert!(
                    figures.sizes.query_bytes
                        > registered.sizes.query_bytes + registered.sizes.keys_bytes / 4
                );
                assert!(figures.params.work.iter().all(|work| work.count > 0.0));
            }
        }
        let registered = Needs { keys: Some(KeyDelivery::Registered), ..Needs::default() };
        for plan in plan(1 << 22, 256, &registered, &rates) {
            let ruled_out = plan.outcome.unwrap().ruled_out;
            assert_eq!(
                ruled_out.is_some_and(|why| why.contains("every query")),
                plan.keys == KeyDelivery::PerQuery
            );
        }
        // A client with a single look-up sends its keys once either way, and keys that a query
        // carries are smaller. No hint is worth its download.
        let once = Needs { lookups: 1.0, ..Needs::default() };
        let plans = plan(1 << 22, 256, &once, &rates);
        assert_eq!(plans.len(), NAMES.len() + 3);
        let seconds = |keys| {
            let plan =
                plans.iter().find(|plan| plan.protocol == "exppack-simple" && plan.keys == keys).unwrap();
            plan.outcome.as_ref().unwrap().lookup_seconds
        };
        assert!(seconds(KeyDelivery::PerQuery) < seconds(KeyDelivery::Registered));
        let needs = Needs { lookups: 1.0, ..unlinkable };
        assert_eq!(needs.recommend(1 << 22, 256, &rates).unwrap().choice.keys, KeyDelivery::PerQuery);
    }

    #[test]
    fn bins_are_for_two_servers_or_for_packed_rows() {
        let needs = Needs { bins: 64, servers: 2, ..Needs::default() };
        let plans = plan(1 << 20, 256, &needs, &Rates::default());
        for plan in &plans {
            match &plan.outcome {
                Ok(figures) => {
                    assert_eq!(figures.params.bins, 64);
                    match plan.protocol {
                        "exppack-simple" => assert!(figures.sizes.answer_bytes > 64 * 256),
                        protocol => {
                            assert!(protocol.starts_with("dpf"), "{protocol}");
                            assert_eq!(figures.sizes.answer_bytes, 64 * 256);
                        }
                    }
                }
                Err(error) => assert!(error.contains("has no bins"), "{}: {error}", plan.protocol),
            }
        }
        let recommended = needs.recommend(1 << 20, 256, &Rates::default()).unwrap();
        assert_eq!(recommended.choice.bins, 64);
        let others = recommended.others.iter().map(|other| other.params.name);
        assert!(others.clone().all(|name| ["dpf-sum", "exppack-simple"].contains(&name)), "{:?}", others);
        let one_server = Needs { servers: 1, ..needs };
        let recommended = one_server.recommend(1 << 20, 256, &Rates::default()).unwrap();
        assert_eq!((&recommended.choice.protocol[..], recommended.choice.bins), ("exppack-simple", 64));
    }

    #[test]
    fn tables_that_fit_no_shape_say_why() {
        let plans = plan(1 << 20, 1 << 20, &Needs::default(), &Rates::default());
        let double = plans.iter().find(|plan| plan.protocol == "double").unwrap();
        assert!(double.outcome.as_ref().unwrap_err().contains("no shape"));
    }
}

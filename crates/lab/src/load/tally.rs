//! Results of the look-ups.

use std::collections::BTreeMap;

use serde::Serialize;

use super::endpoint::Failure;
use crate::latencies::Latencies;

/// Counts of look-ups and their results.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    /// Look-ups that fell due.
    pub sent: u64,
    /// Answers that were compared with the right answer.
    pub checked: u64,
    /// Answers that differ from the right answer.
    pub wrong: u64,
    /// Answers that failed their checksum or cannot be decoded. A real client would withhold them.
    pub corrupted: u64,
    /// Look-ups without an answer, by reason.
    pub errors: BTreeMap<String, u64>,
    /// Look-ups that were made again for a new version.
    pub refreshed: u64,
    /// Look-ups that were sent again because the server had forgotten their keys.
    pub keys_sent_again: u64,
    /// Total length of requests' bodies, in bytes.
    pub sent_bytes: u64,
    /// Total length of answers' bodies, in bytes.
    pub received_bytes: u64,
}

/// Measurements during the load.
#[derive(Debug, Default)]
pub struct Tally {
    pub counts: Counts,
    /// Seconds between the time when a look-up was due and its answer.
    pub latencies: Vec<f64>,
    /// Maximum delay between the time when a look-up was due and its sending, in seconds: how far
    /// this machine fell behind.
    pub behind: f64,
    /// Time at which the last look-up ended, in seconds from the beginning.
    pub ended: f64,
}

impl Tally {
    /// Records a look-up without an answer.
    pub fn failed(&mut self, failure: &Failure) {
        self.error(failure.to_string());
    }

    /// Records a look-up without an answer, with the reason.
    pub fn error(&mut self, why: String) {
        *self.counts.errors.entry(why).or_default() += 1;
    }
}

/// Final report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `load`.
    pub name: &'static str,
    /// Name of the database.
    pub database: String,
    /// Protocol of the database.
    pub protocol: String,
    /// Number of simulated clients.
    pub clients: usize,
    /// Look-ups due per second.
    pub rate: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Counts of look-ups and their results.
    #[serde(flatten)]
    pub counts: Counts,
    /// Number of look-ups that were answered, right or wrong.
    pub answered: u64,
    /// Answers per second, until the last answer.
    pub achieved_rate: f64,
    /// Mean time between a look-up's due time and its answer.
    pub mean_seconds: f64,
    /// Median latency.
    pub p50_seconds: f64,
    /// Latency that 1 answer in 10 exceeds.
    pub p90_seconds: f64,
    /// Latency that 1 answer in 100 exceeds.
    pub p99_seconds: f64,
    /// Latency that 1 answer in 1000 exceeds.
    pub p999_seconds: f64,
    /// Maximum latency.
    pub max_seconds: f64,
    /// Maximum delay of a look-up's sending after its due time.
    pub behind_seconds: f64,
}

impl Report {
    /// Number of wrong answers, including those that a real client would detect.
    pub fn bad(&self) -> u64 {
        self.counts.wrong + self.counts.corrupted
    }
}

/// Requested load.
pub struct Plan {
    /// Name of the database.
    pub database: String,
    /// Protocol of the database.
    pub protocol: String,
    /// Number of simulated clients.
    pub clients: usize,
    /// Look-ups per second.
    pub rate: f64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Plan {
    /// Makes the report.
    pub fn report(self, tally: Tally) -> (Report, Latencies) {
        let latencies = Latencies::new(tally.latencies);
        let answered = latencies.count() as u64;
        let report = Report {
            name: "load",
            database: self.database,
            protocol: self.protocol,
            clients: self.clients,
            rate: self.rate,
            seconds: self.seconds,
            counts: tally.counts,
            answered,
            achieved_rate: if tally.ended > 0.0 { answered as f64 / tally.ended } else { 0.0 },
            mean_seconds: latencies.mean(),
            p50_seconds: latencies.quantile(0.5),
            p90_seconds: latencies.quantile(0.9),
            p99_seconds: latencies.quantile(0.99),
            p999_seconds: latencies.quantile(0.999),
            max_seconds: latencies.max(),
            behind_seconds: tally.behind,
        };
        (report, latencies)
    }
}

//! What came of the look-ups.

use std::collections::BTreeMap;

use serde::Serialize;

use super::endpoint::Failure;
use crate::latencies::Latencies;

/// Look-ups and what came of them.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    /// Look-ups whose time came.
    pub sent: u64,
    /// Answers that were compared with the right one.
    pub checked: u64,
    /// Answers that are not the right one.
    pub wrong: u64,
    /// Answers that failed their checksum or cannot be decoded: withheld from a real client.
    pub corrupted: u64,
    /// Look-ups without an answer, by why.
    pub errors: BTreeMap<String, u64>,
    /// Look-ups that were made anew for a new version.
    pub refreshed: u64,
    /// Look-ups that were sent again since the server had forgotten their keys.
    pub keys_sent_again: u64,
    /// Bytes of requests' bodies.
    pub sent_bytes: u64,
    /// Bytes of answers' bodies.
    pub received_bytes: u64,
}

/// What is noted while the load runs.
#[derive(Debug, Default)]
pub struct Tally {
    pub counts: Counts,
    /// Seconds from when a look-up was due to when its answer was there.
    pub latencies: Vec<f64>,
    /// The longest delay of a look-up beyond the time it was due, in seconds: how far this machine fell behind.
    pub behind: f64,
    /// When the last look-up ended, in seconds from the beginning.
    pub ended: f64,
}

impl Tally {
    /// Notes a look-up without an answer.
    pub fn failed(&mut self, failure: &Failure) {
        self.error(failure.to_string());
    }

    /// Notes a look-up without an answer.
    pub fn error(&mut self, why: String) {
        *self.counts.errors.entry(why).or_default() += 1;
    }
}

/// What is told at the end.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `load`.
    pub name: &'static str,
    /// The database.
    pub database: String,
    /// Its protocol.
    pub protocol: String,
    /// Simulated clients.
    pub clients: usize,
    /// Look-ups a second that were due.
    pub rate: f64,
    /// For how long.
    pub seconds: f64,
    /// Look-ups and what came of them.
    #[serde(flatten)]
    pub counts: Counts,
    /// Look-ups that were answered, right or wrong.
    pub answered: u64,
    /// Answers a second, until the last one.
    pub achieved_rate: f64,
    /// From when a look-up was due to when its answer was there.
    pub mean_seconds: f64,
    /// The median.
    pub p50_seconds: f64,
    /// What one in ten exceeds.
    pub p90_seconds: f64,
    /// What one in a hundred exceeds.
    pub p99_seconds: f64,
    /// What one in a thousand exceeds.
    pub p999_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
    /// The longest that a look-up left later than it was due.
    pub behind_seconds: f64,
}

impl Report {
    /// Look-ups that were answered wrongly, found out or not by a real client.
    pub fn bad(&self) -> u64 {
        self.counts.wrong + self.counts.corrupted
    }
}

/// What was asked for.
pub struct Plan {
    /// The database.
    pub database: String,
    /// Its protocol.
    pub protocol: String,
    /// Simulated clients.
    pub clients: usize,
    /// Look-ups a second.
    pub rate: f64,
    /// For how many seconds.
    pub seconds: f64,
}

impl Plan {
    /// What came of it.
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

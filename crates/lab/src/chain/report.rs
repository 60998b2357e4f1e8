//! Results of the scenario, for programs and for people.

use serde::Serialize;
use spirea_console::output::{bytes, print_line, seconds};

use super::clients::Judged;
use crate::latencies::Latencies;

/// A distribution, in seconds.
#[derive(Debug, Serialize)]
pub struct Distribution {
    /// Number of values.
    pub count: usize,
    /// Median.
    pub p50: f64,
    /// Value that 1 in 20 values exceeds.
    pub p95: f64,
    /// Maximum.
    pub max: f64,
}

impl From<Vec<f64>> for Distribution {
    fn from(values: Vec<f64>) -> Self {
        let values = Latencies::new(values);
        Self {
            count: values.count(),
            p50: values.quantile(0.5),
            p95: values.quantile(0.95),
            max: values.max(),
        }
    }
}

/// Resident memory of a server, in bytes.
#[derive(Debug, Default, Serialize)]
pub struct Memory {
    /// Name of the server.
    pub server: String,
    /// Memory before the first change.
    pub before: u64,
    /// Maximum while the table changed.
    pub most: u64,
    /// Memory at the end.
    pub end: u64,
}

/// Results of a database.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Name of the database and of its protocol.
    pub database: String,
    /// Maximum number of look-ups per second, measured on all databases at the same time.
    pub capacity: f64,
    /// Look-ups per second of the open loop.
    pub rate: f64,
    /// Counts of all look-ups.
    #[serde(flatten)]
    pub judged: Judged,
    /// Latencies without changes.
    pub quiet: Distribution,
    /// Latencies with changes.
    pub changing: Distribution,
    /// Latencies during the compaction that the scenario asks for.
    pub compacting: Distribution,
    /// Delays between sending a block to the stream and the report of its version.
    pub published: Distribution,
    /// Delays between sending a block to the stream and the first answer from a version with the
    /// block.
    pub visible: Distribution,
    /// Delays between the report of a block's version and the first answer from a version with the
    /// block.
    pub then_visible: Distribution,
    /// Blocks that were sent and that no client saw.
    pub invisible: usize,
    /// Number of versions.
    pub versions: usize,
    /// Number of compactions.
    pub compactions: usize,
    /// Duration of the compaction that the scenario asks for.
    pub compaction_seconds: f64,
    /// Memory of the servers.
    pub memory: Vec<Memory>,
}

/// Results of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `chain`.
    pub name: &'static str,
    /// Number of accounts before the first block.
    pub accounts: u64,
    /// Bytes of an account's state.
    pub value_bytes: usize,
    /// Changes in a block.
    pub changes: usize,
    /// Seconds between blocks.
    pub every_seconds: f64,
    /// Minutes with changes.
    pub minutes: f64,
    /// Number of blocks after the first one, which is published before anything is measured.
    pub blocks: u32,
    /// Results of each database.
    pub databases: Vec<Outcome>,
}

impl Outcome {
    /// True if no answer was wrong or missing, every block was seen, and a compaction took place.
    pub fn holds(&self) -> bool {
        let Judged { wrong, unknown, lost, .. } = self.judged;
        wrong + unknown + lost == 0 && self.invisible == 0 && self.compactions > 0
    }

    fn print(&self) -> anyhow::Result<()> {
        print_line(&format!(
            "{}: {:.1} look-ups a second, half of {:.1}; {} versions, {} compactions, the one asked for in {}",
            self.database,
            self.rate,
            self.capacity,
            self.versions,
            self.compactions,
            seconds(self.compaction_seconds)
        ))?;
        let judged = &self.judged;
        print_line(&format!(
            "  {} look-ups: {} wrong, {} of unknown versions, {} lost; {} from an older version, at most {} blocks older",
            judged.sent, judged.wrong, judged.unknown, judged.lost, judged.older, judged.most_blocks_older
        ))?;
        for (why, count) in &judged.errors {
            print_line(&format!("  {count} lost: {why}"))?;
        }
        for (what, times) in [
            ("without changes", &self.quiet),
            ("with changes", &self.changing),
            ("in a compaction", &self.compacting),
            ("until published", &self.published),
            ("until visible", &self.visible),
            ("then visible", &self.then_visible),
        ] {
            print_line(&format!(
                "  {what:16} p50 {:>9}  p95 {:>9}  max {:>9}  of {}",
                seconds(times.p50),
                seconds(times.p95),
                seconds(times.max),
                times.count
            ))?;
        }
        if self.invisible > 0 {
            print_line(&format!("  {} blocks were never seen", self.invisible))?;
        }
        for Memory { server, before, most, end } in &self.memory {
            print_line(&format!(
                "  memory of {server}: {} before, at most {}, {} at the end",
                bytes(*before),
                bytes(*most),
                bytes(*end)
            ))?;
        }
        Ok(())
    }
}

impl Report {
    /// True if [`Outcome::holds`] is true for all databases.
    pub fn holds(&self) -> bool {
        self.databases.iter().all(Outcome::holds)
    }

    /// Prints the results for people.
    pub fn print(&self) -> anyhow::Result<()> {
        print_line(&format!(
            "{} accounts of {} bytes; {} blocks of {} changes, one every {}",
            self.accounts,
            self.value_bytes,
            self.blocks,
            self.changes,
            seconds(self.every_seconds)
        ))?;
        self.databases.iter().try_for_each(Outcome::print)
    }
}

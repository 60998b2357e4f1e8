//! Processing in memory in a plan, by the model of `spirea-lab bench pim`.

use anyhow::Context as _;
use clap::Args;
use spirea_console::output::seconds;
use spirea_dpf::OutputKind;
use spirea_pim::MOST_QUERIES;
use spirea_pim::model::parameters::{Parameters, Profile};
use spirea_pim::model::system::Arrangement;
use spirea_protocols::parameters::FirstFold;
use spirea_protocols::planner::{Figures, Rates};
use spirea_protocols::steps::Unit;

/// Options for a machine with processing in memory.
#[derive(Args)]
pub(super) struct PimOptions {
    /// DPUs of a machine with processing in memory, such as 2048: shows how it would best answer
    /// dpf-xor, and how fast, by a model. Keys are expanded by this machine's threads.
    #[arg(help_heading = "Devices", long, value_name = "DPUS")]
    pim: Option<usize>,
    /// Number of simultaneous queries, for which clusters and passes are chosen.
    #[arg(help_heading = "Devices", long, value_name = "QUERIES", requires = "pim", default_value_t = 32,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pim_batch: u16,
    /// Parameters of the model: paper or kernel.
    #[arg(help_heading = "Devices", long, requires = "pim", default_value = "kernel")]
    pim_profile: Profile,
}

/// A machine with processing in memory, for the model.
pub(super) struct Pim {
    parameters: Parameters,
    dpus: usize,
    batch: usize,
}

/// Arrangement and bottleneck of such a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Priced {
    pub arrangement: Arrangement,
    pub bound: &'static str,
}

impl PimOptions {
    /// Returns the machine, if there is one. Its host is this machine, whose rates were measured.
    pub(super) fn machine(&self, rates: &Rates) -> anyhow::Result<Option<Pim>> {
        let Some(dpus) = self.pim else { return Ok(None) };
        anyhow::ensure!(dpus > 0, "--pim must be at least 1");
        let mut parameters = self.pim_profile.parameters().context("the model's parameters")?;
        if self.pim_profile == Profile::Kernel {
            parameters.host.evaluate_seconds_per_point = rates.seconds(Unit::SharedRow(OutputKind::Bit));
        }
        Ok(Some(Pim { parameters, dpus, batch: self.pim_batch.into() }))
    }
}

impl Pim {
    /// Predicts the cost of a protocol; `None` if this machine does not answer the protocol.
    pub(super) fn price(&self, figures: &Figures) -> Option<Priced> {
        let params = &figures.params;
        let FirstFold::Rows { domain, bins, .. } = params.first_fold else { return None };
        // The model assumes that each query is answered by passes over the whole table, so it does
        // not cover bins.
        if domain.output() != OutputKind::Bit || bins > 1 {
            return None;
        }
        let (records, bytes) = (params.records(), params.record_bytes().next_multiple_of(8));
        let arrangement =
            Arrangement::choose(&self.parameters, records, bytes, self.dpus, self.batch, MOST_QUERIES);
        Some(Priced { arrangement, bound: arrangement.bound(&self.parameters, records) })
    }

    /// Describes the predicted cost of a protocol.
    pub(super) fn describe(&self, figures: &Figures) -> Option<String> {
        let Priced { arrangement, bound } = self.price(figures)?;
        let Arrangement { clusters, passes, queries, throughput, times } = arrangement;
        let passes =
            if passes == 1 { "the table stays".into() } else { format!("{passes} passes for each query") };
        Some(format!(
            "{} DPUs in {clusters} cluster(s), {queries} queries in a pass, {passes}: {} for a query, {throughput:.0} a \
             second; the bound is {bound} (modelled)",
            self.dpus,
            seconds(times.total())
        ))
    }
}

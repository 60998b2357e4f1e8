//! GPUs in a plan: whether protocols fit them, and how fast they could be.

use clap::{Args, ValueEnum};
use spirea_backend::{Division, Links, Strategy};
use spirea_console::output::parse_bytes;
use spirea_protocols::planner::Figures;
use spirea_server::gpu_demand;

/// A GPU, described by its memory.
#[derive(Clone, Copy)]
pub(super) struct Gpu {
    memory: u64,
    /// Memory bandwidth in bytes per second.
    bandwidth: f64,
}

impl Gpu {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wanted = || format!("{text:?} is not MEMORY:GB/S, such as 94GiB:3480");
        let (memory, bandwidth) = text.split_once(':').ok_or_else(wanted)?;
        let bandwidth: f64 = bandwidth.parse().map_err(|_| wanted())?;
        if !(bandwidth.is_finite() && bandwidth > 0.0) {
            return Err(wanted());
        }
        Ok(Self { memory: parse_bytes(memory)?, bandwidth: bandwidth * 1e9 })
    }

    /// Returns a lower bound of a query's time; `None` if the memory is too small.
    pub(super) fn least_seconds(self, figures: &Figures) -> Option<f64> {
        (figures.memory_bytes <= self.memory).then(|| figures.read_bytes() / self.bandwidth)
    }
}

/// Connection between GPUs.
#[derive(Clone, Copy, ValueEnum)]
enum Link {
    /// GPUs copy directly between their memories.
    Nvlink,
    /// GPUs copy through the host.
    Pcie,
}

/// Options for several GPUs that answer together.
#[derive(Args)]
pub(super) struct GpuOptions {
    /// GPUs of one server, from 1 to 64: shows how they would divide each protocol's database, and
    /// why.
    #[arg(help_heading = "Devices", long, requires = "gpu_memory", value_parser = clap::value_parser!(u16).range(1..=64))]
    gpus: Option<u16>,
    /// Memory of each GPU, such as 94GiB.
    #[arg(help_heading = "Devices", long, value_name = "SIZE", requires = "gpus", value_parser = parse_bytes)]
    gpu_memory: Option<u64>,
    /// Link between the GPUs.
    #[arg(help_heading = "Devices", long, requires = "gpus", default_value = "pcie")]
    gpu_link: Link,
    /// Queries that the GPUs answer at once. A server plans for one query, so that all GPUs take
    /// part in a lone query.
    #[arg(help_heading = "Devices", long, value_name = "QUERIES", requires = "gpus", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    gpu_batch: u16,
}

impl GpuOptions {
    /// Returns the GPUs, if there are any.
    pub(super) fn group(&self) -> Option<GpuGroup> {
        let links = match self.gpu_link {
            Link::Nvlink => Links::Direct,
            Link::Pcie => Links::Host,
        };
        let (count, batch) = (usize::from(self.gpus?), usize::from(self.gpu_batch));
        Some(GpuGroup { count, memory: self.gpu_memory?, links, batch })
    }
}

/// Several GPUs of a server.
#[derive(Clone, Copy)]
pub(super) struct GpuGroup {
    count: usize,
    memory: u64,
    links: Links,
    batch: usize,
}

impl GpuGroup {
    /// Returns the division of a protocol's database that a server would choose; `None` if not even
    /// shares fit.
    pub(super) fn division(self, figures: &Figures) -> Option<Division> {
        Strategy::choose(self.count, self.memory, self.links, gpu_demand(&figures.params, self.batch))
    }
}

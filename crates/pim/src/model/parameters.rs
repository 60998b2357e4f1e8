//! Parameters of the model, read from a file.

use serde::Deserialize;

use crate::sdk::{MOST_TASKLETS, PimError};

/// Parameter file that comes with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Fitted to rows of IM-PIR; `papers/im-pir.toml` says which.
    Paper,
    /// Instructions counted from the device program; CPU and GPU as in `paper`.
    Kernel,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 2] = [Self::Paper, Self::Kernel];

    /// Returns the profile's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Kernel => "kernel",
        }
    }

    /// Returns the text of the file.
    pub fn text(self) -> &'static str {
        match self {
            Self::Paper => include_str!("../../profiles/paper.toml"),
            Self::Kernel => include_str!("../../profiles/kernel.toml"),
        }
    }

    /// Reads the profile's parameters.
    ///
    /// # Errors
    /// As [`Parameters::read`]; the files that come with the program cause none.
    pub fn parameters(self) -> Result<Parameters, PimError> {
        Parameters::read(self.text())
    }
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|profile| profile.name() == name);
        known.ok_or_else(|| format!("{name:?} is none of paper and kernel"))
    }
}

/// All parameters. Times are in seconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Description of the parameters.
    pub label: String,
    /// The DPUs.
    pub machine: Machine,
    /// Copies between MRAM and WRAM.
    pub dma: Dma,
    /// The device program.
    pub program: Program,
    /// Host transfers.
    pub transfers: Transfers,
    /// Launches.
    pub launch: Launch,
    /// The host.
    pub host: Host,
    /// CPU that IM-PIR is compared with.
    pub cpu: Cpu,
    /// GPU that IM-PIR is compared with.
    pub gpu: Gpu,
}

/// The DPUs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Number of DPUs.
    pub dpus: usize,
    /// Tasklets of each DPU.
    pub tasklets: u32,
    /// Cycles a second.
    pub clock_hz: f64,
    /// Bytes of MRAM of each DPU.
    pub mram_bytes: usize,
    /// Cycles between two instructions of one tasklet.
    pub issue_interval: u32,
}

/// Copies between MRAM and WRAM: `cycles = alpha + beta * bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dma {
    /// Alpha of copies to WRAM.
    pub read_cycles: f64,
    /// Alpha of copies to MRAM.
    pub write_cycles: f64,
    /// Beta.
    pub cycles_per_byte: f64,
    /// Bytes of records in each copy.
    pub block_bytes: usize,
}

/// The device program.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Pairs of a number of queries that share a pass, and the instructions for a record of 32
    /// bytes in such a pass.
    pub instructions: Vec<(usize, f64)>,
    /// Pairs of a number of queries, and the instructions that tasklet 0 runs once in a launch,
    /// without overlap with other tasklets.
    pub instructions_once: Vec<(usize, f64)>,
}

/// Host transfers: pairs of the bytes for each DPU and the time for all DPUs. Times between the
/// pairs are interpolated linearly.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfers {
    /// To DPUs.
    pub host_to_dpu: Vec<(f64, f64)>,
    /// From DPUs.
    pub dpu_to_host: Vec<(f64, f64)>,
}

/// Launches.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Time to send every DPU its arguments.
    pub arguments_seconds: f64,
    /// Time to start all DPUs and detect that they have ended.
    pub seconds: f64,
}

/// The host.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Number of evaluation workers.
    pub workers: u32,
    /// Time for a key, apart from its points, with all workers.
    pub evaluate_seconds_once: f64,
    /// Time for a point, with all workers.
    pub evaluate_seconds_per_point: f64,
    /// Rate at which results are added up.
    pub aggregate_bytes_per_second: f64,
}

/// CPU that IM-PIR is compared with; it uses a thread for each query.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Memory bandwidth, with all threads.
    pub bytes_per_second: f64,
    /// Peak rate of the roofline.
    pub operations_per_second: f64,
    /// Time for a point, with all threads.
    pub evaluate_seconds_per_point: f64,
}

/// GPU that IM-PIR is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Time for a query, apart from its records.
    pub seconds_once: f64,
    /// Time for 2^30 bytes of records.
    pub seconds_per_gib: f64,
}

impl Parameters {
    /// Reads a file, and checks that the model accepts its values.
    ///
    /// # Errors
    /// [`PimError::Settings`] with the first problem.
    pub fn read(text: &str) -> Result<Self, PimError> {
        let parameters: Self = toml::from_str(text)
            .map_err(|error| PimError::Settings(format!("the model's parameters: {error}")))?;
        parameters.check().map_err(|what| PimError::Settings(format!("the model's parameters: {what}")))?;
        Ok(parameters)
    }

    fn check(&self) -> Result<(), String> {
        let Self { machine, dma, program, transfers, launch, host, cpu, gpu, .. } = self;
        if machine.dpus == 0 || machine.tasklets == 0 || machine.tasklets > MOST_TASKLETS {
            return Err(format!("a machine has DPUs, of 1 to {MOST_TASKLETS} tasklets"));
        }
        if machine.issue_interval == 0 || dma.block_bytes < 8 || machine.mram_bytes < dma.block_bytes {
            return Err(
                "an issue interval and a block of records are above 0, and MRAM has room for a block".into(),
            );
        }
        for counts in [&program.instructions, &program.instructions_once] {
            if counts.first().is_none_or(|&(queries, _)| queries != 1)
                || !counts.is_sorted_by(|a, b| a.0 < b.0)
            {
                return Err("the program's instructions are for 1 query, then for more".into());
            }
        }
        for points in [&transfers.host_to_dpu, &transfers.dpu_to_host] {
            if points.is_empty() || !points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1) {
                return Err("transfers have at least one point, and take longer the more they are".into());
            }
        }
        let positive = [
            machine.clock_hz,
            host.evaluate_seconds_per_point,
            host.aggregate_bytes_per_second,
            f64::from(host.workers),
            cpu.bytes_per_second,
            cpu.operations_per_second,
            cpu.evaluate_seconds_per_point,
            gpu.seconds_per_gib,
        ];
        let others = [
            dma.read_cycles,
            dma.write_cycles,
            dma.cycles_per_byte,
            launch.arguments_seconds,
            launch.seconds,
            host.evaluate_seconds_once,
            gpu.seconds_once,
        ];
        let lists = program.instructions.iter().chain(&program.instructions_once).map(|&(_, count)| count);
        let points = transfers.host_to_dpu.iter().chain(&transfers.dpu_to_host).flat_map(|&(x, y)| [x, y]);
        let finite = others.into_iter().chain(lists).chain(points).all(|it| it.is_finite() && it >= 0.0);
        if !finite || !positive.into_iter().all(|it| it.is_finite() && it > 0.0) {
            return Err("rates are above 0, times and counts not below".into());
        }
        Ok(())
    }
}

/// Returns the time of a transfer, on the straight line through the two nearest points.
pub(crate) fn between(points: &[(f64, f64)], bytes: f64) -> f64 {
    let &[(x0, y0), ..] = points else { return 0.0 };
    if points.len() == 1 {
        return y0;
    }
    if bytes < x0 {
        // Below the first point, the time of the first point applies: a transfer has a minimum
        // time.
        return y0;
    }
    let last = points.partition_point(|&(x, _)| x < bytes).clamp(1, points.len() - 1);
    let ((x0, y0), (x1, y1)) = (points[last - 1], points[last]);
    y0 + (bytes - x0) * (y1 - y0) / (x1 - x0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_read() {
        for profile in Profile::ALL {
            let parameters = profile.parameters().unwrap();
            assert_eq!((parameters.machine.dpus, parameters.machine.tasklets), (2048, 16));
            assert_eq!(profile.name().parse(), Ok(profile));
        }
        assert!("real".parse::<Profile>().is_err());
    }

    #[test]
    fn wrong_files_are_refused() {
        let text = Profile::Paper.text();
        for (right, wrong) in [
            ("tasklets = 16", "tasklets = 25"),
            ("dpus = 2048", "dpus = 0"),
            ("clock_hz = 350e6", "clock_hz = 0.0"),
            ("[[1, 30.0], [2", "[[2, 30.0], [3"),
            ("[[40, 0.0267e-3]]", "[]"),
            ("workers = 16", "workers = 16\nthreads = 3"),
            ("seconds = 0.15e-3", "seconds = -1.0"),
            ("label", "name"),
        ] {
            assert!(text.contains(right), "{right}");
            let refused = Parameters::read(&text.replacen(right, wrong, 1));
            assert!(matches!(refused, Err(PimError::Settings(_))), "{wrong}");
        }
    }

    #[test]
    fn transfers_lie_between_their_points() {
        let points = [(2.0, 10.0), (4.0, 14.0), (8.0, 16.0)];
        for (x, y) in
            [(1.0, 10.0), (2.0, 10.0), (3.0, 12.0), (4.0, 14.0), (6.0, 15.0), (8.0, 16.0), (12.0, 18.0)]
        {
            assert!((between(&points, x) - y).abs() < 1e-9, "{x}");
        }
        assert_eq!(between(&points[..1], 100.0), 10.0);
    }
}

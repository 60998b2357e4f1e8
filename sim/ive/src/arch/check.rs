//! Checks of an architecture: values that a machine can have and the simulator can handle.

use super::Arch;
use crate::error::IveError;

/// Maximum latency in cycles.
const MOST_LATENCY: u64 = 1 << 20;

impl Arch {
    fn refuse(&self, key: &str, problem: String, remedy: &str) -> IveError {
        IveError::Arch { file: self.file.clone(), key: key.into(), problem, remedy: remedy.into() }
    }

    /// Checks that a machine can have every value, and that the simulator can handle it: sums stay
    /// below 2^63, and a simulation takes seconds.
    pub(super) fn check(&self) -> Result<(), IveError> {
        let Self { scheme, chip, core, latency, hbm, lpddr, links, batch, budget, .. } = self;
        let powers = [
            ("scheme.degree", scheme.degree),
            ("scheme.first_dimension", scheme.first_dimension),
            ("core.lanes", core.lanes),
            ("links.most_systems", links.most_systems),
        ];
        for (key, value) in powers {
            if !value.is_power_of_two() {
                return Err(self.refuse(key, format!("{value} is no power of 2"), "give one"));
            }
        }
        let counts = [
            ("scheme.degree", scheme.degree, 1 << 16),
            ("scheme.primes", scheme.primes, 8),
            ("scheme.word_bits", scheme.word_bits, 64),
            ("scheme.gadget_levels", scheme.gadget_levels, 32),
            ("scheme.first_dimension", scheme.first_dimension, 1 << 12),
            ("scheme.plaintext_bytes", scheme.plaintext_bytes, 1 << 24),
            ("chip.cores", chip.cores, 1 << 12),
            ("core.lanes", core.lanes, scheme.degree),
            ("core.ntt_units", core.ntt_units, 64),
            ("core.array_rows", core.array_rows, 1 << 12),
            ("core.array_columns", core.array_columns, 1 << 12),
            ("core.array_overhead", core.array_overhead, 1 << 12),
            ("core.element_wise_rate", core.element_wise_rate, scheme.degree),
            ("core.register_file_kb", core.register_file_kb, 1 << 20),
            ("core.database_buffer_kb", core.database_buffer_kb, 1 << 20),
            ("core.icrt_buffer_kb", core.icrt_buffer_kb, 1 << 20),
            ("latency.ntt", latency.ntt, MOST_LATENCY),
            ("latency.icrt", latency.icrt, MOST_LATENCY),
            ("latency.element_wise", latency.element_wise, MOST_LATENCY),
            ("latency.automorphism", latency.automorphism, MOST_LATENCY),
            ("latency.memory", latency.memory, MOST_LATENCY),
            ("hbm.stacks", hbm.stacks, 64),
            ("hbm.channels", hbm.channels, 1 << 10),
            ("links.most_systems", links.most_systems, 1 << 12),
            ("batch.queries", batch.queries, 1 << 12),
            ("batch.queries_beyond_hbm", batch.queries_beyond_hbm, 1 << 12),
        ];
        for (key, value, most) in counts {
            if value == 0 || value > most {
                return Err(self.refuse(key, format!("{value} is impossible"), &format!("give 1 to {most}")));
            }
        }
        if lpddr.modules > 1 << 10 {
            let problem = format!("{} is impossible", lpddr.modules);
            return Err(self.refuse("lpddr.modules", problem, "give 0 to 1024"));
        }
        let rates = [
            ("scheme.transform_multiplications", scheme.transform_multiplications, 1.0, 100.0),
            ("chip.clock_hz", chip.clock_hz, 1e6, 1e11),
            ("core.register_file_bytes_per_cycle", core.register_file_bytes_per_cycle, 1.0, 1e6),
            ("core.database_buffer_bytes_per_cycle", core.database_buffer_bytes_per_cycle, 1.0, 1e6),
            ("core.icrt_buffer_bytes_per_cycle", core.icrt_buffer_bytes_per_cycle, 1.0, 1e6),
            ("hbm.stack_bytes", hbm.stack_bytes, 1e6, 1e15),
            ("hbm.stack_bytes_per_second", hbm.stack_bytes_per_second, 1e6, 1e15),
            ("hbm.efficiency", hbm.efficiency, 1e-3, 1.0),
            ("hbm.write_queue_bytes", hbm.write_queue_bytes, 1.0, 1e9),
            ("hbm.turnaround_ns", hbm.turnaround_ns, 0.0, 1e4),
            ("lpddr.module_bytes", lpddr.module_bytes, 1e6, 1e15),
            ("lpddr.module_bytes_per_second", lpddr.module_bytes_per_second, 1e6, 1e15),
            ("lpddr.efficiency", lpddr.efficiency, 1e-3, 1.0),
            ("links.bytes_per_second", links.bytes_per_second, 1e6, 1e15),
        ];
        for (key, value, least, most) in rates {
            if !(value >= least && value <= most) {
                let remedy = format!("give {least:e} to {most:e}");
                return Err(self.refuse(key, format!("{value} is impossible"), &remedy));
            }
        }
        let least_of_lpddr = if lpddr.modules == 0 { 0.0 } else { 1e-3 };
        let of_core = [
            ("hbm.stack_bytes_per_second", "bytes a cycle", self.channel_bytes_per_cycle(), 1e-3, 1e6),
            (
                "lpddr.module_bytes_per_second",
                "bytes a cycle",
                self.lpddr_bytes_per_cycle(),
                least_of_lpddr,
                1e6,
            ),
            ("hbm.turnaround_ns", "cycles lost a byte", self.turnaround_cycles_per_byte(), 0.0, 1e3),
        ];
        for (key, unit, value, least, most) in of_core {
            if !(value >= least && value <= most) {
                let problem = format!("a core's channel has {value:e} {unit}");
                let remedy = format!("have {least:e} to {most:e} by this, chip.clock_hz and chip.cores");
                return Err(self.refuse(key, problem, &remedy));
            }
        }
        for (key, part) in budget.named() {
            let possible = [part.area_mm2, part.power_w].into_iter().all(|it| (0.0..=1e6).contains(&it));
            if !possible {
                let key = format!("budget.{key}");
                return Err(self.refuse(&key, "area or power is impossible".into(), "give 0 to 10^6"));
            }
        }
        self.check_buffers()
    }

    /// Checks that each buffer holds an operand: a unit could never work otherwise.
    fn check_buffers(&self) -> Result<(), IveError> {
        let Self { scheme, core, .. } = self;
        let panel = core.array_rows * scheme.first_dimension * scheme.word_bits / 8;
        let least = [
            ("core.database_buffer_kb", core.database_buffer_kb, 2 * panel),
            ("core.icrt_buffer_kb", core.icrt_buffer_kb, scheme.ciphertext_bytes()),
        ];
        for (key, kb, bytes) in least {
            if kb * 1024 < bytes {
                let problem = format!("{kb} KB have no room for {bytes} bytes that are needed at once");
                return Err(self.refuse(key, problem, &format!("give at least {}", bytes.div_ceil(1024))));
            }
        }
        Ok(())
    }
}

/// Returns the first key of `own` that is missing, unknown or of another type than in the complete
/// table `all`, with the problem.
pub(super) fn mismatch(all: &toml::Table, own: &toml::Table) -> Option<(String, String)> {
    use toml::Value::{Float, Integer, String as Text, Table};
    if let Some(unknown) = own.keys().find(|key| !all.contains_key(*key)) {
        return Some((unknown.clone(), "there is no such key".into()));
    }
    all.iter().find_map(|(key, expected)| {
        let wrong = |problem: String| Some((key.clone(), problem));
        match (expected, own.get(key)) {
            (_, None) => wrong("is missing".into()),
            (Table(all), Some(Table(own))) => {
                mismatch(all, own).map(|(inner, problem)| (format!("{key}.{inner}"), problem))
            }
            (Integer(_), Some(Integer(count))) if *count >= 0 => None,
            (Float(_), Some(Float(_) | Integer(_))) | (Text(_), Some(Text(_))) => None,
            (Integer(_), Some(Integer(count))) => wrong(format!("{count} is below 0")),
            (_, Some(value)) => {
                wrong(format!("it is of type {}, not {}", value.type_str(), expected.type_str()))
            }
        }
    })
}

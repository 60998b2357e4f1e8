//! The architecture, as a file has it.

use serde::Deserialize;

use crate::error::IveError;

/// The file that comes with the program: IVE.
pub const IVE_FILE: &str = "sim/ive/arch.toml";
const IVE: &str = include_str!("../arch.toml");
/// The file of the ARK-like machine.
pub const ARK_FILE: &str = "sim/ive/ark.toml";
const ARK: &str = include_str!("../ark.toml");

/// An architecture.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arch {
    /// The file that it comes from; for errors.
    #[serde(skip)]
    pub file: String,
    /// What it is, in words.
    pub label: String,
    /// What it computes on.
    pub scheme: Scheme,
    /// The chip.
    pub chip: Chip,
    /// Each of its cores.
    pub core: Core,
    /// Cycles from the first operand of a unit to its first result.
    pub latency: Latency,
    /// Memory on the chip's package.
    pub hbm: Hbm,
    /// Memory beyond it.
    pub lpddr: Lpddr,
    /// Between systems and to their clients.
    pub links: Links,
    /// Batches.
    pub batch: BatchSizes,
    /// Area and power.
    pub budget: Budget,
}

/// Parameters of the protocol (Table I).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheme {
    /// N.
    pub degree: u64,
    /// Residues of a coefficient.
    pub primes: u64,
    /// Bits of a residue.
    pub word_bits: u64,
    /// Digits of a decomposition, l.
    pub gadget_levels: u64,
    /// Size of the first dimension, D0.
    pub first_dimension: u64,
    /// Bytes of the database in a polynomial, before it is transformed.
    pub plaintext_bytes: u64,
}

/// The chip.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chip {
    /// Cores.
    pub cores: u64,
    /// Cycles a second of all units; what is said in cycles below is in these.
    pub clock_hz: f64,
}

/// Which units multiply matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gemm {
    /// The units for transforms, as output-stationary arrays.
    Arrays,
    /// The element-wise unit, whose operands and sums cross the ports of the register file.
    ElementWise,
}

/// A core.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Coefficients a cycle of a transform, of the iCRT unit and of the automorphism unit.
    pub lanes: u64,
    /// Units for transforms that are arrays too.
    pub ntt_units: u64,
    /// Which units multiply matrices.
    pub gemm: Gemm,
    /// Rows of the array: of the database.
    pub array_rows: u64,
    /// Columns of the array: of the queries.
    pub array_columns: u64,
    /// Cycles of a product on the array beyond one for each column of its left factor.
    pub array_overhead: u64,
    /// Multiply-adds a cycle of the element-wise unit.
    pub element_wise_rate: u64,
    /// KB of the register file.
    pub register_file_kb: u64,
    /// KB of the buffer that the database streams through.
    pub database_buffer_kb: u64,
    /// KB of the buffer of inverse transforms.
    pub icrt_buffer_kb: u64,
    /// Bytes a cycle of the register file.
    pub register_file_bytes_per_cycle: f64,
    /// Bytes a cycle of the database's buffer.
    pub database_buffer_bytes_per_cycle: f64,
    /// Bytes a cycle of the buffer of inverse transforms.
    pub icrt_buffer_bytes_per_cycle: f64,
}

/// Latencies in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Of a transform.
    pub ntt: u64,
    /// Of the iCRT unit.
    pub icrt: u64,
    /// Of the element-wise unit.
    pub element_wise: u64,
    /// Of the automorphism unit.
    pub automorphism: u64,
    /// Of HBM.
    pub memory: u64,
}

/// HBM.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hbm {
    /// Stacks.
    pub stacks: u64,
    /// Bytes of a stack.
    pub stack_bytes: f64,
    /// Bytes a second of a stack.
    pub stack_bytes_per_second: f64,
    /// The share of the bandwidth that streams reach.
    pub efficiency: f64,
    /// Channels of a stack, each of which turns by itself.
    pub channels: u64,
    /// Bytes that a channel writes before it reads again.
    pub write_queue_bytes: f64,
    /// Nanoseconds that it loses each time.
    pub turnaround_ns: f64,
}

/// LPDDR.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lpddr {
    /// Modules; 0 for a chip without.
    pub modules: u64,
    /// Bytes of a module.
    pub module_bytes: f64,
    /// Bytes a second of a module.
    pub module_bytes_per_second: f64,
    /// The share of the bandwidth that streams reach.
    pub efficiency: f64,
}

/// Links.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Bytes a second between a system and the switch.
    pub bytes_per_second: f64,
}

/// Sizes of batches.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSizes {
    /// Of a database in HBM.
    pub queries: u64,
    /// Of a larger one.
    pub queries_beyond_hbm: u64,
}

/// Area and peak power of a part.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// In mm2.
    pub area_mm2: f64,
    /// In W.
    pub power_w: f64,
}

/// Area and power of the parts: of one core, then of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// All units of a core for transforms.
    pub ntt: Part,
    /// The iCRT unit.
    pub icrt: Part,
    /// The element-wise unit.
    pub element_wise: Part,
    /// The automorphism unit.
    pub automorphism: Part,
    /// Register file and buffers.
    pub memories: Part,
    /// What else a core has.
    pub rest: Part,
    /// The network between all cores.
    pub network: Part,
    /// All of HBM.
    pub hbm: Part,
}

impl Arch {
    /// IVE.
    ///
    /// # Errors
    /// As [`Arch::read`]; the file that comes with the program has none.
    pub fn ive() -> Result<Self, IveError> {
        Self::read(IVE_FILE, IVE)
    }

    /// The ARK-like machine of section VI-E.
    ///
    /// # Errors
    /// As [`Arch::read`]; the file that comes with the program has none.
    pub fn ark() -> Result<Self, IveError> {
        Self::read(ARK_FILE, ARK)
    }

    /// The text of IVE's file.
    pub fn ive_text() -> &'static str {
        IVE
    }

    /// Reads the text of a file, and checks that it can be simulated. A file with `base = "ive"` or `base = "ark"` says only
    /// what is different there.
    ///
    /// # Errors
    /// [`IveError::Arch`] with the key that is missing, unknown or impossible.
    pub fn read(file: &str, text: &str) -> Result<Self, IveError> {
        let wrong = |error: toml::de::Error| {
            let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            let key = error.message().split('`').nth(1).unwrap_or("a value").to_owned();
            IveError::Arch {
                file: line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")),
                key,
                problem: error.message().to_owned(),
                remedy: format!("{IVE_FILE} has every key, each with a value that is possible"),
            }
        };
        let mut own: toml::Table = toml::from_str(text).map_err(wrong)?;
        let mut arch: Self = match own.remove("base") {
            None => toml::from_str(text).map_err(wrong)?,
            Some(base) => {
                let known = match base.as_str() {
                    Some("ive") => vec![IVE],
                    Some("ark") => vec![IVE, ARK],
                    _ => {
                        return Err(IveError::Arch {
                            file: file.into(),
                            key: "base".into(),
                            problem: format!("there is no machine {base:?}"),
                            remedy: "give \"ive\" or \"ark\", or leave it out and give every key".into(),
                        });
                    }
                };
                let mut whole = toml::Table::new();
                for text in known {
                    overlay(&mut whole, toml::from_str(text).map_err(wrong)?);
                }
                overlay(&mut whole, own);
                whole.remove("base");
                whole.try_into().map_err(wrong)?
            }
        };
        arch.file = file.to_owned();
        arch.check()?;
        Ok(arch)
    }

    fn refuse(&self, key: &str, problem: String, remedy: &str) -> IveError {
        IveError::Arch { file: self.file.clone(), key: key.into(), problem, remedy: remedy.into() }
    }

    fn check(&self) -> Result<(), IveError> {
        let Self { scheme, chip, core, hbm, lpddr, links, batch, budget, .. } = self;
        let powers = [
            ("scheme.degree", scheme.degree),
            ("scheme.first_dimension", scheme.first_dimension),
            ("core.lanes", core.lanes),
        ];
        for (key, value) in powers {
            if !value.is_power_of_two() {
                return Err(self.refuse(key, format!("{value} is no power of 2"), "give one"));
            }
        }
        let counts = [
            ("scheme.primes", scheme.primes, 16),
            ("scheme.word_bits", scheme.word_bits, 64),
            ("scheme.gadget_levels", scheme.gadget_levels, 64),
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
            ("hbm.stacks", hbm.stacks, 64),
            ("hbm.channels", hbm.channels, 1 << 10),
            ("batch.queries", batch.queries, 1 << 12),
            ("batch.queries_beyond_hbm", batch.queries_beyond_hbm, 1 << 12),
        ];
        for (key, value, most) in counts {
            if value == 0 || value > most {
                return Err(self.refuse(key, format!("{value} is impossible"), &format!("give 1 to {most}")));
            }
        }
        let rates = [
            ("chip.clock_hz", chip.clock_hz),
            ("core.register_file_bytes_per_cycle", core.register_file_bytes_per_cycle),
            ("core.database_buffer_bytes_per_cycle", core.database_buffer_bytes_per_cycle),
            ("core.icrt_buffer_bytes_per_cycle", core.icrt_buffer_bytes_per_cycle),
            ("hbm.stack_bytes", hbm.stack_bytes),
            ("hbm.stack_bytes_per_second", hbm.stack_bytes_per_second),
            ("hbm.write_queue_bytes", hbm.write_queue_bytes),
            ("lpddr.module_bytes", lpddr.module_bytes),
            ("lpddr.module_bytes_per_second", lpddr.module_bytes_per_second),
            ("links.bytes_per_second", links.bytes_per_second),
        ];
        for (key, value) in rates {
            if !(value.is_finite() && value > 0.0) {
                return Err(self.refuse(key, format!("{value} is impossible"), "give a number above 0"));
            }
        }
        let shares = [("hbm.efficiency", hbm.efficiency), ("lpddr.efficiency", lpddr.efficiency)];
        for (key, value) in shares {
            if !(value > 0.0 && value <= 1.0) {
                return Err(self.refuse(key, format!("{value} is no share"), "give one above 0, up to 1"));
            }
        }
        if !(hbm.turnaround_ns.is_finite() && hbm.turnaround_ns >= 0.0) {
            let problem = format!("{} is impossible", hbm.turnaround_ns);
            return Err(self.refuse("hbm.turnaround_ns", problem, "give 0 or more"));
        }
        for (key, part) in budget.named() {
            let possible = [part.area_mm2, part.power_w].into_iter().all(|it| it.is_finite() && it >= 0.0);
            if !possible {
                let key = format!("budget.{key}");
                return Err(self.refuse(&key, "area or power is impossible".into(), "give 0 or more"));
            }
        }
        self.check_buffers()
    }

    /// A unit that cannot hold one operand never works.
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

    /// Bytes a cycle of the HBM channel of one core.
    pub fn channel_bytes_per_cycle(&self) -> f64 {
        let Hbm { stacks, stack_bytes_per_second, efficiency, .. } = self.hbm;
        stacks as f64 * stack_bytes_per_second * efficiency / self.chip.cores as f64 / self.chip.clock_hz
    }

    /// Cycles in which the HBM channel of one core transfers nothing, for each byte that it writes among reads.
    pub fn turnaround_cycles_per_byte(&self) -> f64 {
        let Hbm { stacks, channels, write_queue_bytes, turnaround_ns, .. } = self.hbm;
        let queues = (stacks * channels) as f64 / self.chip.cores as f64 * write_queue_bytes;
        turnaround_ns * 1e-9 * self.chip.clock_hz / queues
    }

    /// Bytes a cycle of LPDDR for one core; 0 without any.
    pub fn lpddr_bytes_per_cycle(&self) -> f64 {
        let Lpddr { modules, module_bytes_per_second, efficiency, .. } = self.lpddr;
        modules as f64 * module_bytes_per_second * efficiency / self.chip.cores as f64 / self.chip.clock_hz
    }

    /// Bytes of HBM.
    pub fn hbm_bytes(&self) -> f64 {
        self.hbm.stacks as f64 * self.hbm.stack_bytes
    }

    /// Bytes of LPDDR.
    pub fn lpddr_bytes(&self) -> f64 {
        self.lpddr.modules as f64 * self.lpddr.module_bytes
    }
}

/// Puts values over those of the same keys, table by table.
fn overlay(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => overlay(below, above),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

impl Budget {
    /// All parts, by their keys.
    pub fn named(&self) -> [(&'static str, Part); 8] {
        let Self { ntt, icrt, element_wise, automorphism, memories, rest, network, hbm } = *self;
        [
            ("ntt", ntt),
            ("icrt", icrt),
            ("element_wise", element_wise),
            ("automorphism", automorphism),
            ("memories", memories),
            ("rest", rest),
            ("network", network),
            ("hbm", hbm),
        ]
    }

    /// Area and peak power of one core.
    pub fn core(&self) -> Part {
        let parts = &self.named()[..6];
        let sum = |of: fn(&Part) -> f64| parts.iter().map(|(_, part)| of(part)).sum();
        Part { area_mm2: sum(|part| part.area_mm2), power_w: sum(|part| part.power_w) }
    }

    /// Area and peak power of a chip with so many cores and its HBM.
    pub fn chip(&self, cores: u64) -> Part {
        let (core, cores) = (self.core(), cores as f64);
        let sum = |of: fn(&Part) -> f64| cores * of(&core) + of(&self.network) + of(&self.hbm);
        Part { area_mm2: sum(|part| part.area_mm2), power_w: sum(|part| part.power_w) }
    }
}

impl Scheme {
    /// Bytes of a residue polynomial.
    pub fn limb_bytes(&self) -> u64 {
        self.degree * self.word_bits / 8
    }

    /// Bytes of a polynomial.
    pub fn polynomial_bytes(&self) -> u64 {
        self.primes * self.limb_bytes()
    }

    /// Bytes of a ciphertext.
    pub fn ciphertext_bytes(&self) -> u64 {
        2 * self.polynomial_bytes()
    }

    /// Bytes of the key of a substitution.
    pub fn evaluation_key_bytes(&self) -> u64 {
        self.gadget_levels * self.ciphertext_bytes()
    }

    /// Bytes of an RGSW ciphertext.
    pub fn rgsw_bytes(&self) -> u64 {
        2 * self.gadget_levels * self.ciphertext_bytes()
    }

    /// Polynomials of a database of so many GiB.
    pub fn polynomials(&self, gib: f64) -> u64 {
        (gib * f64::from(1 << 30) / self.plaintext_bytes as f64).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_paper() {
        let arch = Arch::ive().unwrap();
        let kb = |bytes: u64| bytes / 1024;
        assert_eq!(kb(arch.scheme.polynomial_bytes()), 56);
        assert_eq!(kb(arch.scheme.ciphertext_bytes()), 112);
        assert_eq!(kb(arch.scheme.evaluation_key_bytes()), 560);
        assert_eq!(kb(arch.scheme.rgsw_bytes()), 1120);
        assert_eq!(arch.scheme.polynomials(16.0), 1 << 20);
    }

    #[test]
    fn files_may_say_only_what_is_different() {
        let (ive, ark) = (Arch::ive().unwrap(), Arch::ark().unwrap());
        let mine = Arch::read("mine.toml", "base = \"ive\"\n[chip]\ncores = 64\n").unwrap();
        assert_eq!((mine.chip.cores, mine.core), (64, ive.core));
        let mine = Arch::read("mine.toml", "base = \"ark\"\nlabel = \"mine\"\n").unwrap();
        assert_eq!((mine.core, mine.chip, mine.label.as_str()), (ark.core, ark.chip, "mine"));
        assert!(ark.core != ive.core && ark.hbm == ive.hbm);
        for (wrong, key) in [
            ("base = \"ivy\"", "base"),
            ("base = 1", "base"),
            ("base = \"ive\"\n[chip]\nkores = 64", "kores"),
            ("base = \"ive\"\n[chip]\ncores = 0", "chip.cores"),
            ("base = \"ive\"\nchip = 5", "chip"),
            ("base = \"ive\"\n[core]\ngemm = \"units\"", "units"),
        ] {
            let refused = Arch::read("mine.toml", wrong).unwrap_err();
            let IveError::Arch { key: named, remedy, .. } = &refused else { panic!("{refused}") };
            assert!((named == key || key == "chip") && !remedy.is_empty(), "{wrong}: {refused}");
            assert!(refused.to_string().starts_with("mine.toml"), "{refused}");
        }
    }

    #[test]
    fn wrong_files_are_refused_with_file_key_and_remedy() {
        for (right, wrong, key) in [
            ("cores = 32", "cores = 0", "chip.cores"),
            ("cores = 32", "kores = 32", "kores"),
            ("cores = 32\n", "", "cores"),
            ("degree = 4096", "degree = 4095", "scheme.degree"),
            ("clock_hz = 1e9", "clock_hz = -1.0", "chip.clock_hz"),
            ("efficiency = 0.985", "efficiency = 1.5", "hbm.efficiency"),
            ("database_buffer_kb = 448", "database_buffer_kb = 8", "core.database_buffer_kb"),
            ("icrt_buffer_kb = 448", "icrt_buffer_kb = 8", "core.icrt_buffer_kb"),
            ("power_w = 6.7", "power_w = -6.7", "budget.network"),
        ] {
            assert!(Arch::ive_text().contains(right), "{right}");
            let refused = Arch::read("mine.toml", &Arch::ive_text().replacen(right, wrong, 1));
            let Err(error @ IveError::Arch { .. }) = &refused else { panic!("{wrong}: {refused:?}") };
            let IveError::Arch { key: named, remedy, .. } = error else { unreachable!() };
            assert!(named == key && !remedy.is_empty(), "{wrong}: {error}");
            assert!(error.to_string().starts_with("mine.toml"), "{error}");
        }
    }
}

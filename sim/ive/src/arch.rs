//! Architecture of the machine, read from a file.

use serde::Deserialize;

use crate::error::IveError;

mod check;

/// Name of IVE's file, which comes with the program.
pub const IVE_FILE: &str = "sim/ive/arch.toml";
const IVE: &str = include_str!("../arch.toml");
/// Name of the file of the ARK-like machine.
pub const ARK_FILE: &str = "sim/ive/ark.toml";
const ARK: &str = include_str!("../ark.toml");

/// Architecture.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arch {
    /// Name of its file, for errors.
    #[serde(skip)]
    pub file: String,
    /// Description.
    pub label: String,
    /// Parameters of the protocol.
    pub scheme: Scheme,
    /// Chip.
    pub chip: Chip,
    /// Each of the chip's cores.
    pub core: Core,
    /// Cycles from the first operand of a unit to its first result.
    pub latency: Latency,
    /// Memory on the chip's package.
    pub hbm: Hbm,
    /// Memory beyond the package.
    pub lpddr: Lpddr,
    /// Links between systems and to their clients.
    pub links: Links,
    /// Sizes of batches.
    pub batch: BatchSizes,
    /// Area and power.
    pub budget: Budget,
}

/// Parameters of the protocol (Table I).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheme {
    /// Ring degree, N.
    pub degree: u64,
    /// Number of residues of a coefficient.
    pub primes: u64,
    /// Bits of a residue.
    pub word_bits: u64,
    /// Number of digits of a decomposition, l.
    pub gadget_levels: u64,
    /// Size of the first dimension, D0.
    pub first_dimension: u64,
    /// Bytes of the database in a polynomial, before its transform.
    pub plaintext_bytes: u64,
    /// Integer multiplications counted for one multiplication of a transform.
    pub transform_multiplications: f64,
}

/// Chip.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chip {
    /// Number of cores.
    pub cores: u64,
    /// Clock rate of all units; all numbers of cycles below refer to it.
    pub clock_hz: f64,
}

/// Units that multiply matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gemm {
    /// Transform units, as output-stationary arrays.
    Arrays,
    /// Element-wise unit, whose operands and sums cross the ports of the register file.
    ElementWise,
}

/// Core of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Coefficients that a transform unit, the iCRT unit or the automorphism unit processes in a
    /// cycle.
    pub lanes: u64,
    /// Number of transform units that also work as arrays.
    pub ntt_units: u64,
    /// Units that multiply matrices.
    pub gemm: Gemm,
    /// Number of rows of an array; each of them processes a row of the database.
    pub array_rows: u64,
    /// Number of columns of an array; each of them processes a column of the queries.
    pub array_columns: u64,
    /// Additional cycles of a product on the array, beyond one for each column of its left factor.
    pub array_overhead: u64,
    /// Multiply-adds that the element-wise unit computes in a cycle.
    pub element_wise_rate: u64,
    /// KB of the register file.
    pub register_file_kb: u64,
    /// KB of the buffer that the database streams through.
    pub database_buffer_kb: u64,
    /// KB of the buffer of inverse transforms.
    pub icrt_buffer_kb: u64,
    /// Bandwidth of the register file, in bytes a cycle.
    pub register_file_bytes_per_cycle: f64,
    /// Bandwidth of the database's buffer, in bytes a cycle.
    pub database_buffer_bytes_per_cycle: f64,
    /// Bandwidth of the buffer of inverse transforms, in bytes a cycle.
    pub icrt_buffer_bytes_per_cycle: f64,
}

/// Latencies in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Latency of a transform unit.
    pub ntt: u64,
    /// Latency of the iCRT unit.
    pub icrt: u64,
    /// Latency of the element-wise unit.
    pub element_wise: u64,
    /// Latency of the automorphism unit.
    pub automorphism: u64,
    /// Latency of HBM.
    pub memory: u64,
}

/// Memory on the package (HBM).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hbm {
    /// Number of stacks.
    pub stacks: u64,
    /// Bytes of a stack.
    pub stack_bytes: f64,
    /// Bandwidth of a stack, in bytes a second.
    pub stack_bytes_per_second: f64,
    /// Fraction of the bandwidth that streams reach.
    pub efficiency: f64,
    /// Channels of a stack, each with its own turnarounds.
    pub channels: u64,
    /// Bytes that a channel writes before it reads again.
    pub write_queue_bytes: f64,
    /// Nanoseconds that a channel loses at each turnaround.
    pub turnaround_ns: f64,
}

/// Memory beyond the package (LPDDR).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lpddr {
    /// Number of modules; 0 for a chip without LPDDR.
    pub modules: u64,
    /// Bytes of a module.
    pub module_bytes: f64,
    /// Bandwidth of a module, in bytes a second.
    pub module_bytes_per_second: f64,
    /// Fraction of the bandwidth that streams reach.
    pub efficiency: f64,
}

/// Links between systems.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Bandwidth between a system and the switch, in bytes a second.
    pub bytes_per_second: f64,
    /// Maximum number of systems on a switch.
    pub most_systems: u64,
}

/// Sizes of batches.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSizes {
    /// Queries of a batch for a database in HBM.
    pub queries: u64,
    /// Queries of a batch for a larger database.
    pub queries_beyond_hbm: u64,
}

/// Area and peak power of a part.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Area in mm2.
    pub area_mm2: f64,
    /// Peak power in W.
    pub power_w: f64,
}

/// Area and power of the parts: first those of one core, then those of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// All transform units of a core.
    pub ntt: Part,
    /// The iCRT unit.
    pub icrt: Part,
    /// The element-wise unit.
    pub element_wise: Part,
    /// The automorphism unit.
    pub automorphism: Part,
    /// Register file and buffers.
    pub memories: Part,
    /// Other parts of a core.
    pub rest: Part,
    /// Network between all cores.
    pub network: Part,
    /// All of HBM.
    pub hbm: Part,
}

impl Arch {
    /// Returns IVE.
    ///
    /// # Errors
    /// As [`Arch::read`]; the file that comes with the program causes none.
    pub fn ive() -> Result<Self, IveError> {
        Self::read(IVE_FILE, IVE)
    }

    /// Returns the ARK-like machine of section VI-E.
    ///
    /// # Errors
    /// As [`Arch::read`]; the file that comes with the program causes none.
    pub fn ark() -> Result<Self, IveError> {
        Self::read(ARK_FILE, ARK)
    }

    /// Returns the text of IVE's file.
    pub fn ive_text() -> &'static str {
        IVE
    }

    /// Reads the text of a file, and checks that it can be simulated. A file with `base = "ive"` or
    /// `base = "ark"` has only the keys that differ from that machine.
    ///
    /// # Errors
    /// [`IveError::Arch`] with the key that is missing, unknown or impossible.
    pub fn read(file: &str, text: &str) -> Result<Self, IveError> {
        let refuse = |key: &str, problem: String, remedy: &str| IveError::Arch {
            file: file.into(),
            key: key.into(),
            problem,
            remedy: remedy.into(),
        };
        let table = |text: &str| {
            toml::from_str::<toml::Table>(text).map_err(|error| {
                let line =
                    error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
                let key = line.map_or_else(|| "the text".to_owned(), |line| format!("line {line}"));
                refuse(
                    &key,
                    format!("it is no TOML: {}", error.message()),
                    "give lines of `key = value` below [table]s",
                )
            })
        };
        let (mut own, mut whole) = (table(text)?, toml::Table::new());
        let bases: &[&str] = match own.remove("base") {
            None => &[],
            Some(toml::Value::String(base)) if base == "ive" => &[IVE],
            Some(toml::Value::String(base)) if base == "ark" => &[IVE, ARK],
            Some(base) => {
                let remedy = "give \"ive\" or \"ark\", or leave it out and give every key";
                return Err(refuse("base", format!("there is no machine {base:?}"), remedy));
            }
        };
        for text in bases {
            overlay(&mut whole, table(text)?);
        }
        whole.remove("base");
        overlay(&mut whole, own);
        let every = format!("{IVE_FILE} has every key, each with a value that is possible");
        if let Some((key, problem)) = check::mismatch(&table(IVE)?, &whole) {
            return Err(refuse(&key, problem, &every));
        }
        // The types are checked above, so only a name can still be wrong. Only the key `core.gemm`
        // takes a name from a list.
        let read = toml::Value::Table(whole).try_into::<Self>();
        let arch = read.map_err(|error| refuse("core.gemm", error.message().to_owned(), &every))?;
        let arch = Self { file: file.to_owned(), ..arch };
        arch.check()?;
        Ok(arch)
    }

    /// Returns the bandwidth of one core's HBM channel, in bytes a cycle.
    pub fn channel_bytes_per_cycle(&self) -> f64 {
        let Hbm { stacks, stack_bytes_per_second, efficiency, .. } = self.hbm;
        stacks as f64 * stack_bytes_per_second * efficiency / self.chip.cores as f64 / self.chip.clock_hz
    }

    /// Returns the idle cycles of one core's HBM channel for each byte that is written between
    /// reads.
    pub fn turnaround_cycles_per_byte(&self) -> f64 {
        let Hbm { stacks, channels, write_queue_bytes, turnaround_ns, .. } = self.hbm;
        let queues = (stacks * channels) as f64 / self.chip.cores as f64 * write_queue_bytes;
        turnaround_ns * 1e-9 * self.chip.clock_hz / queues
    }

    /// Returns the LPDDR bandwidth of one core, in bytes a cycle; 0 without LPDDR.
    pub fn lpddr_bytes_per_cycle(&self) -> f64 {
        let Lpddr { modules, module_bytes_per_second, efficiency, .. } = self.lpddr;
        modules as f64 * module_bytes_per_second * efficiency / self.chip.cores as f64 / self.chip.clock_hz
    }

    /// Returns the bytes of HBM.
    pub fn hbm_bytes(&self) -> f64 {
        self.hbm.stacks as f64 * self.hbm.stack_bytes
    }

    /// Returns the bytes of LPDDR.
    pub fn lpddr_bytes(&self) -> f64 {
        self.lpddr.modules as f64 * self.lpddr.module_bytes
    }
}

/// Replaces values by those of the same keys in `over`, table by table.
fn overlay(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => overlay(below, above),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

impl Budget {
    /// Returns all parts with their keys.
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

    /// Returns area and peak power of one core.
    pub fn core(&self) -> Part {
        let parts = &self.named()[..6];
        let sum = |of: fn(&Part) -> f64| parts.iter().map(|(_, part)| of(part)).sum();
        Part { area_mm2: sum(|part| part.area_mm2), power_w: sum(|part| part.power_w) }
    }

    /// Returns area and peak power of a chip with `cores` cores and its HBM.
    pub fn chip(&self, cores: u64) -> Part {
        let (core, cores) = (self.core(), cores as f64);
        let sum = |of: fn(&Part) -> f64| cores * of(&core) + of(&self.network) + of(&self.hbm);
        Part { area_mm2: sum(|part| part.area_mm2), power_w: sum(|part| part.power_w) }
    }
}

impl Scheme {
    /// Returns the bytes of a residue polynomial.
    pub fn limb_bytes(&self) -> u64 {
        self.degree * self.word_bits / 8
    }

    /// Returns the bytes of a polynomial.
    pub fn polynomial_bytes(&self) -> u64 {
        self.primes * self.limb_bytes()
    }

    /// Returns the bytes of a ciphertext.
    pub fn ciphertext_bytes(&self) -> u64 {
        2 * self.polynomial_bytes()
    }

    /// Returns the bytes of a substitution's key.
    pub fn evaluation_key_bytes(&self) -> u64 {
        self.gadget_levels * self.ciphertext_bytes()
    }

    /// Returns the bytes of an RGSW ciphertext.
    pub fn rgsw_bytes(&self) -> u64 {
        2 * self.gadget_levels * self.ciphertext_bytes()
    }

    /// Returns the polynomials of a database of `gib` GiB, at most 2^63.
    pub fn polynomials(&self, gib: f64) -> u64 {
        ((gib * f64::from(1 << 30) / self.plaintext_bytes as f64).round() as u64).min(1 << 63)
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

    fn refused(file: &str, text: &str, key: &str) {
        let refused = Arch::read(file, text);
        let Err(error @ IveError::Arch { key: named, remedy, .. }) = &refused else {
            panic!("{key}: {refused:?}")
        };
        assert!(named == key && !remedy.is_empty(), "{key}: {error}");
        assert!(error.to_string().starts_with(&format!("{file}: {key}: ")), "{error}");
    }

    #[test]
    fn files_may_say_only_what_is_different() {
        let (ive, ark) = (Arch::ive().unwrap(), Arch::ark().unwrap());
        let mine =
            Arch::read("mine.toml", "base = \"ive\"\n[chip]\ncores = 64\nclock_hz = 1000000000\n").unwrap();
        assert_eq!((mine.chip.cores, mine.core), (64, ive.core));
        let mine = Arch::read("mine.toml", "base = \"ark\"\nlabel = \"mine\"\n").unwrap();
        assert_eq!((mine.core, mine.chip, mine.label.as_str()), (ark.core, ark.chip, "mine"));
        assert!(ark.core != ive.core && ark.hbm == ive.hbm);
        for (wrong, key) in [
            ("base = \"ivy\"", "base"),
            ("base = 1", "base"),
            ("base = \"ive\"\n[chip]\nkores = 64", "chip.kores"),
            ("base = \"ive\"\n[chip]\ncores = 0", "chip.cores"),
            ("base = \"ive\"\nchip = 5", "chip"),
            ("base = \"ive\"\n[core]\ngemm = \"units\"", "core.gemm"),
            ("base = \"ive\"\n[core]\ngemm = 1", "core.gemm"),
            ("base = \"ive\"\n[budget]\nntt = { power_w = \"high\" }", "budget.ntt.power_w"),
            ("base = \"ive\"\n[chip\n", "line 2"),
        ] {
            refused("mine.toml", wrong, key);
        }
    }

    #[test]
    fn wrong_files_are_refused_with_file_key_and_remedy() {
        for (right, wrong, key) in [
            ("cores = 32", "cores = 0", "chip.cores"),
            ("cores = 32", "cores = -1", "chip.cores"),
            ("cores = 32", "cores = 32.5", "chip.cores"),
            ("cores = 32", "kores = 32", "chip.kores"),
            ("cores = 32\n", "", "chip.cores"),
            ("[links]", "[lines]", "lines"),
            ("degree = 4096", "degree = 4095", "scheme.degree"),
            ("degree = 4096", "degree = 4611686018427387904", "scheme.degree"),
            ("first_dimension = 256", "first_dimension = 1099511627776", "scheme.first_dimension"),
            ("gadget_levels = 5", "gadget_levels = 50", "scheme.gadget_levels"),
            ("clock_hz = 1e9", "clock_hz = -1.0", "chip.clock_hz"),
            ("clock_hz = 1e9", "clock_hz = 1e-300", "chip.clock_hz"),
            ("clock_hz = 1e9", "clock_hz = 1e300", "chip.clock_hz"),
            ("clock_hz = 1e9", "clock_hz = nan", "chip.clock_hz"),
            ("efficiency = 0.985", "efficiency = 1.5", "hbm.efficiency"),
            ("stack_bytes_per_second = 512e9", "stack_bytes_per_second = 1e-9", "hbm.stack_bytes_per_second"),
            ("stack_bytes_per_second = 512e9", "stack_bytes_per_second = 1e6", "hbm.stack_bytes_per_second"),
            (
                "module_bytes_per_second = 128e9",
                "module_bytes_per_second = inf",
                "lpddr.module_bytes_per_second",
            ),
            ("turnaround_ns = 26.0", "turnaround_ns = 1e30", "hbm.turnaround_ns"),
            ("bytes_per_second = 128e9\nmost", "bytes_per_second = 1e-30\nmost", "links.bytes_per_second"),
            ("most_systems = 16", "most_systems = 12", "links.most_systems"),
            ("ntt = 127", "ntt = 9223372036854775807", "latency.ntt"),
            ("memory = 100", "memory = 9223372036854775807", "latency.memory"),
            ("memory = 100", "memory = 0", "latency.memory"),
            ("database_buffer_kb = 448", "database_buffer_kb = 8", "core.database_buffer_kb"),
            ("icrt_buffer_kb = 448", "icrt_buffer_kb = 8", "core.icrt_buffer_kb"),
            ("power_w = 6.7", "power_w = -6.7", "budget.network"),
        ] {
            assert!(Arch::ive_text().contains(right), "{right}");
            refused("mine.toml", &Arch::ive_text().replacen(right, wrong, 1), key);
        }
    }
}

//! Cards: the numbers of their data sheets.

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::Serialize;

use super::counts::Code;

/// Bytes of a GiB.
const GIB: f64 = (1u64 << 30) as f64;

/// Numbers of a card's data sheet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Card {
    /// Name, as `--card` takes it; `custom` if all numbers are options.
    pub name: String,
    /// Compute capability.
    pub compute: Capability,
    /// Number of multiprocessors.
    pub processors: u32,
    /// Clock in Hz.
    pub clock: f64,
    /// Memory bandwidth in bytes per second.
    pub bandwidth: f64,
    /// Memory in bytes.
    pub memory: f64,
}

/// Compute capabilities for which the model has counts and rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Capability {
    /// Ampere of data centres.
    #[serde(rename = "8.0")]
    C80,
    /// Other Ampere cards.
    #[serde(rename = "8.6")]
    C86,
    /// Ada Lovelace.
    #[serde(rename = "8.9")]
    C89,
    /// Hopper.
    #[serde(rename = "9.0")]
    C90,
    /// Blackwell cards for workstations and games.
    #[serde(rename = "12.0")]
    C120,
}

impl Capability {
    const ALL: [(&'static str, Self); 5] = [
        ("8.0", Self::C80),
        ("8.6", Self::C86),
        ("8.9", Self::C89),
        ("9.0", Self::C90),
        ("12.0", Self::C120),
    ];

    /// Returns its two numbers, such as `9.0`.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, capability)| *capability == self).map_or("", |(name, _)| name)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, capability)| capability).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            format!("the model has no rates for this capability; it has rates for {names}")
        })
    }

    /// Returns the machine code whose instructions count. Code for 8.6, 8.9 and 12.0 was not
    /// counted: its transforms have the instructions of 8.0 (docs/kernels/cuda-ntt.md).
    pub fn code(self) -> Code {
        if self == Self::C90 { Code::Sm90 } else { Code::Sm80 }
    }

    /// Returns the multiply-adds of bytes of a processor's tensor cores in a cycle. With processors
    /// and clock, this gives the dense INT8 rate of the data sheets: A100 624 TOPS, L40S 733,
    /// H100 1,979, and 838 for an RTX 5090.
    pub fn byte_products(self) -> f64 {
        match self {
            Self::C80 => 2048.0,
            Self::C86 | Self::C89 | Self::C120 => 1024.0,
            Self::C90 => 4096.0,
        }
    }
}

/// Cards with a name: name, capability, processors, GHz, GB/s, GB.
///
/// Sources: NVIDIA's data sheets, as quoted on the pages below. The clock of H100 and H200 is that
/// of their dense INT8 rate, 1,979 TOPS. Memory is in units of 10^9 bytes; drivers report a few
/// percent more for some cards.
///
/// - h200: 4.8 TB/s, 141 GB, INT8 3,958 TOPS with sparsity: `morphllm.com/nvidia-h200`; 132
///   processors: `saulelectric.com/nvidia-h200.html`.
/// - h100 (SXM): 132 processors, 3,350 GB/s, 80 GB: `archive-lib.hpctech.co.jp`; 1.83 GHz:
///   `glennklockwood.com/garden/processors/h100`.
/// - a100 (SXM, 80 GB): 108 processors, 2,039 GB/s, INT8 624 TOPS:
///   `glennklockwood.com/garden/processors/A100`; 1.41 GHz: `svethardware.cz`.
/// - l40s: 142 processors, 2.52 GHz, 864 GB/s, 48 GB: `computizer.com`, `mullet.se`.
/// - l4: 2.04 GHz, 300 GB/s, 24 GB, INT8 485 TOPS with sparsity, so 58 processors:
///   `store.sourcecode.com`.
/// - rtx-4090: 128 processors, 2.52 GHz, 1,008 GB/s, 24 GB: `thefpsreview.com`.
/// - rtx-5090: 170 processors, 2.407 GHz, 1,792 GB/s, 32 GB: `pocketmags.com`, Linux Format, May
///   2025.
const CARDS: [(&str, Capability, u32, f64, f64, f64); 7] = [
    ("h200", Capability::C90, 132, 1.83, 4800.0, 141.0),
    ("h100", Capability::C90, 132, 1.83, 3350.0, 80.0),
    ("a100", Capability::C80, 108, 1.41, 2039.0, 80.0),
    ("l40s", Capability::C89, 142, 2.52, 864.0, 48.0),
    ("l4", Capability::C89, 58, 2.04, 300.0, 24.0),
    ("rtx-4090", Capability::C89, 128, 2.52, 1008.0, 24.0),
    ("rtx-5090", Capability::C120, 170, 2.407, 1792.0, 32.0),
];

impl Card {
    /// Returns the card with a name.
    pub fn named(wanted: &str) -> Option<Self> {
        let (name, compute, processors, clock, bandwidth, memory) =
            CARDS.into_iter().find(|(name, ..)| *name == wanted)?;
        let [clock, bandwidth, memory] = [clock, bandwidth, memory].map(|giga| giga * 1e9);
        Some(Self { name: name.into(), compute, processors, clock, bandwidth, memory })
    }
}

/// Options that name a card or describe it.
#[derive(Args, Clone, Debug, Default)]
pub struct CardOptions {
    /// Card whose data sheet is known: h200, h100, a100, l40s, l4, rtx-4090 or rtx-5090.
    #[arg(long, value_name = "NAME")]
    card: Option<String>,
    /// Memory bandwidth, as in 4.8TB/s or 300GB/s.
    #[arg(long, value_name = "RATE", value_parser = parse_bandwidth)]
    memory_bandwidth: Option<f64>,
    /// Number of multiprocessors.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1024))]
    processors: Option<u32>,
    /// Clock in GHz.
    #[arg(long, value_name = "GHZ", value_parser = parse_clock)]
    clock: Option<f64>,
    /// Memory in GiB.
    #[arg(long, value_name = "GIB", value_parser = parse_memory)]
    memory: Option<f64>,
    /// Compute capability, as in 9.0.
    #[arg(long, value_name = "VERSION", value_parser = Capability::parse)]
    compute_capability: Option<Capability>,
}

impl CardOptions {
    /// Returns the named card with the given numbers in place of its own, or the card that the
    /// numbers describe.
    ///
    /// # Errors
    /// If the name is unknown, or if there is no name and a number is missing.
    pub fn card(&self) -> anyhow::Result<Card> {
        let named = match &self.card {
            None => None,
            Some(name) => Some(Card::named(name).with_context(|| {
                format!(
                    "--card {name}: the data sheet is unknown; known are {}. Describe other cards by numbers, as in {EXAMPLE}",
                    CARDS.map(|(name, ..)| name).join(", ")
                )
            })?),
        };
        let Self { memory_bandwidth, processors, clock, memory, compute_capability, .. } = *self;
        if let Some(mut card) = named {
            let changed = self.given().count();
            card.bandwidth = memory_bandwidth.unwrap_or(card.bandwidth);
            card.processors = processors.unwrap_or(card.processors);
            card.clock = clock.unwrap_or(card.clock);
            card.memory = memory.unwrap_or(card.memory);
            card.compute = compute_capability.unwrap_or(card.compute);
            if changed > 0 {
                card.name += ", changed";
            }
            return Ok(card);
        }
        match (compute_capability, processors, clock, memory_bandwidth, memory) {
            (Some(compute), Some(processors), Some(clock), Some(bandwidth), Some(memory)) => {
                Ok(Card { name: "custom".into(), compute, processors, clock, bandwidth, memory })
            }
            _ if self.given().count() == 0 => {
                bail!("name a card, as in --card h100, or describe it, as in {EXAMPLE}")
            }
            _ => {
                let given: Vec<_> = self.given().collect();
                let missing = OPTIONS.into_iter().filter(|option| !given.contains(option));
                let missing = missing.collect::<Vec<_>>().join(", ");
                bail!("without --card, a card needs all of its numbers; missing: {missing}")
            }
        }
    }

    /// Returns the options with numbers that were given.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            self.memory_bandwidth.is_some(),
            self.processors.is_some(),
            self.clock.is_some(),
            self.memory.is_some(),
            self.compute_capability.is_some(),
        ];
        OPTIONS.into_iter().zip(given).filter_map(|(option, given)| given.then_some(option))
    }
}

/// Options with numbers of a card.
const OPTIONS: [&str; 5] =
    ["--memory-bandwidth", "--processors", "--clock", "--memory", "--compute-capability"];
/// Options that describe a card completely.
const EXAMPLE: &str =
    "--memory-bandwidth 4.8TB/s --processors 132 --clock 1.83 --memory 131 --compute-capability 9.0";

/// Parses a number between two bounds.
fn number(text: &str, bounds: [f64; 2], unit: &str) -> anyhow::Result<f64> {
    let value: f64 = text.trim().parse().with_context(|| format!("{text:?} is not a number"))?;
    let [least, most] = bounds;
    ensure!(
        value.is_finite() && (least..=most).contains(&value),
        "{text} {unit}: it must be from {least} to {most} {unit}"
    );
    Ok(value)
}

/// Parses a bandwidth with its unit. Returns bytes per second.
fn parse_bandwidth(text: &str) -> anyhow::Result<f64> {
    let units = [("TB/s", 1e12), ("GB/s", 1e9)];
    let found = units.into_iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)));
    let (digits, size) = found.context("a unit is missing: TB/s or GB/s, as in 4.8TB/s")?;
    // The bounds are the same for both units.
    let bounds = [10e9, 100e12].map(|bytes| bytes / size);
    Ok(number(digits, bounds, if size == 1e12 { "TB/s" } else { "GB/s" })? * size)
}

/// Parses a clock in GHz. Returns Hz.
fn parse_clock(text: &str) -> anyhow::Result<f64> {
    Ok(number(text, [0.1, 10.0], "GHz")? * 1e9)
}

/// Parses a memory in GiB. Returns bytes.
fn parse_memory(text: &str) -> anyhow::Result<f64> {
    Ok(number(text, [1.0, 4096.0], "GiB")? * GIB)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        card: CardOptions,
    }

    /// Parses a line of options. Returns the card, or the error of either step.
    fn card(line: &str) -> Result<Card, String> {
        let words = std::iter::once("program").chain(line.split(' ').filter(|word| !word.is_empty()));
        let parsed = Program::try_parse_from(words).map_err(|error| error.to_string())?;
        parsed.card.card().map_err(|error| error.to_string())
    }

    #[test]
    fn cards_are_named_or_described_or_both() {
        let h200 = card("--card h200").unwrap();
        assert_eq!((h200.processors, h200.bandwidth, h200.memory), (132, 4.8e12, 141e9));
        let same = card(EXAMPLE).unwrap();
        assert_eq!((same.compute, same.clock), (h200.compute, h200.clock));
        let slower = card("--card h200 --memory-bandwidth 300GB/s").unwrap();
        assert_eq!((slower.bandwidth, slower.name.as_str()), (3e11, "h200, changed"));
        for (name, ..) in CARDS {
            assert_eq!(card(&format!("--card {name}")).unwrap().name, name);
        }
    }

    #[test]
    fn the_tensor_rates_are_those_of_the_data_sheets() {
        for (name, tops) in
            [("a100", 624.0), ("h100", 1979.0), ("h200", 1979.0), ("l40s", 733.0), ("l4", 242.5)]
        {
            let card = Card::named(name).unwrap();
            let rate = 2.0 * card.compute.byte_products() * f64::from(card.processors) * card.clock / 1e12;
            assert!((rate / tops - 1.0).abs() < 0.002, "{name}: {rate}");
        }
    }

    #[test]
    fn other_cards_are_refused_with_the_reason() {
        let refused = [
            ("", "name a card"),
            ("--card h300", "known are h200, h100, a100"),
            ("--clock 1.8 --memory 80", "missing: --memory-bandwidth, --processors, --compute-capability"),
            ("--card h100 --clock 0", "it must be from 0.1 to 10 GHz"),
            ("--card h100 --clock=-1", "it must be from 0.1 to 10 GHz"),
            ("--card h100 --clock NaN", "it must be from 0.1 to 10 GHz"),
            ("--card h100 --clock inf", "it must be from 0.1 to 10 GHz"),
            ("--card h100 --clock fast", "\"fast\" is not a number"),
            ("--card h100 --memory 0.5", "it must be from 1 to 4096 GiB"),
            ("--card h100 --memory 1e9", "it must be from 1 to 4096 GiB"),
            ("--card h100 --memory-bandwidth 3.35", "a unit is missing"),
            ("--card h100 --memory-bandwidth 0TB/s", "it must be from 0.01 to 100 TB/s"),
            ("--card h100 --memory-bandwidth 3350TB/s", "it must be from 0.01 to 100 TB/s"),
            ("--card h100 --memory-bandwidth 5GB/s", "it must be from 10 to 100000 GB/s"),
            ("--card h100 --processors 0", "0 is not in 1..=1024"),
            ("--card h100 --processors 1.5", "invalid"),
            ("--card h100 --compute-capability 7.5", "it has rates for 8.0, 8.6, 8.9, 9.0, 12.0"),
            ("--card h100 --compute-capability 10.0", "no rates for this capability"),
        ];
        for (line, reason) in refused {
            let error = card(line).expect_err(line);
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}

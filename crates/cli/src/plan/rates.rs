//! A machine's rates: measured, or read from a file of measured ones.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spirea_backend::Backend as _;
use spirea_cpu::CpuBackend;
use spirea_lattice::RingSet;
use spirea_protocols::choice::SecurityLevel;
use spirea_protocols::planner::Rates;
use spirea_protocols::steps::Unit;

use crate::output::note;
use crate::threads::Threads;

/// Version of the file's format.
const FORMAT: u64 = 1;

/// Source of the rates.
#[derive(Args)]
pub(super) struct RatesOptions {
    /// Read the rates from this file, which --save-rates wrote, instead of measuring this machine.
    #[arg(help_heading = "Rates", long, value_name = "FILE", conflicts_with = "save_rates")]
    rates: Option<PathBuf>,
    /// Write the rates that are measured to this file, for every level of security, so that later plans read them.
    #[arg(help_heading = "Rates", long, value_name = "FILE")]
    save_rates: Option<PathBuf>,
}

impl RatesOptions {
    /// The rates for `threads` threads and the sets of `security`.
    pub(super) fn rates(&self, threads: Threads, security: SecurityLevel) -> anyhow::Result<Rates> {
        let processor = processor();
        if let Some(path) = &self.rates {
            let saved = Saved::read(path)?;
            if (&saved.processor, saved.threads) != (&processor, threads.count()) {
                note(&format!(
                    "{}: measured on {} with {} thread(s); this is a plan for that machine, not for {processor} with {}",
                    path.display(),
                    saved.processor,
                    saved.threads,
                    threads.count()
                ));
            }
            return Ok(saved.rates);
        }
        let backend = CpuBackend::new(threads.count())?;
        note(&format!("measuring {} with {} thread(s)", backend.name(), backend.threads()));
        let Some(path) = &self.save_rates else {
            return Ok(Rates::measure(&backend, &security.ring_sets())?);
        };
        let measured = Rates::measure(&backend, &all_sets())?;
        let rates = measured.iter().map(|(unit, seconds)| (unit, rounded(seconds))).collect();
        let saved = Saved { processor, threads: threads.count(), rates };
        saved.write(path)?;
        Ok(saved.rates)
    }
}

/// The ring sets of the plans of every level of security.
fn all_sets() -> Vec<RingSet> {
    let standard = SecurityLevel::Standard.ring_sets();
    let others = SecurityLevel::Conservative.ring_sets().into_iter().filter(|set| !standard.contains(set));
    standard.into_iter().chain(others).collect()
}

/// A rate to four digits: the others are noise.
fn rounded(seconds: f64) -> f64 {
    format!("{seconds:.3e}").parse().expect("what is formatted as a number is one")
}

/// The processor's name where the system tells it, else its architecture.
fn processor() -> String {
    let described = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = described.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned()
}

/// Content of a file of rates.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u64,
    processor: String,
    threads: usize,
    /// Seconds of each unit of work, by its name.
    seconds: Map<String, Value>,
}

/// Rates with the machine that they were measured on.
struct Saved {
    processor: String,
    threads: usize,
    rates: Rates,
}

impl Saved {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).map_err(anyhow::Error::from);
        text.and_then(|text| Self::parse(&text)).map_err(|cause| {
            anyhow!("{}: {cause}; measure with spirea plan --save-rates and name its file", path.display())
        })
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
            anyhow!("{error}: {}", line.trim())
        })?;
        let format = value.get("format").context("the field format is missing")?;
        ensure!(*format == FORMAT, "format is {format}, and this program reads {FORMAT}");
        let Content { processor, threads, mut seconds, .. } = serde_json::from_value(value)?;
        let mut rate = |unit: Unit| -> anyhow::Result<(Unit, f64)> {
            let name = unit.name();
            let value = seconds.remove(&name).with_context(|| format!("seconds.{name} is missing"))?;
            let rate = value.as_f64().filter(|rate| rate.is_finite() && *rate > 0.0);
            Ok((unit, rate.with_context(|| format!("seconds.{name} is {value}, not a number above 0"))?))
        };
        let rates = Rates::units(&all_sets()).into_iter().map(&mut rate).collect::<anyhow::Result<_>>()?;
        if let Some(name) = seconds.keys().next() {
            bail!("seconds.{name} is no unit of work that this program knows");
        }
        Ok(Self { processor, threads, rates })
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let seconds = Rates::units(&all_sets()).into_iter();
        let seconds = seconds.map(|unit| (unit.name(), self.rates.seconds(unit).into())).collect();
        let (processor, threads) = (self.processor.clone(), self.threads);
        let text = serde_json::to_string_pretty(&Content { format: FORMAT, processor, threads, seconds })?;
        std::fs::write(path, text + "\n")
            .map_err(|cause| anyhow!("{}: {cause}; name a file that can be written", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: &str = include_str!("../../tests/rates.json");

    fn with(change: impl FnOnce(&mut Value)) -> String {
        let mut value = serde_json::from_str(SAVED).unwrap();
        change(&mut value);
        value.to_string()
    }

    fn cause(text: &str) -> String {
        Saved::parse(text).err().expect("the text is refused").to_string()
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rates.json");
        Saved::parse(SAVED).unwrap().write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), SAVED);
        let rates = Saved::read(&path).unwrap().rates;
        assert_eq!(rates.iter().count(), Rates::units(&all_sets()).len());
    }

    #[test]
    fn a_file_of_another_format_is_refused() {
        assert!(
            cause(&with(|value| value["format"] = 2.into()))
                .contains("format is 2, and this program reads 1")
        );
        assert!(cause("{}").contains("format is missing"));
        assert!(cause("{ \"format\": 1,").contains("EOF"));
    }

    #[test]
    fn every_field_must_be_there_and_no_other() {
        let remove = |field: &'static str| with(|value| drop(value.as_object_mut().unwrap().remove(field)));
        for field in ["processor", "threads", "seconds"] {
            assert!(cause(&remove(field)).contains(&format!("missing field `{field}`")));
        }
        assert!(cause(&with(|value| value["cores"] = 2.into())).contains("unknown field `cores`"));
        let extra = with(|value| value["seconds"]["scanned-bit"] = 1.0.into());
        assert!(cause(&extra).contains("seconds.scanned-bit is no unit"));
    }

    #[test]
    fn every_rate_must_be_a_number_above_0() {
        for unit in Rates::units(&all_sets()) {
            let name = unit.name();
            let missing = with(|value| drop(value["seconds"].as_object_mut().unwrap().remove(&name)));
            assert!(cause(&missing).contains(&format!("seconds.{name} is missing")));
            for wrong in [0.into(), (-1e-9).into(), Value::Null, "fast".into()] {
                let said = cause(&with(|value| value["seconds"][&name] = wrong.clone()));
                assert!(said.contains(&format!("seconds.{name} is {wrong}, not a number above 0")), "{said}");
            }
            let infinite = SAVED.replacen(&format!("\"{name}\": "), &format!("\"{name}\": 1e999"), 1);
            let said = cause(&infinite);
            assert!(said.contains("number out of range") && said.contains(&name), "{said}");
        }
    }
}

//! Rates of a machine: measured, or read from a file of measured rates.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spirea_backend::Backend as _;
use spirea_client::cache_folder;
use spirea_console::output::note;
use spirea_console::threads::Threads;
use spirea_cpu::CpuBackend;
use spirea_lattice::RingSet;
use spirea_protocols::choice::SecurityLevel;
use spirea_protocols::planner::Rates;
use spirea_protocols::steps::Unit;
use tempfile::NamedTempFile;

use crate::about;

/// Environment variable that names a file of rates.
const VARIABLE: &str = "SPIREA_RATES";

/// Version of the file's format.
const FORMAT: u64 = 1;

/// Options for the source of the rates.
#[derive(Args)]
pub struct RatesOptions {
    /// Read the rates from this file, which --save-rates wrote, instead of measuring this machine.
    #[arg(help_heading = "Rates", long, value_name = "FILE", conflicts_with = "save_rates")]
    rates: Option<PathBuf>,
    /// Write the rates that are measured to this file, for every level of security, so that later
    /// plans read them.
    #[arg(help_heading = "Rates", long, value_name = "FILE")]
    save_rates: Option<PathBuf>,
}

impl RatesOptions {
    /// Returns the rates for `threads` threads and the sets of `security`.
    pub fn rates(&self, threads: Threads, security: SecurityLevel) -> anyhow::Result<Rates> {
        let processor = about::processor();
        if let Some(path) =
            self.rates.clone().or_else(|| of_environment().filter(|_| self.save_rates.is_none()))
        {
            let path = &path;
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
        let saved = Saved::measure(&backend)?;
        saved.write(path)?;
        Ok(saved.rates)
    }
}

/// Returns the file that the environment names.
fn of_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Source of the rates by which a build chooses its protocol.
#[derive(Debug)]
pub enum Source {
    /// A file of rates.
    File(Rates),
    /// This machine, measured once for all builds.
    Machine {
        /// Number of threads that compute.
        threads: Threads,
        /// Receives a line before the machine is measured.
        tell: fn(&str),
    },
}

impl Source {
    /// Chooses the file at `path`, the file of the environment, or else this machine.
    pub fn of(path: Option<&Path>, threads: Threads, tell: fn(&str)) -> anyhow::Result<Self> {
        match path.map(Path::to_path_buf).or_else(of_environment) {
            Some(path) => Ok(Self::File(Saved::read(&path)?.rates)),
            None => Ok(Self::Machine { threads, tell }),
        }
    }

    /// Returns the rates of the file, rates kept from an earlier build, or rates that are measured
    /// now and then kept.
    pub fn rates(&self) -> anyhow::Result<Rates> {
        match self {
            Self::File(rates) => Ok(rates.clone()),
            Self::Machine { threads, tell } => kept_or(*threads, cache_folder().as_deref(), || {
                let backend = CpuBackend::new(threads.count())?;
                let (name, count) = (backend.name(), backend.threads());
                tell(&format!(
                    "measuring {name} with {count} thread(s), once for all builds, to choose the protocol"
                ));
                Saved::measure(&backend)
            }),
        }
    }
}

/// Returns the rates of this machine: those kept in `folder`, or those that `measure` returns. If
/// the folder is not writable, nothing is kept.
fn kept_or(
    threads: Threads,
    folder: Option<&Path>,
    measure: impl FnOnce() -> anyhow::Result<Saved>,
) -> anyhow::Result<Rates> {
    let kept = folder.map(|folder| folder.join(kept_name(&about::processor(), threads.count())));
    if let Some(Ok(saved)) = kept.as_deref().map(Saved::read)
        && (saved.processor, saved.threads) == (about::processor(), threads.count())
    {
        return Ok(saved.rates);
    }
    let saved = measure()?;
    if let Some(path) = kept {
        let _ = saved.replace(&path);
    }
    Ok(saved.rates)
}

/// Returns the file name for a machine's rates, as this version of the program measures them.
fn kept_name(processor: &str, threads: usize) -> String {
    let machine = format!("{} {threads} {processor}", env!("CARGO_PKG_VERSION"));
    format!("{}.rates", &blake3::hash(machine.as_bytes()).to_hex()[..32])
}

/// Returns the ring sets that plans of all security levels use.
fn all_sets() -> Vec<RingSet> {
    let standard = SecurityLevel::Standard.ring_sets();
    let others = SecurityLevel::Conservative.ring_sets().into_iter().filter(|set| !standard.contains(set));
    standard.into_iter().chain(others).collect()
}

/// Rounds a rate to four significant digits; the rest is noise.
fn rounded(seconds: f64) -> f64 {
    format!("{seconds:.3e}").parse().expect("what is formatted as a number is one")
}

/// Content of a file of rates.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u64,
    processor: String,
    threads: usize,
    /// Seconds for each unit of work, by its name.
    seconds: Map<String, Value>,
}

/// Rates with the machine on which they were measured.
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

    /// Measures a backend for every security level.
    fn measure(backend: &CpuBackend) -> anyhow::Result<Self> {
        let measured = Rates::measure(backend, &all_sets())?;
        let rates = measured.iter().map(|(unit, seconds)| (unit, rounded(seconds))).collect();
        Ok(Self { processor: about::processor(), threads: backend.threads(), rates })
    }

    /// Replaces the file atomically, so that another build reads all of it or nothing.
    fn replace(&self, path: &Path) -> anyhow::Result<()> {
        let fresh = NamedTempFile::new_in(path.parent().context("a file lies in a folder")?)?;
        self.write(fresh.path())?;
        fresh.persist(path)?;
        Ok(())
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

    const SAVED: &str = include_str!("../tests/rates.json");

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
    fn a_machine_is_measured_once_for_its_name_threads_and_version() {
        let folder = tempfile::tempdir().unwrap();
        let threads: Threads = "1".parse().unwrap();
        let path = folder.path().join(kept_name(&about::processor(), 1));
        let of_this = || Saved { processor: about::processor(), ..Saved::parse(SAVED).unwrap() };
        let unit = Unit::ScannedByte;
        let scan = |rates: Rates| rates.seconds(unit).to_bits();
        let expected = scan(of_this().rates);
        let kept = || kept_or(threads, Some(folder.path()), || bail!("measured again")).map(scan);
        let measured = || kept_or(threads, Some(folder.path()), || Ok(of_this())).map(scan);
        assert!(kept().is_err(), "nothing is kept yet");
        assert_eq!(measured().unwrap(), expected);
        assert_eq!(kept().unwrap(), expected);
        // A file of another machine, a file for another number of threads, and a damaged file are
        // not read.
        let others = [Saved { processor: "another".into(), ..of_this() }, Saved { threads: 2, ..of_this() }];
        for other in others {
            other.replace(&path).unwrap();
            assert!(kept().is_err());
        }
        std::fs::write(&path, "damaged").unwrap();
        assert!(kept().is_err());
        assert_eq!(measured().unwrap(), expected);
        assert_eq!(kept().unwrap(), expected);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_ne!(kept_name("a", 1), kept_name("a", 2));
        assert_ne!(kept_name("a", 1), kept_name("b", 1));
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

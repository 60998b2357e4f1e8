//! Output of measured figures: each is one line on standard output and one line in a file.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use spirea_console::output::{Format, print_line, seconds};
use spirea_cuda::CudaBackend;
use spirea_store::today;

use crate::bench::report::Report;

/// Destination of figures.
pub struct Results {
    format: Format,
    path: PathBuf,
    file: File,
}

impl Results {
    /// Opens the file: `path`, or one named after device and date in `bench/results`.
    pub fn create(path: Option<&Path>, device: &str, format: Format) -> anyhow::Result<Self> {
        let named = || PathBuf::from("bench/results").join(format!("{}-{}.json", file_name(device), today()));
        let path = path.map_or_else(named, Path::to_path_buf);
        let failed = || format!("{}: cannot be written", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(failed)?;
        }
        let file = File::create(&path).with_context(failed)?;
        Ok(Self { format, path, file })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes an object for programs and a line for people.
    pub fn tell(&mut self, object: &impl Serialize, line: &str) -> anyhow::Result<()> {
        let json = serde_json::to_string(object)?;
        writeln!(self.file, "{json}")
            .with_context(|| format!("{}: cannot be written", self.path.display()))?;
        print_line(if self.format == Format::Json { &json } else { line })
    }

    /// Reports the device, the driver and the versions in use.
    pub fn device(&mut self, backend: &CudaBackend) -> anyhow::Result<()> {
        let properties = backend.device().properties();
        let driver = spirea_cuda::driver::driver_version()?;
        let object = serde_json::json!({
            "name": "device",
            "device": properties.name,
            "compute": properties.compute.to_string(),
            "processors": properties.processors,
            "memory_bytes": properties.memory_bytes,
            "driver": driver,
            "version": env!("CARGO_PKG_VERSION"),
            "date": today(),
        });
        let memory = spirea_console::output::bytes(properties.memory_bytes as u64);
        self.tell(
            &object,
            &format!(
                "{}, compute capability {}, {} multiprocessors, {memory}, driver for CUDA {driver}",
                properties.name, properties.compute, properties.processors
            ),
        )
    }

    /// Reports a limit of the device.
    pub fn limit(&mut self, limit: &str, per_second: f64, unit: &str) -> anyhow::Result<()> {
        let object = serde_json::json!({
            "name": "limit", "floor": limit, "per_second": per_second, "unit": unit,
        });
        self.tell(&object, &format!("limit   {limit:22} {} {unit}/s", in_thousands(per_second)))
    }

    /// Reports a measured figure.
    pub fn figure(&mut self, report: &Report) -> anyhow::Result<()> {
        let Report { name, params, shape: [rows, columns], batch, ratio, floor, .. } = report;
        let params = params.as_deref().map_or(String::new(), |params| format!(" ({params})"));
        let rate = in_thousands(*batch as f64 / report.seconds);
        self.tell(
            report,
            &format!(
                "figure  {name}{params} {rows} x {columns}, batch {batch}: {} or {rate}/s, {ratio:.2} of the limit ({floor}, {})",
                seconds(report.seconds),
                seconds(report.floor_seconds)
            ),
        )?;
        if self.format == Format::Text {
            for step in &report.steps {
                print_line(&format!("        - {}: {}", step.name, seconds(step.seconds)))?;
            }
        }
        Ok(())
    }

    /// Reports a skipped measurement with its reason.
    pub fn skipped(&mut self, what: &str, reason: &str) -> anyhow::Result<()> {
        let object = serde_json::json!({ "name": "skipped", "what": what, "reason": reason });
        self.tell(&object, &format!("skipped {what}: {reason}"))
    }
}

/// Formats a number with an SI prefix.
pub(super) fn in_thousands(number: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.into_iter().find(|(unit, _)| number >= *unit) {
        Some((unit, prefix)) => format!("{:.2} {prefix}", number / unit),
        None => format!("{number:.2} "),
    }
}

/// Converts a device's name to lowercase with hyphens.
fn file_name(device: &str) -> String {
    let letters =
        device.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let hyphens: String = letters.collect();
    hyphens.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_plain_names() {
        assert_eq!(file_name("NVIDIA H200"), "nvidia-h200");
        assert_eq!(file_name("NVIDIA GeForce RTX 5090 (Laptop)"), "nvidia-geforce-rtx-5090-laptop");
    }

    #[test]
    fn numbers_have_prefixes() {
        let numbers = [0.5, 999.0, 1500.0, 4.2e12].map(in_thousands);
        assert_eq!(numbers, ["0.50 ", "999.00 ", "1.50 k", "4.20 T"]);
    }
}

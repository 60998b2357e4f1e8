//! What the command prints for people and for programs.

use std::io::Write as _;

/// For whom output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Sentences and columns.
    Text,
    /// One JSON object a line.
    Json,
}

impl Format {
    /// The format that the flag `--json` asks for.
    pub fn from_flag(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Writes a line to standard output. A reader that has gone away ends the command quietly.
pub fn print_line(line: &str) -> anyhow::Result<()> {
    print_bytes(line.as_bytes())?;
    print_bytes(b"\n")
}

/// Writes bytes to standard output, as they are.
pub fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    match std::io::stdout().write_all(bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}

/// A size in the unit that suits it.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (count.max(1).ilog2() / 10).min(4);
    match unit {
        0 => format!("{count} B"),
        _ => {
            format!("{:.1} {}", count as f64 / f64::from(1u32 << 10).powi(unit as i32), UNITS[unit as usize])
        }
    }
}

/// The size that a text such as `512MiB` or `4096` tells.
pub use spirea_server::settings::parse_size as parse_bytes;

/// A time in the unit that suits it.
pub fn seconds(time: f64) -> String {
    match time {
        t if t >= 1.0 => format!("{t:.2} s"),
        t if t >= 1e-3 => format!("{:.2} ms", t * 1e3),
        t => format!("{:.1} us", t * 1e6),
    }
}

/// Writes a line to standard error, if it takes one: there is nowhere else to complain.
pub fn print_error(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// As many threads as asked for; all there are for 0.
pub fn threads(wanted: usize) -> usize {
    if wanted == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { wanted }
}

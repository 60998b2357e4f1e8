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
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = ["", "KiB", "MiB", "GiB", "TiB"].iter().position(|&known| known == unit);
    number
        .parse::<u64>()
        .ok()
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(1 << (10 * unit)))
        .ok_or_else(|| "a size is a number of bytes, or of KiB, MiB, GiB or TiB, such as 512MiB".into())
}

/// A time in the unit that suits it.
pub fn seconds(time: f64) -> String {
    match time {
        t if t >= 1.0 => format!("{t:.2} s"),
        t if t >= 1e-3 => format!("{:.2} ms", t * 1e3),
        t => format!("{:.1} us", t * 1e6),
    }
}

/// Writes a line to standard error.
#[allow(clippy::print_stderr)]
pub fn print_error(line: &str) {
    eprintln!("{line}");
}

/// As many threads as asked for; all there are for 0.
pub fn threads(wanted: usize) -> usize {
    if wanted == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        let sizes = ["0", "4096", "3KiB", "512MiB", "16GiB", "2TiB"].map(parse_bytes);
        assert_eq!(sizes, [0, 4096, 3 << 10, 512 << 20, 16 << 30, 2 << 40].map(Ok));
        for wrong in ["", "MiB", "5MB", "-1", "1.5GiB", "5 MiB", "18446744073709551616", "16777216TiB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}

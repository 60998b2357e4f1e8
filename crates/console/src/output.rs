//! Output of the command, for people and for programs.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Sentences and columns, for people.
    Text,
    /// One JSON object per line, for programs.
    Json,
}

impl Format {
    /// Returns the format that the flag `--json` selects.
    pub fn from_flag(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Escapes text from any source for a terminal. Control characters, which begin escape sequences or
/// could make one line look like several, become `\u001b` and the like, as in a JSON string.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let escape = |character: char| match character.is_control() {
        true => format!("\\u{:04x}", u32::from(character)),
        false => character.into(),
    };
    text.chars().map(escape).collect::<String>().into()
}

/// Formats bytes as one line of text from which every byte can be recovered. Tabs, line feeds and
/// carriage returns become `\t`, `\n`, `\r`, a backslash is doubled, other control characters
/// become `\u001b` and the like, and bytes that are not UTF-8 become `\xff` and the like.
pub fn escaped(bytes: &[u8]) -> String {
    let mut line = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\t' => line += "\\t",
                '\n' => line += "\\n",
                '\r' => line += "\\r",
                '\\' => line += "\\\\",
                other => line += &printable(other.encode_utf8(&mut [0; 4])),
            }
        }
        line.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    line
}

/// True if standard output is a terminal.
pub fn is_watched() -> bool {
    std::io::stdout().is_terminal()
}

/// Writes a line to standard output, [printable](printable()) except for tabs. If the reader has
/// closed the pipe, the command ends silently.
///
/// # Errors
/// Those of the system.
pub fn print_line(line: &str) -> anyhow::Result<()> {
    print_bytes(printable_line(line).as_bytes())
}

/// Formats a line with its line feed, [printable](printable()) except for tabs.
pub fn printable_line(line: &str) -> String {
    let columns: Vec<_> = line.split('\t').map(printable).collect();
    format!("{}\n", columns.join("\t"))
}

/// Writes bytes to standard output unchanged. If the reader has closed the pipe, the command ends
/// silently.
///
/// # Errors
/// Those of the system.
pub fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    match std::io::stdout().write_all(bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}

/// Formats a size in a suitable unit.
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

pub use spirea_server::settings::{parse_count, parse_size as parse_bytes};

/// Formats a time in a suitable unit.
pub fn seconds(time: f64) -> String {
    match time {
        t if t >= 1.0 => format!("{t:.2} s"),
        t if t >= 1e-3 => format!("{:.2} ms", t * 1e3),
        t => format!("{:.1} us", t * 1e6),
    }
}

static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses notes and progress bars from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// True if only results and errors are wanted.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes a note to standard error, a line that is neither a result nor an error, unless notes are
/// suppressed.
pub fn note(line: &str) {
    if !is_quiet() {
        print_error(line);
    }
}

/// Writes a line to standard error, [printable](printable()). Failures are ignored: there is no
/// other place to report them.
pub fn print_error(line: &str) {
    let _ = std::io::stderr().write_all(format!("{}\n", printable(line)).as_bytes());
}

/// Formats an error with its causes, each once. This removes repetitions: some messages already
/// contain their cause, and some begin with the context that was added to them.
pub fn explained(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| match cause.to_string() {
        cause if text.is_empty() || cause.starts_with(&format!("{text}: ")) => cause,
        cause if text.contains(&cause) => text,
        cause => format!("{text}: {cause}"),
    })
}

/// Parses a size that fits `usize`, in the form of [`parse_bytes`].
///
/// # Errors
/// Those of [`parse_bytes`].
pub fn parse_length(text: &str) -> Result<usize, String> {
    parse_bytes(text).and_then(|bytes| usize::try_from(bytes).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io;

    use spirea_store::StoreError;

    use super::*;

    #[test]
    fn no_control_character_is_printable() {
        assert_eq!(printable("plain, même 字"), "plain, même 字");
        assert_eq!(printable("\u{1b}[2J\n\u{9b}1m\u{7f}"), "\\u001b[2J\\u000a\\u009b1m\\u007f");
        let every: String = (0..0x300).filter_map(char::from_u32).collect();
        assert!(!printable(&every).contains(char::is_control));
    }

    #[test]
    fn an_error_s_causes_are_said_once() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let of_store = || StoreError::Io { path: "t".into(), action: "open", source: missing() };
        let said = of_store().to_string();
        assert_eq!(explained(&of_store().into()), said);
        assert_eq!(explained(&anyhow::Error::from(of_store()).context("t")), said);
        assert_eq!(explained(&anyhow::Error::from(of_store()).context("here")), format!("here: {said}"));
        assert_eq!(explained(&anyhow::Error::from(missing()).context("t")), format!("t: {}", missing()));
    }

    #[test]
    fn escaped_bytes_are_one_line_and_differ_where_the_bytes_do() {
        assert_eq!(escaped(b"a\tb\n\\n\x1b\xff"), "a\\tb\\n\\\\n\\u001b\\xff");
        let all: std::collections::BTreeSet<_> =
            (0..=u16::MAX).map(|pair| escaped(&pair.to_le_bytes())).collect();
        assert_eq!(all.len(), 1 << 16);
        assert!(all.iter().all(|line| !line.contains(char::is_control)));
    }
}

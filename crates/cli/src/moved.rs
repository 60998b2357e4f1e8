//! Commands that left this program for `spirea-lab`.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};

/// Commands of `spirea-lab` that were commands of `spirea`, or that users look for here.
const MOVED: [&str; 5] = ["bench", "gpu bench", "gpu predict", "load", "simulate-load"];

/// Returns a sentence that names the program with the command, if `error` is that the command is
/// unknown. The first of the arguments is the program's name.
pub fn remedy(arguments: &[OsString], error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let words: Vec<_> = arguments[1..].iter().filter_map(|word| word.to_str()).collect();
    let end = words.iter().position(|word| word == unknown)?;
    let path: Vec<_> = words[..=end].iter().copied().filter(|word| !word.starts_with('-')).collect();
    let path = path.join(" ");
    MOVED.contains(&path.as_str()).then(|| {
        format!(
            "{path} is a command of spirea-lab, which `cargo build --release --locked --package spirea-lab` builds: `spirea-lab {path}` takes the same options"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy_of(line: &str) -> Option<String> {
        let arguments: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let error = crate::command().try_get_matches_from(&arguments).unwrap_err();
        remedy(&arguments, &error)
    }

    #[test]
    fn a_command_that_moved_is_named_with_its_program() {
        for (line, path) in [
            ("spirea bench scan --db-gib 1", "bench"),
            ("spirea -q bench --help", "bench"),
            ("spirea gpu bench --json", "gpu bench"),
            ("spirea gpu predict --card h200", "gpu predict"),
            ("spirea load --rate 1", "load"),
            ("spirea simulate-load prices", "simulate-load"),
        ] {
            let said = remedy_of(line).unwrap_or_else(|| panic!("{line}"));
            assert!(said.starts_with(&format!("{path} is a command of spirea-lab")), "{line}: {said}");
        }
        for line in ["spirea gpu load", "spirea get", "spirea benches", "spirea key bench"] {
            assert_eq!(remedy_of(line), None, "{line}");
        }
    }
}

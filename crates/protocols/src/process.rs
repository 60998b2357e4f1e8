//! Identity of the process, by which secrets detect that they were copied into another process.

use std::fs;

/// Identity of a process, equal only within the same process.
///
/// A copy made by `fork` has another id, or another start if the id was reused. A copy that is
/// restored on another machine, or after a restart of the machine, has another boot id. A virtual
/// machine that continues from a snapshot without a restart is not detected: no file distinguishes
/// it from the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    id: u32,
    /// Clock ticks from the machine's start to the process's start, if the system provides them.
    start: Option<u64>,
    /// Random id of the machine's present run, if the system provides it.
    boot: Option<String>,
}

impl Process {
    /// Returns the calling process.
    pub fn current() -> Self {
        Self {
            id: id(),
            start: fs::read_to_string("/proc/self/stat").ok().and_then(|stat| start_in(&stat)),
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id").ok(),
        }
    }
}

#[cfg(test)]
impl Process {
    /// Returns processes that differ from the calling one in one part.
    pub fn others() -> [Self; 3] {
        let own = Self::current;
        [
            Self { id: !own().id, ..own() },
            Self { start: own().start.map_or(Some(0), |start| Some(start + 1)), ..own() },
            Self { boot: Some("another run".into()), ..own() },
        ]
    }
}

/// Web pages have no process id.
#[cfg(target_family = "wasm")]
fn id() -> u32 {
    0
}

#[cfg(not(target_family = "wasm"))]
fn id() -> u32 {
    std::process::id()
}

/// Parses field 22 of `/proc/PID/stat`. Field 2, the name, may contain spaces and parentheses.
fn start_in(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_itself_and_its_start_is_read_behind_any_name() {
        let current = Process::current();
        assert_eq!(current, Process::current());
        assert!(!cfg!(target_os = "linux") || current.start.is_some() && current.boot.is_some());
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = format!("17 (a) b (c) S {}\n", fields.join(" "));
        assert_eq!(start_in(&stat), Some(22));
        assert_eq!(start_in("17 (a) S 1"), None);
        assert_eq!(start_in(""), None);
    }
}

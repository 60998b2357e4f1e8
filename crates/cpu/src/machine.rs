//! The machine's memory.

use std::fs::read_to_string;
use std::sync::LazyLock;

/// Assumed bytes of memory if the system does not report them.
const UNKNOWN: u64 = 8 << 30;
/// Files with Linux's memory limit of a control group, in bytes, for each version of control
/// groups.
const BOUNDS: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// Returns the bytes of memory that this process may use: the memory of the machine, or the limit
/// of the process's control group if that is lower.
pub fn memory_bytes() -> u64 {
    static BYTES: LazyLock<u64> = LazyLock::new(|| {
        let all = read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
        let bounds = BOUNDS.iter().filter_map(|path| read_to_string(path).ok()?.trim().parse().ok());
        bounds.chain(all).min().unwrap_or(UNKNOWN)
    });
    *BYTES
}

/// Returns the total in bytes from `/proc/meminfo`, which reports units of 1024 bytes.
fn total_of(text: &str) -> Option<u64> {
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(total.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_what_linux_writes() {
        let text = "MemTotal:       65831112 kB\nMemFree:         1234 kB\n";
        assert_eq!(total_of(text), Some(65_831_112 << 10));
        assert_eq!(total_of("MemFree: 1234 kB\n"), None);
        assert_eq!(total_of("MemTotal: many\n"), None);
    }
}

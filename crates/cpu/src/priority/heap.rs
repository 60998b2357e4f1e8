//! Memory that the C library keeps when work has ended.

#![allow(unsafe_code)]

/// Returns free memory to the system. glibc has a heap for each few threads, and a heap shrinks
/// only at its end: after a compaction of 1 GiB, a gigabyte of free memory would remain. Other C
/// libraries have no such function.
pub(super) fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the function locks each heap, and changes no memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use crate::priority::at_low_priority;

    fn resident_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        1024 * line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap()
    }

    #[test]
    fn memory_of_ended_work_returns_to_the_system() {
        // The C library maps longer blocks one by one.
        const BLOCK: usize = 32 << 10;
        const ALL: usize = 512 << 20;
        let before = resident_bytes();
        // The last block keeps the heap from shrinking.
        let last = at_low_priority(|| (0..ALL / BLOCK).map(|_| vec![1u8; BLOCK]).collect::<Vec<_>>().pop());
        assert!(resident_bytes() < before + ALL / 2);
        assert_eq!(last, Some(vec![1; BLOCK]));
    }
}

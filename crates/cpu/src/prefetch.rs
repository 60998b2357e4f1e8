//! Hints to the cache and to the compiler about memory.

/// Prefetches the cache line at `address`. Any address is allowed: a hint never faults.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    hint::<0>(address);
}

/// Prefetches the cache line at `address` into the second-level cache alone.
#[inline(always)]
pub(crate) fn prefetch_second_level(address: *const u8) {
    hint::<1>(address);
}

/// Prefetches a line into all cache levels except the first `BUT`.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn hint<const BUT: u32>(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
    // SAFETY: part of SSE, which every x86-64 has; the instruction reads nothing that the program
    // can observe and ignores addresses that are not mapped.
    unsafe {
        match BUT {
            0 => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
            _ => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
        }
    }
}

/// Does nothing: leaves prefetching to the hardware.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
fn hint<const BUT: u32>(_address: *const u8) {}

/// Lines of memory to prefetch one by one. A processor stalls on a burst of requests, but continues
/// to compute if requests are spread out.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    next: *const u8,
    left: usize,
}

impl Lines {
    /// No lines.
    pub const NONE: Self = Self { next: std::ptr::null(), left: 0 };

    /// Returns the lines that are `ahead` bytes after `at_hand`, or no lines if `ahead` is 0.
    #[inline(always)]
    pub fn ahead<T>(at_hand: &[T], ahead: usize) -> Self {
        match ahead {
            0 => Self::NONE,
            ahead => Self::new(at_hand.as_ptr().wrapping_byte_add(ahead), size_of_val(at_hand)),
        }
    }

    /// Returns the lines of `bytes` bytes from an address on.
    #[inline(always)]
    pub fn new<T>(first: *const T, bytes: usize) -> Self {
        Self { next: first.cast(), left: bytes.div_ceil(64) }
    }

    /// Returns the number of lines left.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.left
    }

    /// Prefetches the next line, if any, into the second-level cache alone.
    #[inline(always)]
    pub fn ask_second_level(&mut self) {
        if self.left > 0 {
            prefetch_second_level(self.next);
            (self.next, self.left) = (self.next.wrapping_add(64), self.left - 1);
        }
    }

    /// Prefetches the next line, if any.
    #[inline(always)]
    pub fn ask(&mut self) {
        if self.left > 0 {
            prefetch(self.next);
            (self.next, self.left) = (self.next.wrapping_add(64), self.left - 1);
        }
    }
}

/// Returns `value`, but hides from the compiler that it was read before, so that the compiler reads
/// it again. In a large register tile a load is free, while keeping the vector would push sums out
/// of 16 registers.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) fn reread<T>(value: &T) -> &T {
    let mut address: *const T = value;
    // SAFETY: the assembly is empty; the address remains that of `value`.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) address, options(pure, readonly, nostack, preserves_flags));
        &*address
    }
}

/// Returns `value` unchanged.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn reread<T>(value: &T) -> &T {
    value
}

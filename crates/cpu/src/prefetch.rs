//! Hints to the cache and to the compiler about memory.

/// Asks for the cache line at `address`. Any address will do: a hint never faults.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    hint::<0>(address);
}

/// Asks for it into the second-level cache alone.
#[inline(always)]
pub(crate) fn prefetch_second_level(address: *const u8) {
    hint::<1>(address);
}

/// Asks for a line into all levels of the cache but the first so many.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn hint<const BUT: u32>(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
    // SAFETY: part of SSE, which every x86-64 has; the instruction reads nothing that the program can
    // observe and ignores addresses that are not mapped.
    unsafe {
        match BUT {
            0 => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
            _ => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
        }
    }
}

/// Does nothing: the hardware's own prefetcher must do.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
fn hint<const BUT: u32>(_address: *const u8) {}

/// Lines of memory that are asked for one by one: a processor waits for a burst of requests, but computes on between a
/// few.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    next: *const u8,
    left: usize,
}

impl Lines {
    /// None.
    pub const NONE: Self = Self { next: std::ptr::null(), left: 0 };

    /// Those that are `ahead` bytes from those at hand, or none.
    #[inline(always)]
    pub fn ahead<T>(at_hand: &[T], ahead: usize) -> Self {
        match ahead {
            0 => Self::NONE,
            ahead => Self::new(at_hand.as_ptr().wrapping_byte_add(ahead), size_of_val(at_hand)),
        }
    }

    /// Those of so many bytes from an address on.
    #[inline(always)]
    pub fn new<T>(first: *const T, bytes: usize) -> Self {
        Self { next: first.cast(), left: bytes.div_ceil(64) }
    }

    /// How many there are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.left
    }

    /// Asks for the next one, if there is one.
    #[inline(always)]
    pub fn ask(&mut self) {
        if self.left > 0 {
            prefetch(self.next);
            (self.next, self.left) = (self.next.wrapping_add(64), self.left - 1);
        }
    }
}

/// The same value, such that the compiler cannot tell that it has been read before and reads it again. A load
/// costs a large register tile nothing, where keeping the vector would push sums out of 16 registers.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) fn reread<T>(value: &T) -> &T {
    let mut address: *const T = value;
    // SAFETY: no instruction at all; the address remains that of `value`.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) address, options(pure, readonly, nostack, preserves_flags));
        &*address
    }
}

/// The same value.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn reread<T>(value: &T) -> &T {
    value
}

//! Requests of a program to valgrind's memcheck about its memory.
//!
//! Memcheck follows every undefined bit through registers and memory, and reports branches and
//! addresses that depend on undefined bits. If secrets are marked as undefined, memcheck therefore
//! reports where they affect control flow or addresses (Langley, "Checking that functions are
//! constant time with Valgrind", 2010). Outside valgrind, and on processors other than x86-64,
//! these functions do nothing.
#![allow(unsafe_code)]

/// Request codes of memcheck (`memcheck.h`) and of valgrind (`valgrind.h`).
mod request {
    const MEMCHECK: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16;
    pub const MAKE_UNDEFINED: usize = MEMCHECK + 1;
    pub const MAKE_DEFINED: usize = MEMCHECK + 2;
    pub const GET_VALIDITY: usize = MEMCHECK + 8;
    pub const RUNNING: usize = 0x1001;
}

/// Sends a request to valgrind and returns its answer; 0 without valgrind.
#[cfg(target_arch = "x86_64")]
fn request(code: usize, arguments: [usize; 3]) -> usize {
    let [first, second, third] = arguments;
    let message = [code, first, second, third, 0, 0];
    let mut answer = 0usize;
    // SAFETY: the rotations add up to two full turns, and the exchange swaps a register with
    // itself, so the instructions change nothing on a processor. Valgrind recognises the sequence,
    // reads the message that rax points to, and writes its answer to rdx. It may change the bits
    // that it considers defined and, for GET_VALIDITY, the bytes at the second argument, which
    // [`validity`] lends to it. The compiler assumes that any memory may change.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") &raw const message, inout("rdx") answer,
        );
    }
    answer
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_: usize, _: [usize; 3]) -> usize {
    0
}

fn of_memory<T: ?Sized>(code: usize, value: *mut T, bytes: usize) {
    request(code, [value.cast::<u8>().expose_provenance(), bytes, 0]);
}

/// Returns true if the program runs under valgrind.
pub fn running() -> bool {
    request(request::RUNNING, [0; 3]) != 0
}

/// Marks the bytes of a value as undefined. Does not follow pointers.
pub fn make_undefined<T: ?Sized>(value: &mut T) {
    let bytes = size_of_val(value);
    of_memory(request::MAKE_UNDEFINED, value, bytes);
}

/// Marks the bytes of a value as defined. Does not follow pointers.
pub fn make_defined<T: ?Sized>(value: &mut T) {
    let bytes = size_of_val(value);
    of_memory(request::MAKE_DEFINED, value, bytes);
}

/// Returns the number of undefined bits.
pub fn undefined_bits(bytes: &[u8]) -> usize {
    let mut validity = vec![0u8; bytes.len()];
    let to = validity.as_mut_ptr().expose_provenance();
    request(request::GET_VALIDITY, [bytes.as_ptr().expose_provenance(), to, bytes.len()]);
    validity.iter().map(|bits| bits.count_ones() as usize).sum()
}

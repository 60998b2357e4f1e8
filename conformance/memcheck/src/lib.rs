//! What a program under valgrind's memcheck says of its memory.
//!
//! Memcheck follows every bit that has no defined value through registers and memory, and reports a branch or an
//! address that depends on one. Who marks secrets as undefined is told where they steer the program (Langley, "Checking
//! that functions are constant time with Valgrind", 2010). Outside valgrind, and on processors other than x86-64,
//! nothing here does anything.
#![allow(unsafe_code)]

/// Requests of memcheck's (`memcheck.h`) and of valgrind itself (`valgrind.h`).
mod request {
    const MEMCHECK: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16;
    pub const MAKE_UNDEFINED: usize = MEMCHECK + 1;
    pub const MAKE_DEFINED: usize = MEMCHECK + 2;
    pub const GET_VALIDITY: usize = MEMCHECK + 8;
    pub const RUNNING: usize = 0x1001;
}

/// Sends a request to valgrind and returns its answer, 0 where there is none.
#[cfg(target_arch = "x86_64")]
fn request(code: usize, arguments: [usize; 3]) -> usize {
    let [first, second, third] = arguments;
    let message = [code, first, second, third, 0, 0];
    let mut answer = 0usize;
    // SAFETY: the rotations add up to two whole turns and the exchange is of a register with itself, so that a processor
    // computes nothing; valgrind knows the sequence, reads the message that rax points to, and puts its answer into rdx.
    // It may change which bits it takes for defined, and, for GET_VALIDITY, the bytes at the second argument, which
    // [`validity`] lends it; the compiler takes any memory for changed.
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

/// Whether the program runs under valgrind.
pub fn running() -> bool {
    request(request::RUNNING, [0; 3]) != 0
}

/// Marks the bytes of a value as undefined; not those that it points to.
pub fn make_undefined<T: ?Sized>(value: &mut T) {
    let bytes = size_of_val(value);
    of_memory(request::MAKE_UNDEFINED, value, bytes);
}

/// Marks the bytes of a value as defined; not those that it points to.
pub fn make_defined<T: ?Sized>(value: &mut T) {
    let bytes = size_of_val(value);
    of_memory(request::MAKE_DEFINED, value, bytes);
}

/// How many bits are undefined.
pub fn undefined_bits(bytes: &[u8]) -> usize {
    let mut validity = vec![0u8; bytes.len()];
    let to = validity.as_mut_ptr().expose_provenance();
    request(request::GET_VALIDITY, [bytes.as_ptr().expose_provenance(), to, bytes.len()]);
    validity.iter().map(|bits| bits.count_ones() as usize).sum()
}

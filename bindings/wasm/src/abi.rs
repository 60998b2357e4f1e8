//! Exports for JavaScript. Only numbers and addresses cross here; no decision is made here.
#![allow(unsafe_code, reason = "an export needs a name that the linker keeps")]

use std::cell::RefCell;

use crate::shim::Shim;

thread_local! {
    static SHIM: RefCell<Shim> = RefCell::new(Shim::new());
}

fn with<T>(call: impl FnOnce(&mut Shim) -> T) -> T {
    SHIM.with_borrow_mut(call)
}

/// Makes room for the next call's message of `length` bytes; returns its address.
#[unsafe(no_mangle)]
extern "C" fn input(length: usize) -> *mut u8 {
    with(|shim| shim.input.make_room(length).as_mut_ptr())
}

/// Returns the address of the last call's message.
#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    with(|shim| shim.output.bytes().as_ptr())
}

/// Returns the length of the last call's message in bytes.
#[unsafe(no_mangle)]
extern "C" fn output_length() -> usize {
    with(|shim| shim.output.bytes().len())
}

/// Erases the last call's message.
#[unsafe(no_mangle)]
extern "C" fn erase() {
    with(|shim| {
        shim.output.make_room(0);
    });
}

/// See [`Shim::give`].
#[unsafe(no_mangle)]
extern "C" fn give() -> bool {
    with(Shim::give)
}

/// See [`Shim::connect`].
#[unsafe(no_mangle)]
extern "C" fn connect() -> bool {
    with(Shim::connect)
}

/// See [`Shim::look_up`].
#[unsafe(no_mangle)]
extern "C" fn look_up() -> bool {
    with(Shim::look_up)
}

/// See [`Shim::step`].
#[unsafe(no_mangle)]
extern "C" fn step() -> u32 {
    with(Shim::step) as u32
}

/// See [`Shim::provide_rules`].
#[unsafe(no_mangle)]
extern "C" fn provide_rules() {
    with(Shim::provide_rules);
}

/// See [`Shim::received`].
#[unsafe(no_mangle)]
extern "C" fn received() -> bool {
    with(Shim::received)
}

/// See [`Shim::abandon`].
#[unsafe(no_mangle)]
extern "C" fn abandon() {
    with(Shim::abandon);
}

/// See [`Shim::take_change`].
#[unsafe(no_mangle)]
extern "C" fn take_change() -> bool {
    with(Shim::take_change)
}

/// See [`Shim::forget_hints`].
#[unsafe(no_mangle)]
extern "C" fn forget_hints() {
    with(Shim::forget_hints);
}

/// See [`Shim::keep_keys`].
#[unsafe(no_mangle)]
extern "C" fn keep_keys() {
    with(Shim::keep_keys);
}

/// See [`Shim::take_keys`].
#[unsafe(no_mangle)]
extern "C" fn take_keys() -> bool {
    with(Shim::take_keys)
}

/// See [`Shim::describe`].
#[unsafe(no_mangle)]
extern "C" fn describe() {
    with(Shim::describe);
}

/// Writes [`crate::timing::names`] to the output.
#[cfg(feature = "timing")]
#[unsafe(no_mangle)]
extern "C" fn primitives() {
    with(|shim| shim.output.write(&crate::timing::names(), &[]));
}

/// See [`crate::timing::prepare`].
#[cfg(feature = "timing")]
#[unsafe(no_mangle)]
extern "C" fn prepare(primitive: usize, input: u64) {
    crate::timing::prepare(primitive, input);
}

/// See [`crate::timing::run`].
#[cfg(feature = "timing")]
#[unsafe(no_mangle)]
extern "C" fn run() {
    crate::timing::run();
}

/// See [`crate::vectors::compute`].
#[cfg(feature = "vectors")]
#[unsafe(no_mangle)]
extern "C" fn compute_vector() {
    with(|shim| crate::vectors::compute(&mut shim.input, &mut shim.output));
}

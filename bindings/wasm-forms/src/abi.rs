//! Exports for JavaScript. Only numbers and addresses cross here.
#![allow(unsafe_code, reason = "an export needs a name that the linker keeps")]

use std::cell::RefCell;

use crate::rules::Rules;

thread_local! {
    static RULES: RefCell<Rules> = RefCell::new(Rules::default());
}

fn with<T>(call: impl FnOnce(&mut Rules) -> T) -> T {
    RULES.with_borrow_mut(call)
}

/// Makes room for the next call's message of `length` bytes; returns its address.
#[unsafe(no_mangle)]
extern "C" fn input(length: usize) -> *mut u8 {
    with(|rules| rules.input.make_room(length).as_mut_ptr())
}

/// Returns the address of the last call's message.
#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    with(|rules| rules.output.bytes().as_ptr())
}

/// Returns the length of the last call's message in bytes.
#[unsafe(no_mangle)]
extern "C" fn output_length() -> usize {
    with(|rules| rules.output.bytes().len())
}

/// Erases the last call's message.
#[unsafe(no_mangle)]
extern "C" fn erase() {
    with(|rules| {
        rules.output.make_room(0);
    });
}

/// See [`Rules::check`].
#[unsafe(no_mangle)]
extern "C" fn check() -> bool {
    with(Rules::check)
}

/// See [`Rules::bring`].
#[unsafe(no_mangle)]
extern "C" fn bring() -> bool {
    with(Rules::bring)
}

/// See [`Rules::domains`].
#[unsafe(no_mangle)]
extern "C" fn domains() -> bool {
    with(Rules::domains)
}

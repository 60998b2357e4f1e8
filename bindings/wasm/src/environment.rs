//! Imports of an instance besides randomness: time, a callback for progress, and the rules for
//! forms of keys.
#![cfg_attr(target_arch = "wasm32", allow(unsafe_code))]

use std::time::Duration;

use spirea_client::Clock;
use spirea_wasm_memory::Message;

/// Stage whose progress is reported.
#[derive(Clone, Copy)]
pub enum Stage {
    /// Download of a hint.
    Hint = 0,
    /// Generation of evaluation keys.
    Keys = 1,
}

#[cfg(target_arch = "wasm32")]
mod imported {
    #[link(wasm_import_module = "spirea")]
    unsafe extern "C" {
        /// Returns the milliseconds since 1970; never decreases.
        pub safe fn now() -> f64;
        /// Receives the amount done and the total of a stage.
        pub safe fn progress(stage: u32, done: f64, total: f64);
        /// Asks the rules for forms a question about a form and a key; returns the length of the
        /// answer.
        pub fn ask_rules(
            question: u32,
            form: *const u8,
            form_length: usize,
            key: *const u8,
            key_length: usize,
        ) -> usize;
        /// Copies the answer to `start`, and erases the other copy.
        pub fn take_answer(start: *mut u8);
    }
}

/// Returns JavaScript's clock.
pub fn clock() -> Clock {
    #[cfg(target_arch = "wasm32")]
    return Clock::new(|| Duration::from_secs_f64(imported::now().max(0.0) / 1000.0));
    #[cfg(not(target_arch = "wasm32"))]
    Clock::new(|| std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default())
}

/// Reports progress.
pub fn progress(stage: Stage, done: u64, total: u64) {
    #[cfg(target_arch = "wasm32")]
    imported::progress(stage as u32, done as f64, total as f64);
    #[cfg(not(target_arch = "wasm32"))]
    let _: (Stage, u64, u64, Duration) = (stage, done, total, Duration::ZERO);
}

/// A question to the rules for forms, with the numbers that the JavaScript half uses.
#[derive(Clone, Copy)]
pub enum Question {
    /// The fault of a form, if the rules do not know the form.
    Check = 0,
    /// The key to ask for instead of this one.
    Bring = 1,
}

/// Asks the rules for forms, which the JavaScript half has loaded; returns their message.
pub fn ask_rules(question: Question, form: &[u8], key: &[u8]) -> Message {
    let mut answer = Message::default();
    #[cfg(target_arch = "wasm32")]
    // SAFETY: JavaScript reads `form` and `key`, and writes the answer's bytes, for which
    // `make_room` has allocated memory.
    unsafe {
        let question = question as u32;
        let bytes = imported::ask_rules(question, form.as_ptr(), form.len(), key.as_ptr(), key.len());
        imported::take_answer(answer.make_room(bytes).as_mut_ptr());
    }
    #[cfg(not(target_arch = "wasm32"))]
    let _: (Question, &[u8], &[u8], &mut Message) = (question, form, key, &mut answer);
    answer
}

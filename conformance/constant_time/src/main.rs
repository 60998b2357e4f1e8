//! Client code with its secrets marked: valgrind's memcheck tells where one steers the program.
//!
//! Under every protocol, keys are made and values looked up by key and by position, present and absent. The servers' half
//! comes from standard input, where `constant-time-answers` writes it. The requested keys and all randomness are marked as
//! secret. Requests and values must still be marked when they get out, or the marks were lost on the way and the check
//! would be worth nothing. The last lines say why anything was declassified. `tests/system/test_constant_time.py` runs it.
#![allow(clippy::print_stdout, reason = "what was declassified is for the test to compare")]

mod planted;

use spirea_constant_time::transcript::Recorded;
use spirea_constant_time::{kinds, run};
use spirea_math::secret;

fn main() {
    assert!(spirea_memcheck::running(), "nothing is checked without valgrind");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--list"] => kinds().for_each(|kind| println!("{kind}")),
        ["--plant", fault] => planted::run(fault),
        [kind] => run(kind, &mut Recorded(std::io::stdin().lock())),
        _ => panic!("usage: constant-time --list | KIND | --plant branch|address|slice"),
    }
    secret::reasons().iter().for_each(|why| println!("declassified: {why}"));
}

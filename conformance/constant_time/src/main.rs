//! Runs client code with its secrets marked: valgrind's memcheck reports every branch and address
//! that depends on a secret.
//!
//! For every protocol, it makes keys and looks up values by key and by position, present and
//! absent. The servers' messages come from standard input, as written by `constant-time-answers`.
//! The requested keys and all randomness are marked as secret. Requests and values must still be
//! marked when they leave the client; otherwise marks were lost and the check would prove nothing.
//! The last lines list the reasons of all declassifications. `tests/system/test_constant_time.py`
//! runs the program.
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

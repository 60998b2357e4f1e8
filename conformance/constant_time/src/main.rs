//! Client code with its secrets marked: valgrind's memcheck tells where one steers the program.
//!
//! Under every protocol, keys are made and values looked up by key and by position, present and absent, from servers that
//! get what is sent marked as public. What is asked for, and all randomness, is marked as secret; what comes out must
//! still be, or the marks were lost on the way and the check would be worth nothing. The last lines say why anything was
//! declassified. `scripts/test_constant_time.py` runs it.
#![allow(clippy::print_stdout, reason = "what was declassified is for the script to compare")]

mod look_ups;
mod planted;
mod tables;

use spirea_math::secret;
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::registry::NAMES;

/// Protocols with queries that bring their keys.
const PER_QUERY: [&str; 2] = ["exppack-simple-per-query", "exppack-double-per-query"];

fn main() {
    assert!(spirea_memcheck::running(), "nothing is checked without valgrind");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--list"] => {
            NAMES.iter().chain(&["bins"]).chain(&PER_QUERY).for_each(|what| println!("{what}"));
        }
        ["--plant", fault] => planted::run(fault),
        ["bins"] => look_ups::from_bins(),
        [protocol] if NAMES.contains(&protocol) => look_ups::of(protocol, KeyDelivery::Registered),
        [what] if PER_QUERY.contains(&what) => {
            look_ups::of(what.trim_end_matches("-per-query"), KeyDelivery::PerQuery);
        }
        _ => panic!(
            "usage: constant-time --list | PROTOCOL | PROTOCOL-per-query | bins | --plant branch|address|slice"
        ),
    }
    secret::reasons().iter().for_each(|why| println!("declassified: {why}"));
}

//! The steps on rings on emulated devices against the processor's and those by definition.
#![allow(missing_docs, reason = "a test")]

mod case;
mod ends;
mod expansions;
mod launches;
mod rotations;
mod second_halves;
mod shapes;
mod tournaments;
mod transforms;

//! The ring steps on emulated devices, compared with the CPU's and with the definition.
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

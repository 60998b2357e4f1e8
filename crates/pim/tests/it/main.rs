//! All tests but those of units: one program, so that the crate is linked once.

mod backend;
mod common;
mod emulation;
mod model;
mod papers;
mod source;
mod vendor;

//! All integration tests in one program, so that the crate is linked once.

mod backend;
mod common;
mod emulation;
mod model;
mod source;
mod vendor;

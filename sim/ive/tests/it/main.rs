//! All integration tests in one program, so that the crate is linked once.

mod cli;
mod functional;
mod papers;
mod program;
mod protocol;
mod reproduce;

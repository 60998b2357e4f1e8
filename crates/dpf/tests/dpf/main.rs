//! Functions and keys. One program: each would compile the functions, which are generic, anew.
#![allow(missing_docs, reason = "a test")]

mod common;
mod keys;
mod kinds;
mod malformed;
mod secrecy;
mod vectors;

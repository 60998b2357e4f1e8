//! Functions and keys. All tests are one program, since each program compiles the generic functions
//! anew.
#![allow(missing_docs, reason = "a test")]

mod common;
mod keys;
mod kinds;
mod malformed;
mod secrecy;
mod vectors;

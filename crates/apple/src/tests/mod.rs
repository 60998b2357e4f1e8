//! Tests of whole look-ups: recorded ones of Apple's, and those of a client for tests.

mod client;
mod round_trips;
mod vectors;

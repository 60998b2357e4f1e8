//! Tests of whole look-ups: recorded look-ups of Apple's client and server, and look-ups of a
//! client for tests.

mod client;
mod round_trips;
mod vectors;

//! The service under kills, floods, malformed requests, dead replicas, damaged and full disks, and
//! clock jumps.
//!
//! docs/reliability.md states the requirements. `cargo test` runs a short form;
//! SPIREA_TORTURE=long, with which `make torture` runs the same tests, a long one.
//! SPIREA_TORTURE_SEED repeats a run's choices.

#![expect(clippy::print_stdout, reason = "the figures are what a run is for")]

mod attacks;
mod clients;
mod clock;
mod damage;
mod edition;
mod faults;
mod full;
mod kills;
mod logs;
mod malformed;
mod mutate;
mod reads;
mod replica;
mod scale;
mod service;
mod slow;
mod sources;
mod stream;
mod table;

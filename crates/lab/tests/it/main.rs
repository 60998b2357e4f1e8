//! The `spirea-lab` command: benchmarks, loads on servers, and their drawings.

mod bench;
mod chain;
mod command;
mod gpu;
mod load;
mod predict;
mod simulation;

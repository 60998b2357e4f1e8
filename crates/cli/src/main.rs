//! The `spirea` command: plan, build, inspect, serve, get, bench, gpu, load, simulate-load.

mod bench;
mod build;
mod canvas;
mod chart;
mod get;
mod gpu;
mod inspect;
mod latencies;
mod load;
mod output;
mod plan;
mod progress;
mod serve;
mod simulate_load;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Private information retrieval: serve a table, look records up, and the server does not learn which.
#[derive(Parser)]
#[command(name = "spirea", version, max_term_width = 110)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Build a snapshot from a table.
    Build(build::Options),
    /// Compare the protocols for a table, on this machine.
    Plan(plan::Options),
    /// Explain a snapshot: shapes, sizes, anonymity set, failure bound.
    Inspect(inspect::Options),
    /// Serve snapshots over HTTP.
    Serve(serve::Options),
    /// Look records up privately.
    Get(get::Options),
    /// Measure, beside the limits of this machine.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Check a GPU, and measure it.
    #[command(subcommand)]
    Gpu(gpu::Gpu),
    /// Ask a server at a set rate, as many clients would, and check every answer.
    Load(load::Options),
    /// Simulate latency against load, by the server's own scheduler.
    SimulateLoad(simulate_load::Options),
}

fn main() -> ExitCode {
    let result = match Command::parse().action {
        Action::Build(options) => build::run(&options),
        Action::Plan(options) => plan::run(&options),
        Action::Inspect(options) => inspect::run(&options),
        Action::Serve(options) => serve::run(options),
        Action::Get(options) => get::run(&options),
        Action::Bench(bench) => bench::run(bench).map(|()| ExitCode::SUCCESS),
        Action::Gpu(gpu) => gpu::run(&gpu),
        Action::Load(options) => load::run(&options),
        Action::SimulateLoad(options) => simulate_load::run(&options),
    };
    result.unwrap_or_else(|error| {
        output::print_error(&format!("spirea: {error:#}"));
        ExitCode::from(2)
    })
}

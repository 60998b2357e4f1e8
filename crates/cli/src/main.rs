//! The `spirea` command: plan, build, inspect, serve, token, get, doctor, bench, gpu.

mod access;
mod bench;
mod build;
mod doctor;
mod get;
mod gpu;
mod inspect;
mod output;
mod plan;
mod progress;
mod serve;
mod token;

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
    Serve(Box<serve::Options>),
    /// Make tokens, by which a server knows who may ask.
    #[command(subcommand)]
    Token(token::Token),
    /// Look records up privately.
    Get(get::Options),
    /// Examine the way from here to an answer, and say what is wrong.
    Doctor(doctor::Options),
    /// Measure, beside the limits of this machine.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Check a GPU, and measure it.
    #[command(subcommand)]
    Gpu(gpu::Gpu),
}

fn main() -> ExitCode {
    let result = match Command::parse().action {
        Action::Build(options) => build::run(&options),
        Action::Plan(options) => plan::run(&options),
        Action::Inspect(options) => inspect::run(&options),
        Action::Serve(options) => serve::run(*options),
        Action::Token(token) => token::run(&token),
        Action::Get(options) => get::run(&options),
        Action::Doctor(options) => doctor::run(&options),
        Action::Bench(bench) => bench::run(bench).map(|()| ExitCode::SUCCESS),
        Action::Gpu(gpu) => gpu::run(&gpu),
    };
    result.unwrap_or_else(|error| {
        output::print_error(&format!("spirea: {error:#}"));
        ExitCode::from(2)
    })
}

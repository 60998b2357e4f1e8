//! The `spirea-lab` command: benchmarks of kernels, steps, protocols and GPUs compared with the
//! limits of the machine, loads on servers, and drawings of the results.

mod bench;
mod chain;
mod gpu;
mod help;
mod latencies;
mod load;
mod simulate_load;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use spirea_console::output::{explained, print_error};
use spirea_console::status::Status;

/// Measurements of Spirea: kernels, steps, protocols, GPUs and servers, compared with their limits.
#[derive(Parser)]
#[command(name = "spirea-lab", version, max_term_width = 110)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Measure kernels, steps and protocols, and compare them with the limits of this machine.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Change a table with every block of a chain while clients ask for the newest accounts, and
    /// check every answer.
    Chain(chain::Options),
    /// Measure a GPU, or predict its figures.
    #[command(subcommand)]
    Gpu(gpu::Gpu),
    /// Send look-ups of many clients to a server at a set rate, and check every answer.
    Load(Box<load::Options>),
    /// Simulate latency against load, by the server's own scheduler.
    SimulateLoad(simulate_load::Options),
}

/// Returns the command with its help texts.
fn command() -> clap::Command {
    help::TEXTS.add_to(Command::command())
}

fn main() -> ExitCode {
    let given = Command::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    let result = match given.action {
        Action::Bench(bench) => bench::run(bench).map(|()| Status::SUCCESS),
        Action::Chain(options) => chain::run(&options),
        Action::Gpu(gpu) => gpu::run(&gpu),
        Action::Load(options) => load::run(&options),
        Action::SimulateLoad(options) => simulate_load::run(&options),
    };
    let status = result.unwrap_or_else(|error| {
        print_error(&format!("spirea-lab: {}", explained(&error)));
        Status::ERROR
    });
    status.code().into()
}

//! The `spirea` command: plan, build, sign, inspect, publish, serve, get, doctor, gpu and more.
//!
//! The program calls [`run`], and so do programs that embed the command, such as the Python
//! package. These can also parse options as the command does ([`build_options`], [`server_config`],
//! [`plan_lines`]).

mod about;
mod apple;
mod build;
mod cluster;
mod doctor;
mod forms;
mod get;
mod gpu;
mod help;
mod inspect;
mod key;
mod leaks;
mod library;
mod manual;
mod moved;
mod plan;
mod private_file;
mod progress;
mod protocol;
mod publish;
mod rates;
mod remote;
mod self_signed;
mod serve;
mod stream;
mod token;

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use spirea_console::output;

pub use library::{build_options, plan_lines, server_config};
pub use spirea_console::output::explained;
pub use spirea_console::status::Status;
pub use spirea_console::threads::Threads;

/// Private information retrieval: serve a table, look records up, and the server does not learn
/// which.
#[derive(Parser)]
#[command(name = "spirea", version, max_term_width = 110)]
struct Command {
    /// Print only results and errors: no progress, and no description of what was built.
    #[arg(long, short, global = true)]
    quiet: bool,
    /// With --version: print the commit, features and kernels, too.
    #[arg(long, requires = "version")]
    verbose: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Build a snapshot from a table.
    Build(build::Options),
    /// Compare the protocols for a table, on this machine.
    Plan(plan::Command),
    /// Explain a snapshot: shapes, sizes, anonymity set, failure bound, and what a look-up tells
    /// whom.
    Inspect(inspect::Options),
    /// Publish a table, or changes of it, as a new version of a repository.
    Publish(publish::Publish),
    /// Go back to an earlier version of a repository.
    Rollback(publish::Rollback),
    /// Merge a repository's base and its changes into a new base.
    Compact(publish::Compact),
    /// Make a key that signs versions.
    #[command(subcommand)]
    Key(key::Key),
    /// Sign a snapshot.
    Sign(key::Sign),
    /// Serve snapshots over HTTP.
    Serve(Box<serve::Options>),
    /// Serve a share of a database that is larger than one machine, for a coordinator.
    Worker(Box<cluster::WorkerOptions>),
    /// List the bytes of a snapshot's files that the worker of a share reads.
    WorkerFiles(cluster::FilesOptions),
    /// Serve databases whose shares lie on workers.
    Coordinator(Box<cluster::CoordinatorOptions>),
    /// Serve databases larger than one machine, on Ray: with the Python package and its extra
    /// `cluster`.
    #[command(disable_help_flag = true)]
    Cluster(cluster::Elsewhere),
    /// Make tokens, by which a server knows who may ask.
    #[command(subcommand)]
    Token(token::Token),
    /// Look records up privately.
    Get(get::Options),
    /// Examine the path from this machine to an answer, and report faults.
    Doctor(doctor::Options),
    /// Check a GPU.
    #[command(subcommand)]
    Gpu(gpu::Gpu),
    /// Print the completions of a shell: bash, elvish, fish, powershell, zsh.
    Completions(manual::Completions),
    /// Write man pages, one for each command.
    Man(manual::Man),
}

/// Returns the command with its help texts.
fn command() -> clap::Command {
    help::TEXTS.add_to(Command::command())
}

/// Runs the command. The first of the arguments is the command's own name.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Status {
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    if arguments.len() <= 1 {
        help::FIRST_STEPS.lines().for_each(output::print_error);
        return Status::ERROR;
    }
    if about::is_asked(&arguments[1..]) {
        let facts = about::program().into_iter().try_for_each(|fact| output::print_line(&about::line(&fact)));
        return facts.map_or(Status::ERROR, |()| Status::SUCCESS);
    }
    let parsed = command().try_get_matches_from(&arguments);
    let given = match parsed.and_then(|matches| Command::from_arg_matches(&matches)) {
        Ok(command) => command,
        Err(error) => {
            if let Some(remedy) = moved::remedy(&arguments, &error) {
                output::print_error(&format!("spirea: {remedy}"));
                return Status::ERROR;
            }
            // An error in printing cannot be reported anywhere.
            let _ = error.print();
            return Status::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX));
        }
    };
    if given.quiet {
        output::be_quiet();
    }
    let result = match given.action {
        Action::Build(options) => build::run(&options),
        Action::Plan(options) => plan::run(&options),
        Action::Inspect(options) => inspect::run(&options),
        Action::Publish(options) => publish::publish(&options),
        Action::Rollback(options) => publish::rollback(&options),
        Action::Compact(options) => publish::compact(&options),
        Action::Key(options) => key::run(&options),
        Action::Sign(options) => key::sign(&options),
        Action::Serve(options) => serve::run(*options),
        Action::Worker(options) => cluster::worker(*options),
        Action::WorkerFiles(options) => cluster::worker_files(&options),
        Action::Coordinator(options) => cluster::coordinator(*options),
        Action::Cluster(options) => options.run(),
        Action::Token(token) => token::run(&token),
        Action::Get(options) => get::run(&options),
        Action::Doctor(options) => doctor::run(&options),
        Action::Gpu(gpu) => gpu::run(&gpu),
        Action::Completions(options) => manual::completions(&options, command()),
        Action::Man(options) => manual::man(&options, command()),
    };
    result.unwrap_or_else(|error| {
        output::print_error(&format!("spirea: {}", explained(&error)));
        Status::ERROR
    })
}

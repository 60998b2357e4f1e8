//! The `spirea` command: see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    spirea_cli::run(std::env::args_os()).code().into()
}

//! `spirea completions` and `spirea man`: the command's options for shells and for `man`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;
use spirea_console::output::{print_bytes, print_line};
use spirea_console::status::Status;

/// Options of `spirea completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Options of `spirea man`.
#[derive(Args)]
pub struct Man {
    /// Folder for the pages, such as /usr/local/share/man/man1; it is created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "man1")]
    out: PathBuf,
}

/// Prints the completions.
pub fn completions(options: &Completions, mut command: Command) -> anyhow::Result<Status> {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(options.shell, &mut command, name, &mut script);
    print_bytes(&script)?;
    Ok(Status::SUCCESS)
}

/// Writes the man pages and prints where they are.
pub fn man(options: &Man, command: Command) -> anyhow::Result<Status> {
    let folder = &options.out;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .with_context(|| format!("{}: the pages cannot be written", folder.display()))?;
    print_line(&format!(
        "man pages in {}: read one with man {}/spirea.1",
        folder.display(),
        folder.display()
    ))?;
    Ok(Status::SUCCESS)
}

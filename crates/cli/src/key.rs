//! `spirea key` and `spirea sign`: the operator's key.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use spirea_console::output::print_line;
use spirea_console::status::Status;
use spirea_store::Snapshot;
use spirea_store::signing::{new_key, read_key, sign as sign_snapshot};

/// Commands of `spirea key`.
#[derive(Subcommand)]
pub enum Key {
    /// Make a key that signs versions, in a new file that its owner alone can read; print the
    /// public key, for clients.
    New {
        /// The file.
        file: PathBuf,
    },
    /// Print the public key that belongs to a private one.
    Public {
        /// The file of the private key.
        file: PathBuf,
    },
}

/// Makes a key, or reads the private key; prints the public key.
pub fn run(key: &Key) -> anyhow::Result<Status> {
    let key = match key {
        Key::New { file } => new_key(file)?,
        Key::Public { file } => read_key(file)?,
    };
    print_line(&key.public().to_string())?;
    Ok(Status::SUCCESS)
}

/// Options of `spirea sign`.
#[derive(Args)]
pub struct Sign {
    /// The snapshot's folder.
    snapshot: PathBuf,
    /// The file of the private key.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// Signs a snapshot.
pub fn sign(options: &Sign) -> anyhow::Result<Status> {
    let snapshot = Snapshot::open(&options.snapshot)?;
    let signature = sign_snapshot(&snapshot, &read_key(&options.key)?)?;
    let (version, name) = (snapshot.version().to_string(), &snapshot.manifest().name);
    print_line(&format!("signed version {version} of {name}, number {}", signature.sequence))?;
    Ok(Status::SUCCESS)
}

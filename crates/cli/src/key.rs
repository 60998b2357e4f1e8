//! `spirea key` and `spirea sign`: the operator's keys.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use spirea_apple::ohttp::GatewayKey;
use spirea_console::output::print_line;
use spirea_console::status::Status;
use spirea_store::Snapshot;
use spirea_store::signing::{new_key, read_key, sign as sign_snapshot};

use crate::private_file::write_new;

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
    /// Make a key of the OHTTP gateway for Apple's clients, in a new file that its owner alone can
    /// read; print its key configuration in Base64.
    Gateway {
        /// The file.
        file: PathBuf,
    },
}

/// Makes a key, or reads the private key; prints what is public.
pub fn run(key: &Key) -> anyhow::Result<Status> {
    let public = match key {
        Key::New { file } => new_key(file)?.public().to_string(),
        Key::Public { file } => read_key(file)?.public().to_string(),
        Key::Gateway { file } => gateway(file)?,
    };
    print_line(&public)?;
    Ok(Status::SUCCESS)
}

/// Makes a gateway's key; returns its key configuration.
fn gateway(path: &Path) -> anyhow::Result<String> {
    let key = GatewayKey::generate()?;
    write_new(path, &key.to_pem())?;
    Ok(STANDARD.encode(key.config()))
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

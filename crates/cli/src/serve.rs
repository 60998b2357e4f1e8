//! `spirea serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use spirea_backend::Residence;
use spirea_server::{Amount, BackendChoice, KeyOptions, LogFormat, Party, ServerConfig, init_logs, serve};

use crate::output::{parse_bytes, print_line, threads};

/// What to serve.
#[derive(Args)]
pub struct Options {
    /// Folders of snapshots.
    #[arg(required = true)]
    snapshots: Vec<PathBuf>,
    /// Address to listen on; port 0 takes a free one, which the first line of output names.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// What answers: auto (GPUs where a database fits them, the processor elsewhere and where a GPU fails), cpu, cuda
    /// (all GPUs, or an error), cuda:0,1 (these), cuda:0,1:STRATEGY with replicate, exchange, aggregate or gather.
    #[arg(long, default_value = "auto")]
    backend: BackendChoice,
    /// Threads that answer; 0 for all.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// How tables are held: copied into huge pages of memory, or mapped from their files.
    #[arg(long, value_enum, default_value_t = Memory::Copied)]
    memory: Memory,
    /// Which of two servers this is, 0 or 1, for databases of a protocol with two. Whoever runs both, or sees what
    /// both are asked, can tell what is looked up: the two must not be run by parties that work together.
    #[arg(long, value_name = "0|1")]
    party: Option<Party>,
    /// Requests that may wait while one is answered; more are refused with status 429.
    #[arg(long, default_value_t = 64)]
    queue: usize,
    /// Folder for clients' evaluation keys, so that they survive a restart; they hold no secret.
    #[arg(long, value_name = "DIR")]
    keys_dir: Option<PathBuf>,
    /// Memory for evaluation keys; the least recently used leave first.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    keys_memory: u64,
    /// The most that the folder for evaluation keys takes.
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = parse_bytes, requires = "keys_dir")]
    keys_disk: u64,
    /// Form of the log on standard error.
    #[arg(long, value_enum, default_value_t = Log::Text)]
    log: Log,
}

#[derive(Clone, Copy, ValueEnum)]
enum Memory {
    Copied,
    Mapped,
}

#[derive(Clone, Copy, ValueEnum)]
enum Log {
    Text,
    Json,
}

/// Serves until it is asked to stop.
pub fn run(options: Options) -> anyhow::Result<ExitCode> {
    let format = match options.log {
        Log::Text => LogFormat::Text,
        Log::Json => LogFormat::Json,
    };
    init_logs(format, tracing::Level::INFO)
        .map_err(|error| anyhow::anyhow!("logging could not be set up: {error}"))?;
    let defaults = ServerConfig::default();
    let config = ServerConfig {
        listen: options.listen,
        snapshots: options.snapshots,
        backend: options.backend,
        threads: threads(options.threads),
        residence: match options.memory {
            Memory::Copied => Residence::Copied,
            Memory::Mapped => Residence::Mapped,
        },
        party: options.party,
        queue: options.queue.max(1),
        keys: KeyOptions {
            memory_bytes: options.keys_memory,
            folder: options.keys_dir,
            disk: Amount { bytes: options.keys_disk, ..defaults.keys.disk },
        },
        limits: defaults.limits,
    };
    let mut announced = Ok(());
    serve(config, |address| announced = print_line(&format!("listening on http://{address}")))?;
    announced.map(|()| ExitCode::SUCCESS)
}

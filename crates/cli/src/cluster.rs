//! `spirea worker`, `spirea worker-files` and `spirea coordinator`: databases larger than one
//! machine.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use serde_json::json;
use spirea_backend::{Residence, Share};
use spirea_cluster::{Coordinator, CoordinatorConfig, MutualFiles, ShareFiles, Worker, WorkerConfig};
use spirea_console::output::{parse_bytes, print_line};
use spirea_console::status::Status;
use spirea_console::threads::Threads;
use spirea_engine::KeyOptions;
use spirea_protocols::Version;
use spirea_server::settings::{Configured, parse_time};
use spirea_server::{
    BackendChoice, Collector, Limits, LogConfig, Party, Reloader, TlsFiles, heed_signals, init_logs,
};
use spirea_store::Snapshot;
use spirea_store::manifest::MANIFEST_FILE;
use tokio::runtime;

use crate::serve;

/// A share of a database: its index from 0 and the number of shares, such as 0/4.
#[derive(Clone, Copy, Debug)]
struct ShareName(Share);

impl FromStr for ShareName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || "a share is its number, from 0 on, of how many there are, such as 0/4".to_owned();
        let (index, count) = text.split_once('/').ok_or_else(wanted)?;
        let number = |text: &str| text.parse().map_err(|_| wanted());
        Share::new(number(index)?, number(count)?).map(Self).map_err(|error| error.to_string())
    }
}

/// A host and a port to listen on.
#[derive(Clone, Debug)]
struct Place {
    host: String,
    address: SocketAddr,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, _) =
            text.rsplit_once(':').ok_or("an address is a host and a port, such as 10.0.0.7:7000")?;
        let mut addresses = text.to_socket_addrs().map_err(|error| format!("{text}: {error}"))?;
        let address = addresses.next().ok_or_else(|| format!("{text}: this host has no address"))?;
        Ok(Self { host: host.into(), address })
    }
}

fn version(text: &str) -> Result<Version, String> {
    Version::from_hex(text)
        .ok_or_else(|| "a version is 64 hexadecimal digits, as spirea inspect prints it".into())
}

fn time(text: &str) -> Result<Duration, String> {
    parse_time(text)
}

/// Options of `spirea worker`.
#[derive(Args)]
pub struct WorkerOptions {
    /// Folder of the snapshot; only the bytes that `spirea worker-files` lists must be present.
    #[arg(long, value_name = "DIR")]
    snapshot: PathBuf,
    /// Version that the snapshot must have, in 64 hexadecimal digits: the worker refuses any other.
    /// [default: any]
    #[arg(long, value_name = "HEX", value_parser = version)]
    snapshot_version: Option<Version>,
    /// Share to serve: its number from 0 on, and the number of shares, such as 0/4.
    #[arg(long, value_name = "I/N")]
    share: ShareName,
    /// Address at which the coordinator reaches the worker: a host name or an IP address that the
    /// certificate contains; port 0 takes a free port.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Place,
    /// Certificate by which the coordinator authenticates the worker, as PEM, with those of its
    /// issuers.
    #[arg(long, value_name = "FILE", alias = "tls-certificate")]
    tls_cert: PathBuf,
    /// The certificate's private key, as PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: PathBuf,
    /// Certificate of the authority that signs coordinators' certificates, as PEM. The worker
    /// answers every holder of such a certificate, so the authority must sign no others.
    #[arg(long, value_name = "FILE")]
    client_ca: PathBuf,
    /// Backend: cpu, auto (GPUs if the share fits them), cuda (all GPUs, or an error), cuda:0,1
    /// (these) and so on. If a GPU fails, the worker ends.
    #[arg(long, default_value = "cpu")]
    backend: BackendChoice,
    /// Threads that compute on the processor; 0 for all. [default: 0]
    #[arg(long)]
    threads: Option<Threads>,
    /// Storage of the share: copied into huge pages of memory, or mapped from its file. [default:
    /// copied]
    #[arg(long, value_enum)]
    memory: Option<serve::Memory>,
    /// Party of this server, 0 or 1, for protocols with two servers.
    #[arg(long, value_name = "0|1")]
    party: Option<Party>,
    /// Batches that may wait while another batch is computed; for further batches the coordinator
    /// asks another replica.
    #[arg(long, default_value_t = 8)]
    queue: usize,
    /// Memory for received batches and keys, for computing and for partials; a request that needs
    /// more than is left is refused, and the coordinator asks another replica. [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    request_memory: Option<u64>,
    /// Memory for clients' evaluation keys, where a share needs them; the least recently used leave
    /// first. [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    keys_memory: Option<u64>,
    /// Address of metrics and probes, without TLS; none by default.
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<Place>,
    /// Host name under which metrics may be requested, besides IP addresses, localhost and the host
    /// of --metrics; may be repeated.
    #[arg(long, value_name = "NAME")]
    metrics_name: Vec<String>,
    /// Collector that takes traces by OTLP, such as http://127.0.0.1:4318; none by default.
    #[arg(long, value_name = "URL")]
    otlp: Option<Collector>,
    /// Time between the stop signal and the closing of the endpoints, so that the coordinator
    /// notices the stop first.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    drain_delay: Duration,
}

/// Serves a share until it is asked to stop.
pub fn worker(options: WorkerOptions) -> anyhow::Result<Status> {
    let _logs =
        init_logs(LogConfig::default()).map_err(|error| anyhow!("logging could not be set up: {error}"))?;
    let host = options.listen.host.clone();
    let own = TlsFiles { certificate: options.tls_cert, key: options.tls_key };
    let (defaults, limits) = (KeyOptions::default(), Limits::default());
    let memory_bytes = options.keys_memory.unwrap_or(defaults.memory_bytes);
    let config = WorkerConfig {
        snapshot: options.snapshot,
        version: options.snapshot_version,
        share: options.share.0,
        party: options.party,
        listen: options.listen.address,
        tls: MutualFiles { own, authority: options.client_ca },
        metrics_names: options
            .metrics
            .iter()
            .map(|place| place.host.clone())
            .chain(options.metrics_name)
            .collect(),
        metrics: options.metrics.map(|place| place.address),
        backend: options.backend,
        threads: options.threads.map_or(0, Threads::count),
        residence: options.memory.map_or_else(Residence::default, Residence::from),
        queue: options.queue,
        limits: Limits { body_memory: options.request_memory.unwrap_or(limits.body_memory), ..limits },
        keys: KeyOptions { memory_bytes, ..defaults },
        traces: options.otlp,
        drain_delay: options.drain_delay,
    };
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.context("the system refused threads")?.block_on(async {
        let worker = Worker::open(config).await?;
        heed_signals(worker.stopper(), Reloader::default()).context("the system refused signals")?;
        let status = worker.status();
        print_line(
            &json!({
                "ready": true,
                "address": format!("https://{host}:{}", worker.address().port()),
                "metrics": worker.metrics_address().map(|address| format!("http://{address}/metrics")),
                "database": status.database,
                "database_version": status.version,
                "share": status.share,
                "shares": status.shares,
                "bytes": status.bytes,
                "backend": worker.backend(),
            })
            .to_string(),
        )?;
        worker.run().await;
        Ok(Status::SUCCESS)
    })
}

/// Options of `spirea worker-files`.
#[derive(Args)]
pub struct FilesOptions {
    /// Folder of the snapshot; only manifest.json must be present.
    #[arg(long, value_name = "DIR")]
    snapshot: PathBuf,
    /// Share: its number from 0 on, and the number of shares, such as 0/4.
    #[arg(long, value_name = "I/N")]
    share: ShareName,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the byte ranges of files that the server of a share reads.
pub fn worker_files(options: &FilesOptions) -> anyhow::Result<Status> {
    let snapshot = Snapshot::open(&options.snapshot)?;
    let manifest = snapshot.folder().join(MANIFEST_FILE);
    let bytes = std::fs::metadata(&manifest).with_context(|| manifest.display().to_string())?.len();
    let files = ShareFiles::of(snapshot.manifest(), bytes, options.share.0);
    if options.json {
        print_line(&serde_json::to_string(&files)?)?;
        return Ok(Status::SUCCESS);
    }
    for part in &files.files {
        let optional = if part.optional { ", if it is there" } else { "" };
        let of = part.ranges.iter().map(|[start, end]| end - start).sum::<u64>();
        print_line(&format!("{}\t{of} of {} bytes{optional}", part.path, part.size))?;
        part.ranges.iter().try_for_each(|[start, end]| print_line(&format!("\t{start}..{end}")))?;
    }
    Ok(Status::SUCCESS)
}

/// Options of `spirea coordinator`: those of `spirea serve` and the ones below. The snapshots are
/// those of the placement.
#[derive(Args)]
pub struct CoordinatorOptions {
    #[command(flatten)]
    serve: serve::Options,
    /// File of the placement, as JSON: which workers serve which share of which snapshot. It is
    /// read again when it changes.
    #[arg(long, value_name = "FILE")]
    placement: PathBuf,
    /// Certificate of the authority that signs workers' certificates, as PEM.
    #[arg(long, value_name = "FILE")]
    worker_ca: PathBuf,
    /// Certificate by which workers authenticate the coordinator, as PEM, with those of its
    /// issuers.
    #[arg(long, value_name = "FILE")]
    tls_client_cert: PathBuf,
    /// Private key of the certificate, as PEM.
    #[arg(long, value_name = "FILE")]
    tls_client_key: PathBuf,
    /// Time that an accepted query waits for lost workers.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    patience: Duration,
    /// Time that workers which are not lost may take for a query's batch.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m")]
    batch_timeout: Duration,
}

/// Serves databases whose rows lie on workers, until it is asked to stop.
pub fn coordinator(options: CoordinatorOptions) -> anyhow::Result<Status> {
    let CoordinatorOptions {
        serve,
        placement,
        worker_ca,
        tls_client_cert,
        tls_client_key,
        patience,
        batch_timeout,
    } = options;
    let configured = serve.configure()?;
    if !configured.config.snapshots.is_empty() {
        bail!(
            "the snapshots of a coordinator are those of its placement; leave out {:?}",
            configured.config.snapshots
        );
    }
    configured.check_settings()?;
    let warnings = configured.warnings();
    let Configured { config: server, .. } = configured;
    let _logs = init_logs(server.log).map_err(|error| anyhow!("logging could not be set up: {error}"))?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let own = TlsFiles { certificate: tls_client_cert, key: tls_client_key };
    let tls = MutualFiles { own, authority: worker_ca };
    let config = CoordinatorConfig { server, placement, tls, patience, batch_timeout };
    let runtime = runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("the system refused threads")?.block_on(async {
        let coordinator = Coordinator::bind(config).await?;
        coordinator.heed_signals()?;
        serve::announce(coordinator.addresses(), None)?;
        coordinator.run().await?;
        Ok(Status::SUCCESS)
    })
}

/// Placeholder for `spirea cluster`, a command of the Python package, which takes `cluster` from
/// the command line before this program sees it.
#[derive(Args)]
pub struct Elsewhere {
    /// Arguments of the command.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<String>,
}

impl Elsewhere {
    /// Fails with an error that says where to find the command.
    pub fn run(&self) -> anyhow::Result<Status> {
        let asked = self.arguments.first().map_or("", String::as_str);
        bail!(
            "cluster {asked} is a command of the Python package: pip install 'spirea[cluster]' (docs/scale-out.md)"
        )
    }
}

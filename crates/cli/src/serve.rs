//! `spirea serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use spirea_backend::Residence;
use spirea_console::address;
use spirea_console::output::{parse_bytes, print_line};
use spirea_console::status::Status;
use spirea_console::threads::Threads;
use spirea_protocols::signature::PublicKey;
use spirea_server::settings::{Configured, parse_address, parse_time};
use spirea_server::{
    Addresses, BackendChoice, Follow, LogFormat, Party, ServerConfig, TlsFiles, init_logs, serve,
};

use crate::self_signed::self_signed;

/// Options of `spirea serve`. Omitted options come from the environment (SPIREA_LISTEN,
/// SPIREA_LIMITS__BODY_MEMORY, ...), else from the file of --config, else from the defaults.
#[derive(Args)]
pub struct Options {
    /// Folders of snapshots, and of repositories.
    snapshots: Vec<PathBuf>,
    /// Adopt a snapshot that `spirea build --overwrite` or a copy puts in the place of a served
    /// snapshot, once its files are complete. Without this option, SIGHUP makes the server read the
    /// folders again, as it does certificates and tokens. So does POST /v1/admin/reload on
    /// --admin-listen, whose response tells a job whether the new snapshot answers. A table that
    /// changes often is better published in a repository: see `spirea publish`.
    #[arg(long)]
    watch: bool,
    /// File of settings, as TOML.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the settings and the files that they name, and do not serve.
    #[arg(long)]
    check_config: bool,
    /// File of the private key that signs what is published through the server: see `spirea key
    /// new`.
    #[arg(help_heading = "Access", long, value_name = "FILE")]
    signing_key: Option<PathBuf>,
    /// Address of another server's port for administration, or of a folder in a bucket
    /// (s3://BUCKET/FOLDER or gs://BUCKET/FOLDER) with a repository for each database. The served
    /// folders, which must be repositories or empty, become copies of these databases, and accept
    /// no publications. An empty folder must have the name of its database. The settings follow.*
    /// offer more options.
    #[arg(help_heading = "Following", long, value_name = "URL", value_parser = address::server)]
    follow: Option<String>,
    /// File whose first line is a token of that server, with the scope follow.
    #[arg(help_heading = "Following", long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File of certificates, as PEM, by which that server's certificate is verified; by default the
    /// public certificates of the web.
    #[arg(help_heading = "Following", long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Public key that must have signed every version; without it, unsigned versions are copied
    /// too.
    #[arg(help_heading = "Following", long, value_name = "KEY")]
    pin_key: Option<PublicKey>,
    /// Maximum size of a repository's files while a version is copied, such as 30GiB. Copying needs
    /// three times the table's size, and the size of its deltas. By default the limit is the free
    /// space of the disk.
    #[arg(help_heading = "Following", long, value_name = "SIZE", value_parser = parse_bytes)]
    follow_disk: Option<u64>,
    /// Longest time that a version waits, after it was published here, until all servers that
    /// follow this one have it, such as 30s. It does not wait by default.
    #[arg(help_heading = "Following", long, value_name = "TIME", value_parser = parse_time)]
    activate_after: Option<Duration>,
    /// Address to listen on; port 0 takes a free one, which the first line of output names.
    /// [default: 127.0.0.1:8080]
    #[arg(help_heading = "Addresses", long, value_name = "ADDRESS", value_parser = parse_address)]
    listen: Option<SocketAddr>,
    /// Address for publishing and administration; none by default.
    #[arg(help_heading = "Addresses", long, value_name = "ADDRESS", alias = "admin", value_parser = parse_address)]
    admin_listen: Option<SocketAddr>,
    /// Encrypt connections with a certificate for this machine that is made in the folder
    /// spirea-tls and kept there; a line of output says how clients trust it. For other names,
    /// provide a certificate: see --tls-certificate.
    #[arg(help_heading = "Addresses", long, value_enum, conflicts_with = "tls_certificate")]
    tls: Option<Tls>,
    /// Certificate for encrypted connections, as PEM, with those of its issuers.
    #[arg(help_heading = "Addresses", long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The certificate's private key, as PEM.
    #[arg(help_heading = "Addresses", long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// File of the tokens that may ask: see `spirea token new`.
    #[arg(help_heading = "Access", long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Listen on addresses that other machines can reach even if there are no tokens.
    #[arg(help_heading = "Access", long)]
    insecure_no_auth: bool,
    /// Backend: auto (GPUs where a database fits them, the processor elsewhere and where a GPU
    /// fails), cpu, cuda (all GPUs, or an error), cuda:0,1 (these), cuda:0,1:STRATEGY with
    /// replicate, exchange, aggregate or gather; pim, pim:DPUS or pim:DPUS:CLUSTERS (dpf-xor by
    /// processing in memory, the rest by the processor), and pim-emulated with the same, where the
    /// processor stands for the DPUs.
    /// [default: auto]
    #[arg(help_heading = "Computation", long)]
    backend: Option<BackendChoice>,
    /// Threads that answer; 0 for all. [default: 0]
    #[arg(help_heading = "Computation", long)]
    threads: Option<Threads>,
    /// Storage of tables: copied into huge pages of memory, or mapped from their files. [default:
    /// copied]
    #[arg(help_heading = "Computation", long, value_enum)]
    memory: Option<Memory>,
    /// Party of this server, 0 or 1, for protocols with two servers. A party that runs both
    /// servers, or sees the queries to both, can tell what is looked up. So the two must not be run
    /// by parties that collude.
    #[arg(help_heading = "Computation", long, value_name = "0|1")]
    party: Option<Party>,
    /// Requests that may wait while one is answered; more are refused with status 429. [default:
    /// 256]
    #[arg(help_heading = "Computation", long)]
    queue: Option<usize>,
    /// Folder for clients' evaluation keys, so that they survive a restart; they hold no secret.
    #[arg(help_heading = "Evaluation keys", long, value_name = "DIR")]
    keys_dir: Option<PathBuf>,
    /// Memory for evaluation keys; the least recently used leave first. [default: 1GiB]
    #[arg(help_heading = "Evaluation keys", long, value_name = "SIZE", value_parser = parse_bytes)]
    keys_memory: Option<u64>,
    /// Maximum size of the folder for evaluation keys. [default: 16GiB]
    #[arg(help_heading = "Evaluation keys", long, value_name = "SIZE", value_parser = parse_bytes)]
    keys_disk: Option<u64>,
    /// Serve the demo page too: look-ups in a browser. Without a value, the page is in
    /// share/spirea/web beside the program's folder, where `make web` puts it; otherwise it is in
    /// the folder DIR. A line of output has its address.
    #[arg(long, value_name = "DIR", require_equals = true)]
    demo: Option<Option<PathBuf>>,
    /// Form of the log on standard error. [default: text]
    #[arg(long, value_enum)]
    log: Option<Log>,
}

/// Certificates that the program makes.
#[derive(Clone, Copy, ValueEnum)]
pub enum Tls {
    /// Signed by its own key.
    SelfSigned,
}

/// Storage of tables.
#[derive(Clone, Copy, ValueEnum)]
pub enum Memory {
    Copied,
    Mapped,
}

impl From<Memory> for Residence {
    fn from(memory: Memory) -> Self {
        match memory {
            Memory::Copied => Self::Copied,
            Memory::Mapped => Self::Mapped,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Log {
    Text,
    Json,
}

/// Serves until it is asked to stop.
pub fn run(options: Options) -> anyhow::Result<Status> {
    let (check_only, tls) = (options.check_config, options.tls);
    let configured = options.configure()?;
    configured.check()?;
    if check_only {
        print_line("the configuration is right")?;
        return Ok(Status::SUCCESS);
    }
    let warnings = configured.warnings();
    let Configured { config, .. } = configured;
    let _logs =
        init_logs(config.log).map_err(|error| anyhow::anyhow!("logging could not be set up: {error}"))?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let mut announced = Ok(());
    let demo = config.demo.clone();
    let trusted = config.tls.clone().filter(|_| tls.is_some()).map(|files| files.certificate);
    serve(config, |addresses| {
        announced = announce(addresses, demo.as_deref()).and_then(|()| match trusted {
            Some(path) => print_line(&format!("clients trust the certificate with --ca {}", path.display())),
            None => Ok(()),
        });
    })?;
    announced.map(|()| Status::SUCCESS)
}

/// Prints the addresses of a server, and the address of its demo page, if it has one.
pub fn announce(Addresses { data, admin, tls }: Addresses, demo: Option<&Path>) -> anyhow::Result<()> {
    let scheme = if tls { "https" } else { "http" };
    print_line(&format!("listening on {scheme}://{data}"))?;
    if let Some(admin) = admin {
        print_line(&format!("administration on {scheme}://{admin}"))?;
    }
    demo.map_or(Ok(()), |_| print_line(&format!("demo on {scheme}://{data}/demo/")))
}

/// Returns the folder of the installed demo page: `/usr/share/spirea/web` for a program in
/// `/usr/bin`.
fn installed_demo() -> anyhow::Result<PathBuf> {
    let program =
        std::env::current_exe().context("where this program is, beside which the demo page would be")?;
    let program = program.canonicalize().unwrap_or(program);
    let prefix = program.parent().and_then(Path::parent).context("this program lies in no folder")?;
    Ok(prefix.join("share/spirea/web"))
}

impl Options {
    /// Reads the file and the environment, overridden by the options given.
    pub fn configure(self) -> anyhow::Result<Configured> {
        // A variable whose name or value is not text is not a setting.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut configured = Configured::read(self.config.as_deref(), variables)?;
        let mut set = Overrides(&mut configured);
        set.to("listen", "--listen", self.listen, |config, value| config.listen = value);
        set.to("admin_listen", "--admin-listen", self.admin_listen, |config, value| {
            config.admin_listen = Some(value);
        });
        if let Some(Tls::SelfSigned) = self.tls {
            let files = self_signed(set.0.config.listen.ip())?;
            set.to("tls.certificate", "--tls", Some(files), |config, files| config.tls = Some(files));
        }
        if let Some((certificate, key)) = self.tls_certificate.zip(self.tls_key) {
            set.0.overridden("tls.key", "--tls-key");
            set.to(
                "tls.certificate",
                "--tls-certificate",
                Some(TlsFiles { certificate, key }),
                |config, files| {
                    config.tls = Some(files);
                },
            );
        }
        set.to("signing_key", "--signing-key", self.signing_key, |config, value| {
            config.signing_key = Some(value);
        });
        set.following("follow.url", "--follow", self.follow, |follow, value| follow.url = value);
        set.following("follow.token_file", "--token-file", self.token_file, |follow, value| {
            follow.token_file = Some(value);
        });
        set.following("follow.ca", "--ca", self.ca, |follow, value| follow.ca = Some(value));
        set.following("follow.pin_key", "--pin-key", self.pin_key, |follow, value| follow.key = Some(value));
        set.following("follow.disk", "--follow-disk", self.follow_disk, |follow, value| {
            follow.disk = Some(value);
        });
        set.to("activate_after", "--activate-after", self.activate_after, |config, value| {
            config.activate_after = Some(value);
        });
        let watch = self.watch.then_some(true);
        set.to("watch", "--watch", watch, |config, value| config.watch = value);
        set.to("tokens.file", "--tokens", self.tokens, |config, value| config.tokens = Some(value));
        let development = self.insecure_no_auth.then_some(true);
        set.to("development", "--insecure-no-auth", development, |config, value| config.development = value);
        set.to("backend", "--backend", self.backend, |config, value| config.backend = value);
        set.to("threads", "--threads", self.threads.map(Threads::count), |config, value| {
            config.threads = value
        });
        set.to("memory", "--memory", self.memory, |config, value| {
            config.residence = value.into();
        });
        set.to("party", "--party", self.party, |config, value| config.party = Some(value));
        set.to("queue", "--queue", self.queue, |config, value| config.queue = value);
        set.to("keys.folder", "--keys-dir", self.keys_dir, |config, value| config.keys.folder = Some(value));
        set.to("keys.memory", "--keys-memory", self.keys_memory, |config, value| {
            config.keys.memory_bytes = value;
        });
        if self.keys_disk.is_some() && set.0.config.keys.folder.is_none() {
            bail!("--keys-disk: there is no folder for keys that it could bound; name one (--keys-dir)");
        }
        set.to("keys.disk", "--keys-disk", self.keys_disk, |config, value| config.keys.disk.bytes = value);
        let demo = match self.demo {
            Some(None) => Some(installed_demo()?),
            Some(folder) => folder,
            None => None,
        };
        set.to("demo", "--demo", demo, |config, value| config.demo = Some(value));
        set.to("log.format", "--log", self.log, |config, value| {
            config.log.format = match value {
                Log::Text => LogFormat::Text,
                Log::Json => LogFormat::Json,
            };
        });
        if !self.snapshots.is_empty() {
            for (i, folder) in self.snapshots.iter().enumerate() {
                configured.overridden(&format!("databases.{i}.path"), &folder.display().to_string());
            }
            configured.config.snapshots = self.snapshots;
        }
        Ok(configured)
    }
}

/// Settings given on the command line, which override others.
struct Overrides<'a>(&'a mut Configured);

impl Overrides<'_> {
    fn to<T>(&mut self, key: &str, flag: &str, value: Option<T>, set: impl FnOnce(&mut ServerConfig, T)) {
        if let Some(value) = value {
            set(&mut self.0.config, value);
            self.0.overridden(key, flag);
        }
    }

    fn following<T>(&mut self, key: &str, flag: &str, value: Option<T>, set: impl FnOnce(&mut Follow, T)) {
        if let Some(value) = value {
            set(self.0.following(), value);
            self.0.overridden(key, flag);
        }
    }
}

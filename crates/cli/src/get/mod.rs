//! `spirea get`.

mod interrupt;
mod printer;
mod results;
mod resume;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use clap::Args;
use indicatif::ProgressBar;
use spirea_client::{
    ClientError, ClientOptions, DomainKeys, Fetched, Fetches, HttpClient, Keep, Part, SharedProxy, Timings,
    WeakPrf,
};
use spirea_console::access::Access;
use spirea_console::address;
use spirea_console::input;
use spirea_console::output::{Format, bytes, note, print_error, seconds};
use spirea_console::status::Status;
use spirea_protocols::signature::PublicKey;
use spirea_store::ingest::{Encoding, is_standard_input, text};

use self::interrupt::Interrupt;
use self::printer::{Answers, Label, Printed, Printer};
use self::results::{Fields, Layout};
use self::resume::{Asked, Resume};
use crate::progress::byte_bar;

/// Options of `spirea get`.
#[derive(Args)]
pub struct Options {
    /// Address of the server, such as http://127.0.0.1:8080.
    #[arg(value_parser = address::server)]
    url: String,
    /// Name of the database.
    #[arg(value_parser = address::database)]
    name: String,
    /// Keys to look up.
    keys: Vec<String>,
    /// Address of the other server, for a database that two servers answer for; in any order.
    /// An observer of the connections to both can tell what is looked up: over a network both
    /// addresses should begin with https://.
    #[arg(help_heading = "Servers", long, value_name = "URL", value_parser = address::server)]
    other: Option<String>,
    /// Another address of the server, asked when the one before it cannot be reached, does not
    /// answer in time or is not ready; may be given again.
    #[arg(help_heading = "Servers", long, value_name = "URL", value_parser = address::server)]
    replica: Vec<String>,
    /// Another address of the other server; may be given again.
    #[arg(help_heading = "Servers", long, value_name = "URL", requires = "other", value_parser = address::server)]
    other_replica: Vec<String>,
    #[command(flatten)]
    access: Access,
    /// Also accept a database whose pseudorandom function has had little cryptanalysis.
    #[arg(help_heading = "Access", long)]
    accept_weak_prf: bool,
    /// Ask two servers over http:// through one proxy of the environment, which can then tell what
    /// is looked up.
    #[arg(help_heading = "Access", long, requires = "other")]
    accept_shared_proxy: bool,
    /// Look up domain names together with their parents, this number of names for each domain:
    /// itself and its shortest parents, such as example.com and com for www.example.com. Servers
    /// see the same number of look-ups for every domain; names that are left out are reported.
    #[arg(help_heading = "Look-ups", long, value_name = "NAMES", value_parser = clap::value_parser!(u8).range(1..=16), conflicts_with_all = ["index", "fetch", "resume", "hex", "base64"])]
    parents: Option<u8>,
    /// Look up by position, from 0, in a table without keys.
    #[arg(help_heading = "Look-ups", long, num_args = 1.., conflicts_with_all = ["keys", "keys_from"])]
    index: Vec<u64>,
    /// Ask for all records with one query, for the work of a single look-up: one value of each of
    /// the table's bins. A record in the bin of an earlier one is dropped, and reported as dropped.
    #[arg(help_heading = "Look-ups", long)]
    fetch: bool,
    /// Also look up every line of this file; - for standard input.
    #[arg(help_heading = "Look-ups", long)]
    keys_from: Option<PathBuf>,
    /// File that records how many look-ups of the list are complete, so that after an interruption
    /// the same command continues after them. A reader of the file can test guesses of the list.
    #[arg(help_heading = "Look-ups", long, value_name = "FILE", conflicts_with = "fetch")]
    resume: Option<PathBuf>,
    /// Encoding of this file by its label on the web, such as windows-1252, shift_jis or utf-16;
    /// UTF-8 by default.
    #[arg(help_heading = "Look-ups", long, value_name = "LABEL", requires = "keys_from")]
    encoding: Option<Encoding>,
    /// Keys are written as hexadecimal digits of their bytes.
    #[arg(help_heading = "Look-ups", long, conflicts_with_all = ["base64", "index"])]
    hex: bool,
    /// Keys are written as the base64 of their bytes, with padding.
    #[arg(help_heading = "Look-ups", long, conflicts_with = "index")]
    base64: bool,
    /// One JSON object a line, in the order asked for.
    #[arg(help_heading = "Output", long)]
    json: bool,
    /// Folder in which hints are kept; the user's cache folder by default. If it is not writable,
    /// hints are kept in memory.
    #[arg(help_heading = "Hints", long)]
    cache: Option<PathBuf>,
    /// Keep hints in memory: write nothing to the disk, and download them again the next time. With
    /// --pin-key, older versions are then known within this command only.
    #[arg(help_heading = "Hints", long, conflicts_with = "cache")]
    no_cache: bool,
    /// Timeout of a request in seconds, plus a second for each 16 KiB of the request and its
    /// response; also the time for which a failed request is tried again.
    #[arg(help_heading = "Servers", long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Seconds to wait for a server that is not reachable or still loading.
    #[arg(help_heading = "Servers", long, default_value_t = 0)]
    wait: u64,
    /// Also say, on standard error, what the look-ups cost.
    #[arg(help_heading = "Output", long)]
    timings: bool,
    /// The operator's public key, as `spirea key public` prints it: refuse versions that this key
    /// did not sign, and versions older than one seen before.
    #[arg(help_heading = "Access", long, value_name = "KEY")]
    pin_key: Option<PublicKey>,
}

/// Looks up and prints. The status is 0 if everything was found, 1 if something was not, 2 for an
/// error.
///
/// A thread of its own prints the results, so that requests wait neither for a reader nor for a
/// disk.
pub fn run(options: &Options) -> anyhow::Result<Status> {
    let wanted = Wanted::read(options)?;
    let all = wanted.labels.len();
    if all == 0 {
        bail!("nothing to look up: give keys, --keys-from or --index");
    }
    let resume =
        options.resume.as_deref().map(|path| Resume::open(path, &wanted.asked(options))).transpose()?;
    let start = resume.as_ref().map_or(0, Resume::complete);
    if start == all {
        note(&format!(
            "all {all} look-ups of this list are complete; delete the file of --resume to repeat them"
        ));
        return Ok(Status::SUCCESS);
    }
    let interrupt = Interrupt::heed();
    let started = Instant::now();
    let mut client = match connect(options, &interrupt) {
        Err(_) if interrupt.came() => return Ok(Status::INTERRUPTED),
        client => client?,
    };
    let connected = started.elapsed();
    let layout = Layout {
        format: Format::from_flag(options.json),
        label: if wanted.keys.is_empty() { "index" } else { "key" },
        is_alone: all == 1 && options.parents.is_none(),
    };
    let printer = Printer::start(wanted.labels.clone(), start, layout, resume);
    let asked = wanted.ask(&mut client, start, options.fetch, &printer);
    // Missing results are reported first, even if the connection broke later.
    let Printed { complete, is_incomplete } = printer.finish()?;
    if interrupt.came() {
        print_error(&format!("spirea: interrupted: {complete} of {all} look-ups are complete and printed"));
        return Ok(Status::INTERRUPTED);
    }
    let timings = match asked {
        Err(error) if complete > start => {
            return Err(error).context(format!("{complete} of {all} look-ups are complete and printed"));
        }
        timings => timings?,
    };
    for line in &wanted.unasked {
        print_error(line);
    }
    if options.timings {
        print_timings(connected, &timings);
    }
    Ok(Status::of(!is_incomplete))
}

/// Look-ups of a command, by key or by index.
struct Wanted {
    /// Name of each look-up; `None` for dummies.
    labels: Vec<Option<Label>>,
    /// Keys as bytes; empty in a table without keys.
    keys: Vec<Vec<u8>>,
    indices: Vec<u64>,
    /// Messages that name, for each domain, the names that are not looked up.
    unasked: Vec<String>,
}

impl Wanted {
    fn read(options: &Options) -> anyhow::Result<Self> {
        let keys = all_keys(options)?;
        if let Some(count) = options.parents {
            return Self::of_domains(&keys, count.into());
        }
        let decoded = keys.iter().map(|key| options.bytes_of(key)).collect::<anyhow::Result<_>>()?;
        let indices = options.index.clone();
        let names: Vec<String> =
            if keys.is_empty() { indices.iter().map(u64::to_string).collect() } else { keys };
        let labels = names.into_iter().map(|name| Some(Label { name, domain: None })).collect();
        Ok(Self { labels, keys: decoded, indices, unasked: Vec::new() })
    }

    /// Expands domains to themselves and their parents, `count` names for each.
    fn of_domains(domains: &[String], count: usize) -> anyhow::Result<Self> {
        let names: Vec<&str> = domains.iter().map(String::as_str).collect();
        let domain_keys = DomainKeys::new(&names, count).map_err(ClientError::from)?;
        let (mut labels, mut unasked) = (Vec::new(), Vec::new());
        for (number, names) in domain_keys.names().iter().enumerate() {
            let label = |name: &String| Some(Label { name: name.clone(), domain: Some(number) });
            labels.extend(names.names.iter().map(label).chain(std::iter::repeat(None)).take(count));
            if !names.unasked.is_empty() {
                let unasked_names = names.unasked.join(", ");
                unasked.push(format!(
                    "{}: {unasked_names} not asked for: --parents {count} has no room for more",
                    domains[number]
                ));
            }
        }
        let keys = domain_keys.keys().iter().map(|key| key.to_vec()).collect();
        Ok(Self { labels, keys, indices: Vec::new(), unasked })
    }

    /// Returns the list and the servers. `--resume` compares both with those of the earlier run.
    fn asked<'a>(&'a self, options: &'a Options) -> Asked<'a> {
        let mut addresses = options.urls();
        addresses.extend(options.replica.iter().chain(&options.other_replica).map(String::as_str));
        Asked { database: &options.name, addresses, keys: &self.keys, indices: &self.indices }
    }

    /// Looks up everything from `start` on, and passes the answers to the printer.
    fn ask(
        &self,
        client: &mut HttpClient,
        start: usize,
        fetch: bool,
        printer: &Printer,
    ) -> Result<Timings, ClientError> {
        let keys: Vec<&[u8]> = self.keys.iter().map(Vec::as_slice).collect();
        if fetch {
            let Fetches { values, version, timings } = match keys.is_empty() {
                true => client.fetch_indices(&self.indices)?,
                false => client.fetch_keys(&keys)?,
            };
            let versions = vec![version; values.len()];
            printer.print(Answers {
                first: 0,
                values: Ok(values),
                versions,
                fields: Fields::of(client.table()),
            });
            return Ok(timings);
        }
        let mut each = |Part { positions, values, versions, description }: Part<'_>| {
            let found = |value: Option<_>| value.map_or(Fetched::Absent, Fetched::Value);
            printer.print(Answers {
                first: start + positions.start,
                values: values.map(|values| values.into_iter().map(found).collect()),
                versions,
                fields: Fields::of(description.table()),
            });
        };
        match keys.is_empty() {
            true => client.look_up_indices_in_parts(&self.indices[start..], &mut each),
            false => client.look_up_keys_in_parts(&keys[start..], &mut each),
        }
    }
}

impl Options {
    /// Returns the first address of each server.
    fn urls(&self) -> Vec<&str> {
        [Some(&self.url), self.other.as_ref()].into_iter().flatten().map(String::as_str).collect()
    }

    /// Decodes a key from its form on the command line.
    fn bytes_of(&self, key: &str) -> anyhow::Result<Vec<u8>> {
        match (self.hex, self.base64) {
            (true, _) => {
                hex::decode(key).with_context(|| format!("{key:?} is no hexadecimal: give two digits a byte"))
            }
            (_, true) => BASE64.decode(key).with_context(|| format!("{key:?} is no base64 with padding")),
            _ => Ok(key.as_bytes().to_vec()),
        }
    }
}

fn all_keys(options: &Options) -> anyhow::Result<Vec<String>> {
    let mut keys = options.keys.clone();
    if let Some(path) = &options.keys_from {
        let standard = is_standard_input(path);
        let input: Box<dyn Read> = match standard {
            true => Box::new(std::io::stdin()),
            false => Box::new(input::open(path)?),
        };
        let name = if standard { Path::new("standard input") } else { path };
        for line in text::lines(input, name, options.encoding.unwrap_or_default())? {
            keys.push(String::from_utf8(line).expect("lines of a text are UTF-8"));
        }
    }
    Ok(keys)
}

/// Connects. While the server is unreachable or not ready, retries for the time of `--wait`.
fn connect(options: &Options, interrupt: &Interrupt) -> anyhow::Result<HttpClient> {
    let urls = options.urls();
    let deadline = Instant::now() + Duration::from_secs(options.wait);
    loop {
        let timeout = Duration::from_secs(options.timeout);
        let default = ClientOptions::default();
        let settings = ClientOptions {
            keep: if options.no_cache { Keep::Memory } else { Keep::Persistent },
            cache: options.cache.clone(),
            progress: Some(hint_progress()),
            weak_prf: if options.accept_weak_prf { WeakPrf::Accept } else { WeakPrf::Refuse },
            shared_proxy: if options.accept_shared_proxy { SharedProxy::Accept } else { SharedProxy::Refuse },
            pinned_key: options.pin_key,
            stop: Some(interrupt.flag()),
            attempts: if options.wait == 0 { default.attempts } else { 1 },
            connect_timeout: default.connect_timeout.min(timeout),
            timeout,
            patience: timeout,
            replicas: match options.other {
                Some(_) => vec![options.replica.clone(), options.other_replica.clone()],
                None => vec![options.replica.clone()],
            },
            ..options.access.options()?
        };
        match HttpClient::connect_with(&urls, &options.name, settings) {
            Err(error) if is_not_ready(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) if error.url().is_some() => return Err(error.into()),
            result => return result.with_context(|| urls.join(" and ")),
        }
    }
}

fn is_not_ready(error: &ClientError) -> bool {
    matches!(error.cause(), ClientError::Unreachable(_) | ClientError::Refused { status: 503, .. })
}

/// Creates a progress bar that appears with the first byte of a hint.
fn hint_progress() -> spirea_client::Progress {
    let bar = OnceLock::<ProgressBar>::new();
    Box::new(move |done, total| {
        let bar = bar.get_or_init(|| byte_bar("hint".into(), total));
        bar.set_position(done);
        if done == total {
            bar.finish_and_clear();
        }
    })
}

fn print_timings(connected: Duration, timings: &Timings) {
    let of = |time: Duration| seconds(time.as_secs_f64());
    let keys = match timings.keys_bytes {
        0 => String::new(),
        sent => format!(", keys {} in {}", bytes(sent), of(timings.keys)),
    };
    print_error(&format!(
        "connect and hint {}{keys}; {} request(s): queries {}, server {}, network {}, decode {}; sent {}, received {}",
        of(connected),
        timings.requests,
        of(timings.query),
        of(timings.server),
        of(timings.network),
        of(timings.decode),
        bytes(timings.sent_bytes),
        bytes(timings.received_bytes)
    ));
}

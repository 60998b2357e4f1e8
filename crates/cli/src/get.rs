//! `spirea get`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Map, Value as Json, json};
use spirea_client::{
    ClientError, ClientOptions, Fetched, Fetches, HttpClient, Lookups, SharedProxy, Timings, Value, WeakPrf,
};
use spirea_protocols::signature::PublicKey;
use spirea_store::ingest::{Encoding, is_standard_input, text};

use crate::access::Access;
use crate::output::{Format, bytes, escaped, is_watched, print_bytes, print_error, print_line, seconds};
use crate::progress::byte_bar;
use crate::status::Status;

/// What to look up.
#[derive(Args)]
pub struct Options {
    /// Address of the server, such as http://127.0.0.1:8080.
    url: String,
    /// Name of the database.
    name: String,
    /// Keys to look up.
    keys: Vec<String>,
    /// Address of the other server, for a database that two servers answer for; in any order. Whoever reads the
    /// connections to both can tell what is looked up: over a network both addresses should begin with https://.
    #[arg(long, value_name = "URL")]
    other: Option<String>,
    /// Another address of the server, asked when the one before it cannot be reached, does not answer in time or is
    /// not ready; may be given again.
    #[arg(long, value_name = "URL")]
    replica: Vec<String>,
    /// Another address of the other server; may be given again.
    #[arg(long, value_name = "URL", requires = "other")]
    other_replica: Vec<String>,
    #[command(flatten)]
    access: Access,
    /// Ask also under a pseudorandom function that has little cryptanalysis behind it.
    #[arg(long)]
    accept_weak_prf: bool,
    /// Ask two servers over http:// through one proxy of the environment, which can then tell what is looked up.
    #[arg(long, requires = "other")]
    accept_shared_proxy: bool,
    /// Look up by position, from 0, in a table without keys.
    #[arg(long, num_args = 1.., conflicts_with_all = ["keys", "keys_from"])]
    index: Vec<u64>,
    /// Ask for all of them with one query, for the work of one: a value of each of the table's bins. What lies in the bin
    /// of one before it is dropped, and said to be.
    #[arg(long)]
    fetch: bool,
    /// Also look up every line of this file; - for standard input.
    #[arg(long)]
    keys_from: Option<PathBuf>,
    /// Encoding of this file by its label on the web, such as windows-1252, shift_jis or utf-16; UTF-8 by default.
    #[arg(long, value_name = "LABEL", requires = "keys_from")]
    encoding: Option<Encoding>,
    /// Keys are written as hexadecimal digits of their bytes.
    #[arg(long, conflicts_with_all = ["base64", "index"])]
    hex: bool,
    /// Keys are written as the base64 of their bytes, with padding.
    #[arg(long, conflicts_with = "index")]
    base64: bool,
    /// One JSON object a line, in the order asked for.
    #[arg(long)]
    json: bool,
    /// Folder in which hints are kept; the user's cache folder by default.
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Seconds that a request may take, beside a second for each 16 KiB of it and its response, and that it is tried again.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Seconds to wait for a server that is not reachable or still loading.
    #[arg(long, default_value_t = 0)]
    wait: u64,
    /// Also say, on standard error, what the look-ups cost.
    #[arg(long)]
    timings: bool,
    /// The operator's public key, as `spirea key public` prints it: refuse versions that it did not sign, and those that
    /// are older than what has been seen.
    #[arg(long, value_name = "KEY")]
    pin_key: Option<PublicKey>,
}

/// Looks up and prints. The status is 0 if everything was found, 1 if something was not, 2 for an error.
pub fn run(options: &Options) -> anyhow::Result<Status> {
    let keys = all_keys(options)?;
    if keys.is_empty() && options.index.is_empty() {
        bail!("nothing to look up: give keys, --keys-from or --index");
    }
    let decoded = keys.iter().map(|key| options.bytes_of(key)).collect::<anyhow::Result<Vec<_>>>()?;
    let bytes: Vec<&[u8]> = decoded.iter().map(Vec::as_slice).collect();
    let started = Instant::now();
    let mut client = connect(options)?;
    let connected = started.elapsed();
    let Fetches { values, timings } = match (options.fetch, keys.is_empty()) {
        (true, true) => client.fetch_indices(&options.index)?,
        (true, false) => client.fetch_keys(&bytes)?,
        (false, true) => one_by_one(client.look_up_indices(&options.index)?),
        (false, false) => one_by_one(client.look_up_keys(&bytes)?),
    };
    let labels = if keys.is_empty() { options.index.iter().map(u64::to_string).collect() } else { keys };
    let fields = client.table().fields.clone();
    let label = if options.index.is_empty() { "key" } else { "index" };
    match (Format::from_flag(options.json), &labels[..], &values[..]) {
        (Format::Text, [name], [value]) => print_alone(name, value)?,
        (format, ..) => {
            for (name, value) in labels.iter().zip(&values) {
                match format {
                    Format::Json => print_line(&as_json(label, name, value, &fields).to_string())?,
                    Format::Text => print_row(name, value)?,
                }
            }
        }
    }
    if options.timings {
        print_timings(connected, &timings);
    }
    Ok(Status::from(u8::from(values.iter().any(|value| !matches!(value, Fetched::Value(_))))))
}

/// Values that were each asked for with a query of their own.
fn one_by_one(Lookups { values, timings }: Lookups) -> Fetches {
    let values = values.into_iter().map(|value| value.map_or(Fetched::Absent, Fetched::Value));
    Fetches { values: values.collect(), timings }
}

impl Options {
    /// The bytes of a key as it is written.
    fn bytes_of(&self, key: &str) -> anyhow::Result<Vec<u8>> {
        match (self.hex, self.base64) {
            (true, _) => {
                from_hex(key).with_context(|| format!("{key:?} is no hexadecimal: give two digits a byte"))
            }
            (_, true) => BASE64.decode(key).with_context(|| format!("{key:?} is no base64 with padding")),
            _ => Ok(key.as_bytes().to_vec()),
        }
    }
}

/// The bytes that hexadecimal digits stand for, two for each.
fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| Some(char::from(byte).to_digit(16)? as u8);
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

fn all_keys(options: &Options) -> anyhow::Result<Vec<String>> {
    let mut keys = options.keys.clone();
    if let Some(path) = &options.keys_from {
        let standard = is_standard_input(path);
        let input: Box<dyn Read> = match standard {
            true => Box::new(std::io::stdin()),
            false => {
                Box::new(File::open(path).with_context(|| format!("{}: cannot read keys", path.display()))?)
            }
        };
        let name = if standard { Path::new("standard input") } else { path };
        for line in text::lines(input, name, options.encoding.unwrap_or_default())? {
            keys.push(String::from_utf8(line).expect("lines of a text are UTF-8"));
        }
    }
    Ok(keys)
}

/// Connects, and tries again for as long as `--wait` says while the server is not there or not ready.
fn connect(options: &Options) -> anyhow::Result<HttpClient> {
    let urls: Vec<&str> =
        [Some(&options.url), options.other.as_ref()].into_iter().flatten().map(String::as_str).collect();
    let deadline = Instant::now() + Duration::from_secs(options.wait);
    loop {
        let timeout = Duration::from_secs(options.timeout);
        let default = ClientOptions::default();
        let settings = ClientOptions {
            cache: options.cache.clone(),
            progress: Some(hint_progress()),
            weak_prf: if options.accept_weak_prf { WeakPrf::Accept } else { WeakPrf::Refuse },
            shared_proxy: if options.accept_shared_proxy { SharedProxy::Accept } else { SharedProxy::Refuse },
            pinned_key: options.pin_key,
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
            result => return result.with_context(|| urls.join(" and ")),
        }
    }
}

fn is_not_ready(error: &ClientError) -> bool {
    matches!(error.cause(), ClientError::Unreachable(_) | ClientError::Refused { status: 503, .. })
}

/// A bar that appears with the first byte of a hint.
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

fn as_json(label: &str, name: &str, value: &Fetched<Value>, fields: &[String]) -> Json {
    let mut object = Map::new();
    let name = if label == "index" { json!(name.parse::<u64>().unwrap_or_default()) } else { json!(name) };
    object.insert(label.into(), name);
    object.insert("found".into(), json!(matches!(value, Fetched::Value(_))));
    match value {
        // A key of a set is found, and that is all there is to tell.
        Fetched::Value(_) if fields.is_empty() => {}
        Fetched::Value(value) => {
            let members =
                fields.iter().zip(value.fields()).map(|(field, bytes)| (field.clone(), field_json(bytes)));
            object.insert("value".into(), Json::Object(members.collect()));
        }
        Fetched::Dropped => drop(object.insert("dropped".into(), json!(true))),
        Fetched::Absent => {}
    }
    Json::Object(object)
}

/// Text as a string; bytes that are no text as `{"hex": "..."}`.
fn field_json(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    }
}

/// A value that was asked for alone. A field is printed as it is, to a program; to a person, and where there are several
/// fields, as [`columns`].
fn print_alone(name: &str, value: &Fetched<Value>) -> anyhow::Result<()> {
    let Some(value) = brought(name, value) else { return Ok(()) };
    match value.fields() {
        [] => print_line(&escaped(name.as_bytes())),
        [field] if !is_watched() => {
            print_bytes(field)?;
            print_bytes(b"\n")
        }
        fields => print_line(&columns(fields)),
    }
}

/// A value; says so where there is none.
fn brought<'v>(name: &str, value: &'v Fetched<Value>) -> Option<&'v Value> {
    let why = match value {
        Fetched::Value(value) => return Some(value),
        Fetched::Absent => "not found",
        Fetched::Dropped => "dropped: one before it lies in the same bin",
    };
    print_error(&format!("{name}: {why}"));
    None
}

/// One of several values, after its key.
fn print_row(name: &str, value: &Fetched<Value>) -> anyhow::Result<()> {
    let name = escaped(name.as_bytes());
    match brought(&name, value) {
        Some(value) if value.fields().is_empty() => print_line(&name),
        Some(value) => print_line(&format!("{name}\t{}", columns(value.fields()))),
        None => Ok(()),
    }
}

/// Fields with tabs between them, and none within.
fn columns(fields: &[Vec<u8>]) -> String {
    fields.iter().map(|field| escaped(field)).collect::<Vec<_>>().join("\t")
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

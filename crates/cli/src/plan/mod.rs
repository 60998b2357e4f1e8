//! `spirea plan`: the cost of each protocol on this machine, and a recommendation.

mod gpus;
mod pim;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use spirea_console::input::InputOptions;
use spirea_console::output::{bytes, parse_bytes, parse_count, print_line, seconds};
use spirea_console::status::Status;
use spirea_console::threads::Threads;
use spirea_protocols::Table;
use spirea_protocols::choice::{KeyDelivery, Preference, SecurityLevel};
use spirea_protocols::keyword::Copies;
use spirea_protocols::parameters::Failure;
use spirea_protocols::planner::{self, Figures, Needs, Plan, Rates};
use spirea_protocols::table::MOST_KEY_QUERIES;
use spirea_store::ingest::Selection;
use spirea_store::{BuildOptions, Duplicates, Input, Manifest, Proving, Snapshot, Statistics, survey};

use crate::apple::{ApplePlan, Audience};
use crate::inspect::{explain_longest, explain_records};
use crate::leaks::refusal_bits;
use crate::progress::Bars;
use crate::rates::RatesOptions;
use gpus::{Gpu, GpuGroup, GpuOptions};
use pim::{Pim, PimOptions};

/// Options of `spirea plan`, with the source of the rates.
#[derive(Args)]
pub struct Command {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    rates: RatesOptions,
}

/// Options for the table, the clients and the server to plan for.
#[derive(Args)]
#[command(mut_arg("record_bytes", |arg| arg
    .help("Bytes of a record, such as 256 or 4KiB; of a value in a fixed-width --input")))]
pub struct Options {
    /// Number of records, such as 5000 or 1e6.
    #[arg(help_heading = "Table", long, value_parser = parse_count)]
    records: Option<u64>,
    /// Take the number and the length of the records from the snapshot in this folder, and report
    /// the cost of its longest values.
    #[arg(help_heading = "Table", long, value_name = "FOLDER", conflicts_with_all = ["records", "record_bytes"])]
    snapshot: Option<PathBuf>,
    /// Take the number and the length of the records from the table that `spirea build` would make
    /// of these files, and report the cost of its longest values; - for standard input, with
    /// --format.
    #[arg(help_heading = "Table", long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["records", "snapshot"])]
    input: Vec<PathBuf>,
    /// Column of the keys of --input; without one the table is looked up by position.
    #[arg(help_heading = "Table", long, requires = "input")]
    key: Option<String>,
    /// Columns of the values of --input.
    #[arg(help_heading = "Table", long, num_args = 1.., requires = "input")]
    value: Vec<String>,
    #[command(flatten)]
    file: InputOptions,
    /// Treatment of keys in several rows of --input: refuse the table, or take the first or the
    /// last row of each.
    #[arg(
        help_heading = "Table",
        long,
        default_value = "refuse",
        value_name = "refuse|first|last",
        requires = "input"
    )]
    on_duplicate: Duplicates,
    /// Give each record of --input room for an inclusion proof: include, or omit, the default.
    #[arg(help_heading = "Table", long, value_name = "CHOICE", num_args = 0..=1, require_equals = true, default_missing_value = "include", requires = "input")]
    proofs: Option<Proving>,
    /// Look-ups a second that the server must answer.
    #[arg(help_heading = "Needs", long)]
    qps: Option<f64>,
    /// A client's uplink in Mbit/s.
    #[arg(help_heading = "Needs", long, default_value_t = 5.0)]
    uplink: f64,
    /// A client's downlink in Mbit/s.
    #[arg(help_heading = "Needs", long, default_value_t = 20.0)]
    downlink: f64,
    /// Memory of the server, such as 16GiB.
    #[arg(help_heading = "Needs", long, value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Number of servers: 2 if another party, which must not collude with this one, runs the second
    /// server.
    #[arg(help_heading = "Needs", long, default_value_t = 1)]
    servers: usize,
    /// Look-ups of a client between two versions of the database, over which its hint and keys are
    /// spread.
    #[arg(help_heading = "Needs", long, default_value_t = 100.0)]
    lookups: f64,
    /// Least security of parameter sets: standard, or conservative for ML-KEM-512 under every
    /// model.
    #[arg(help_heading = "Needs", long, default_value = "standard")]
    security: SecurityLevel,
    /// Goal of shapes: time, for the least time of the server; communication, for the fewest bytes
    /// of a query and its answer that take the server at most 2.1 times as long; or balance.
    #[arg(help_heading = "Needs", long, default_value = "balance")]
    prefer: Preference,
    /// Recommend only protocols that have no keys, or whose keys reach the server in this way:
    /// registered; or per-query, if nothing may link two queries of a client.
    #[arg(help_heading = "Needs", long, value_name = "WAY")]
    keys: Option<KeyDelivery>,
    /// Number of bins of the table, for exppack-simple, dpf-xor and dpf-sum: a query returns one
    /// record from each bin.
    #[arg(help_heading = "Needs", long, default_value_t = 1)]
    bins: usize,
    /// Copies of each entry of a table with keys and --bins, 1 or 3: the table is stored so many
    /// times.
    #[arg(help_heading = "Needs", long, value_name = "1|3", default_value_t, conflicts_with = "snapshot")]
    copies: Copies,
    /// Also show what a look-up of Apple's clients sends and receives, without a prediction of the
    /// server's time.
    #[arg(help_heading = "Needs", long = "for", value_enum, value_name = "CLIENTS")]
    audience: Option<Audience>,
    /// A GPU as its memory and its GB/s, such as 94GiB:3480: shows whether a protocol fits and the
    /// least time in which it could read what a query must read. A bound, not a prediction.
    #[arg(help_heading = "Devices", long, value_parser = Gpu::parse)]
    gpu: Option<Gpu>,
    #[command(flatten)]
    gpus: GpuOptions,
    #[command(flatten)]
    pim: PimOptions,
    /// Threads of the server; 0 for all.
    #[arg(long, default_value = "0")]
    threads: Threads,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

impl Options {
    fn devices(&self, rates: &Rates) -> anyhow::Result<Devices> {
        let pim = self.pim.machine(rates)?;
        Ok(Devices { gpu: self.gpu, gpus: self.gpus.group(), pim })
    }

    /// Returns the lines that `--json` prints, at these rates.
    pub fn lines(&self, rates: &Rates) -> anyhow::Result<Vec<String>> {
        let wanted = self.wanted()?;
        let plans = planner::plan(wanted.records, wanted.record_bytes, &self.needs(), rates);
        let best = planner::recommended(&plans);
        as_json(&plans, best, &self.devices(rates)?, self.apple(&wanted)?.as_ref())
    }

    /// Returns the plan for Apple's clients, if it is wanted.
    fn apple(&self, wanted: &Wanted) -> anyhow::Result<Option<ApplePlan>> {
        let Some(Audience::Apple) = self.audience else { return Ok(None) };
        let Wanted { records, record_bytes, table } = wanted;
        let bytes = *record_bytes as u64;
        let (keywords, value_bytes, longest) = match table {
            Some((table, Statistics { value_bytes, longest_value_bytes, .. })) => {
                (table.entries, *value_bytes, *longest_value_bytes)
            }
            None => {
                let rows = self.records.unwrap_or(*records);
                (rows, rows.saturating_mul(bytes), bytes)
            }
        };
        ApplePlan::new(keywords, value_bytes, longest).map(Some)
    }

    /// Checks the options and returns the size of the table to plan for.
    fn wanted(&self) -> anyhow::Result<Wanted> {
        let numbers = [self.uplink, self.downlink, self.lookups, self.qps.unwrap_or(1.0)];
        anyhow::ensure!(
            numbers.iter().all(|number| number.is_finite() && *number > 0.0),
            "--uplink, --downlink, --lookups and --qps must be above 0"
        );
        anyhow::ensure!((1..=2).contains(&self.servers), "--servers must be 1 or 2");
        anyhow::ensure!(
            self.copies == Copies::One || self.bins > 1,
            "--copies 3 is for tables in bins: add --bins, or omit it"
        );
        let table = self.table()?;
        let (records, record_bytes) = match &table {
            Some((table, _)) => (table.records, table.record_bytes()),
            None => self.stored_records()?.zip(self.file.record_bytes).context(
                "say which table to plan for: --records NUMBER --record-bytes SIZE, --input FILE, or --snapshot FOLDER; such as `spirea plan --records 1e6 --record-bytes 256`",
            )?,
        };
        anyhow::ensure!(records > 0 && record_bytes > 0, "a table has records, and records have bytes");
        anyhow::ensure!(
            !planner::is_too_large(records, record_bytes, self.security),
            "{records} records of {record_bytes} bytes: no protocol takes a table so large, on whatever machine; split it"
        );
        Ok(Wanted { records, record_bytes, table })
    }

    /// Returns --records times the copies of each.
    fn stored_records(&self) -> anyhow::Result<Option<u64>> {
        let stored = |records: u64| {
            records.checked_mul(self.copies.number() as u64).context("--records times --copies is too large")
        };
        self.records.map(stored).transpose()
    }

    fn needs(&self) -> Needs {
        Needs {
            queries_per_second: self.qps,
            uplink: self.uplink * 1e6 / 8.0,
            downlink: self.downlink * 1e6 / 8.0,
            memory: self.memory,
            lookups: self.lookups,
            servers: self.servers,
            security: self.security,
            prefer: self.prefer,
            bins: self.bins,
            keys: self.keys,
        }
    }

    /// If a snapshot or an input is given, returns its table with the statistics of its values: the
    /// snapshot's table, or the table that a build would make of the input.
    fn table(&self) -> anyhow::Result<Option<(Table, Statistics)>> {
        if let Some(folder) = &self.snapshot {
            let Manifest { table, statistics, .. } = Snapshot::open(folder)?.manifest().clone();
            return Ok(Some((table, statistics)));
        }
        if self.input.is_empty() {
            return Ok(None);
        }
        let selection =
            Selection { key: self.key.clone(), values: self.value.clone(), nulls: self.file.nulls };
        let folder = tempfile::tempdir()?;
        let options = BuildOptions {
            duplicates: self.on_duplicate,
            proving: self.proofs,
            copies: self.copies,
            ..BuildOptions::of(Input::Files(self.file.files(&self.input)?), selection, folder.path())
        };
        Ok(Some(survey(&options, folder.path(), &Bars::new())?))
    }
}

/// The table to plan for.
struct Wanted {
    records: u64,
    record_bytes: usize,
    /// Table of the given snapshot, or the table that a build would make of the given input, with
    /// the statistics of its values.
    table: Option<(Table, Statistics)>,
}

/// Devices besides the processor.
struct Devices {
    gpu: Option<Gpu>,
    gpus: Option<GpuGroup>,
    pim: Option<Pim>,
}

/// A line of the plan, for programs.
#[derive(Serialize)]
struct Line<'a> {
    protocol: &'a str,
    /// Delivery of evaluation keys to the server, if the protocol has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<&'static str>,
    recommended: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a str>,
    #[serde(flatten)]
    figures: Option<Numbers<'a>>,
}

#[derive(Serialize)]
struct Numbers<'a> {
    params: String,
    /// Number of bins; a query returns one record from each bin.
    bins: usize,
    shape: [usize; 2],
    upload_bytes: usize,
    download_bytes: usize,
    keys_bytes: usize,
    /// Bits about earlier queries that the first refusal in the life of registered keys can reveal
    /// to a lying server.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal_bits: Option<f64>,
    /// Bits of an earlier index that an accepted answer can reveal to a lying server if records
    /// carry no inclusion proofs.
    #[serde(skip_serializing_if = "Option::is_none")]
    combined_answer_bits: Option<f64>,
    hint_bytes: u64,
    memory_bytes: u64,
    server_seconds: f64,
    lookup_seconds: f64,
    /// `None` if a record never decodes wrongly.
    #[serde(flatten)]
    failure: Option<Failure>,
    /// log2 of a bound that holds for every database, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_failure_log2: Option<f64>,
    steps: Vec<Step<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_fits: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_least_seconds: Option<f64>,
    /// False if the database fits no strategy of several GPUs. If it fits a strategy, the next
    /// three members are present.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpus_fit: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpus_strategy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpus_bytes_each: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpus_reason: Option<String>,
    /// This member and the following ones are present for protocols that processing in memory
    /// answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pim_clusters: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pim_passes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pim_queries_in_pass: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pim_query_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pim_queries_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pim_bound: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ruled_out: Option<&'a str>,
}

#[derive(Serialize)]
struct Step<'a> {
    name: &'a str,
    seconds: f64,
}

/// Prints the plan at the rates of this machine, or of a file.
pub fn run(Command { options, rates }: &Command) -> anyhow::Result<Status> {
    let wanted = options.wanted()?;
    let rates = rates.rates(options.threads, options.security)?;
    let devices = options.devices(&rates)?;
    let plans = planner::plan(wanted.records, wanted.record_bytes, &options.needs(), &rates);
    let best = planner::recommended(&plans);
    let apple = options.apple(&wanted)?;
    if options.json {
        for line in as_json(&plans, best, &devices, apple.as_ref())? {
            print_line(&line)?;
        }
    } else {
        if let Some((table, _)) = &wanted.table {
            print_line(&format!("records: {}, of {} values", explain_records(table), table.entries))?;
        }
        if options.copies != Copies::One {
            print_line(&format!("copies: {}, each in a bucket of its own", options.copies))?;
        }
        if options.bins > 1 {
            print_line(&format!("bins: {}, and a query brings a record of each", options.bins))?;
        }
        print_plans(&plans, best, &devices, apple.as_ref())?;
        if let Some((table, statistics)) = &wanted.table {
            print_line(&format!("longest value: {}", explain_longest(table, statistics)))?;
        }
    }
    Ok(Status::of(best.is_some()))
}

/// Formats each plan as a JSON object; the plan for Apple's clients is the last.
fn as_json(
    plans: &[Plan],
    best: Option<usize>,
    devices: &Devices,
    apple: Option<&ApplePlan>,
) -> anyhow::Result<Vec<String>> {
    let json = |(i, plan)| serde_json::to_string(&line(plan, best == Some(i), devices));
    let apple = apple.into_iter().map(serde_json::to_string);
    Ok(plans.iter().enumerate().map(json).chain(apple).collect::<Result<_, _>>()?)
}

fn numbers<'a>(figures: &'a Figures, devices: &Devices) -> Numbers<'a> {
    let gpu = devices.gpu.map(|gpu| gpu.least_seconds(figures));
    let several = devices.gpus.map(|group| group.division(figures));
    let pim = devices.pim.as_ref().and_then(|pim| pim.price(figures));
    let arrangement = pim.map(|pim| pim.arrangement);
    let (gpus_fit, division) = (several.as_ref().map(Option::is_some), several.flatten());
    let Figures { params, sizes, steps, memory_bytes, lookup_seconds, ruled_out } = figures;
    Numbers {
        params: params.set.clone(),
        bins: params.bins,
        shape: params.stored.shape(),
        upload_bytes: sizes.query_bytes,
        download_bytes: sizes.answer_bytes,
        keys_bytes: sizes.keys_bytes,
        refusal_bits: (sizes.keys_bytes > 0).then(|| refusal_bits(MOST_KEY_QUERIES)),
        combined_answer_bits: (sizes.keys_bytes > 0).then(|| params.combined_answer_bits),
        hint_bytes: sizes.hint_bytes,
        memory_bytes: *memory_bytes,
        server_seconds: figures.server_seconds(),
        lookup_seconds: *lookup_seconds,
        failure: params.failure,
        worst_failure_log2: params.worst_failure.map(|failure| failure.log2),
        steps: steps.iter().map(|&(name, seconds)| Step { name, seconds }).collect(),
        gpu_fits: gpu.map(|least| least.is_some()),
        gpu_least_seconds: gpu.flatten(),
        gpus_fit,
        gpus_strategy: division.as_ref().map(|division| division.strategy.to_string()),
        gpus_bytes_each: division.as_ref().map(|division| division.device_bytes),
        gpus_reason: division.map(|division| division.reason),
        pim_clusters: arrangement.map(|arrangement| arrangement.clusters),
        pim_passes: arrangement.map(|arrangement| arrangement.passes),
        pim_queries_in_pass: arrangement.map(|arrangement| arrangement.queries),
        pim_query_seconds: arrangement.map(|arrangement| arrangement.times.total()),
        pim_queries_per_second: arrangement.map(|arrangement| arrangement.throughput),
        pim_bound: pim.map(|pim| pim.bound),
        ruled_out: ruled_out.as_deref(),
    }
}

fn line<'a>(plan: &'a Plan, recommended: bool, devices: &Devices) -> Line<'a> {
    Line {
        protocol: plan.protocol,
        keys: delivery(plan).map(KeyDelivery::name),
        recommended,
        refused: plan.outcome.as_ref().err().map(String::as_str),
        figures: plan.outcome.as_ref().ok().map(|figures| numbers(figures, devices)),
    }
}

/// Returns the delivery of a protocol's evaluation keys; `None` if the protocol has no keys.
fn delivery(plan: &Plan) -> Option<KeyDelivery> {
    match &plan.outcome {
        Ok(figures) => figures.params.key_delivery,
        Err(_) => (plan.keys != KeyDelivery::Registered).then_some(plan.keys),
    }
}

/// Formats a plan's protocol; names the delivery of keys if queries carry them.
fn name(plan: &Plan) -> String {
    match plan.keys {
        KeyDelivery::Registered => plan.protocol.into(),
        KeyDelivery::PerQuery => format!("{} {}", plan.protocol, plan.keys.name()),
    }
}

/// Returns a warning about what a lying server can learn of clients that register keys, with the
/// alternatives; `None` if clients register no keys.
fn registered_keys(figures: &Figures) -> Option<String> {
    if figures.sizes.keys_bytes == 0 {
        return None;
    }
    let combined = match figures.params.combined_answer_bits {
        bits if bits > 0.0 => {
            format!(
                ", and an accepted one up to {bits:.1} bits of an earlier index without inclusion proofs, which `build` adds by default"
            )
        }
        _ => String::new(),
    };
    Some(format!(
        "its clients register keys: to a server that lies, a refused answer reveals up to {:.0} bits about earlier look-ups{combined}. If clients must not depend on the operator's behaviour, take --keys per-query or two servers (dpf-xor)",
        refusal_bits(MOST_KEY_QUERIES)
    ))
}

/// Describes the division of a protocol's database over several GPUs.
fn division(group: GpuGroup, figures: &Figures) -> String {
    group.division(figures).map_or_else(
        || "too big, even in shares".into(),
        |division| {
            format!("{}, {} each: {}", division.strategy, bytes(division.device_bytes), division.reason)
        },
    )
}

/// Length of the longest name.
const NAME: usize = "exppack-simple per-query".len();

fn print_plans(
    plans: &[Plan],
    best: Option<usize>,
    devices: &Devices,
    apple: Option<&ApplePlan>,
) -> anyhow::Result<()> {
    let header = ["protocol", "upload", "download", "keys", "hint", "server", "memory", "look-up"];
    let row = |cells: [String; 8], gpu: Option<String>| {
        let [name, rest @ ..] = cells;
        let rest: String = rest.iter().chain(&gpu).map(|cell| format!("{cell:>11}")).collect();
        print_line(&format!("{name:<NAME$}{rest}"))
    };
    row(header.map(Into::into), devices.gpu.map(|_| "GPU, least".into()))?;
    for plan in plans {
        match &plan.outcome {
            Err(refused) => print_line(&format!("{:<NAME$}  {refused}", name(plan)))?,
            Ok(figures) => {
                let sizes = figures.sizes;
                let cells = [
                    name(plan),
                    bytes(sizes.query_bytes as u64),
                    bytes(sizes.answer_bytes as u64),
                    bytes(sizes.keys_bytes as u64),
                    bytes(sizes.hint_bytes),
                    seconds(figures.server_seconds()),
                    bytes(figures.memory_bytes),
                    seconds(figures.lookup_seconds),
                ];
                let least = |gpu: Gpu| gpu.least_seconds(figures).map_or_else(|| "too big".into(), seconds);
                row(cells, devices.gpu.map(least))?;
                if let Some(group) = devices.gpus {
                    print_line(&format!("{:<NAME$}  GPUs: {}", "", division(group, figures)))?;
                }
                if let Some(pim) = devices.pim.as_ref().and_then(|pim| pim.describe(figures)) {
                    print_line(&format!("{:<NAME$}  PIM: {pim}", ""))?;
                }
                if let Some(why) = &figures.ruled_out {
                    print_line(&format!("{:<NAME$}  {why}", ""))?;
                }
            }
        }
    }
    if let Some(apple) = apple {
        row(apple.cells(), devices.gpu.map(|_| "-".into()))?;
    }
    match best.map(|best| &plans[best]) {
        None => {
            print_line("no protocol fits: allow more memory, fewer look-ups a second, or split the table")
        }
        Some(plan) => {
            let time =
                plan.outcome.as_ref().map(|figures| seconds(figures.lookup_seconds)).unwrap_or_default();
            print_line(&format!(
                "recommended: {}, whose look-ups take a client the least time, {time}, its share of hint and keys included",
                name(plan)
            ))?;
            if let Some(warning) = plan.outcome.as_ref().ok().and_then(registered_keys) {
                print_line(&warning)?;
            }
            Ok(())
        }
    }
}

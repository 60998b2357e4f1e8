//! `spirea-lab load`: look-ups of many clients at a set rate; every answer is checked.

mod clients;
mod drive;
mod endpoint;
mod questions;
mod tally;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use spirea_chart::lines::{Axis, Chart, Series};
use spirea_client::WeakPrf;
use spirea_console::access::Access;
use spirea_console::address;
use spirea_console::output::{Format, bytes, print_line, seconds};
use spirea_console::status::Status;

use self::clients::Fleet;
use self::drive::Traffic;
use self::endpoint::{Endpoint, Reach};
use self::questions::{Questions, Source};
use self::tally::{Plan, Report};
use crate::latencies::Latencies;

/// Options of `spirea-lab load`.
#[derive(Args)]
pub struct Options {
    /// Address of the server, such as http://127.0.0.1:8080.
    #[arg(long, value_name = "URL", value_parser = address::server)]
    server: String,
    /// Address of the other server, for a database that two servers answer for.
    #[arg(long, value_name = "URL", value_parser = address::server)]
    other: Option<String>,
    /// Name of the database.
    #[arg(long, value_name = "NAME", value_parser = address::database)]
    database: String,
    /// Look-ups a second, at random times: a Poisson process.
    #[arg(long)]
    rate: f64,
    /// Duration in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Simulated clients, each with evaluation keys of its own where the protocol needs them.
    #[arg(long, default_value_t = 1)]
    clients: usize,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    access: Access,
    /// The longest that a request may take, in seconds.
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
    /// Also accept a database whose pseudorandom function has had little cryptanalysis.
    #[arg(long)]
    accept_weak_prf: bool,
    /// Seed for the times of the look-ups, their clients and their questions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object.
    #[arg(long)]
    json: bool,
    /// Draw the distribution of latencies.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Generates the load and reports the results. The status is 0, or 1 if an answer was wrong.
pub fn run(options: &Options) -> anyhow::Result<Status> {
    let duration = checked_seconds("--seconds", options.seconds)?;
    let timeout = checked_seconds("--timeout", options.timeout)?;
    ensure!(options.rate.is_finite() && options.rate > 0.0, "--rate must be above 0");
    ensure!(options.clients > 0, "--clients must be at least 1");
    // One thread per core makes queries and decodes answers; more threads would only compete for
    // the cores.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores)
        .max_blocking_threads(cores.max(2))
        .enable_all()
        .build()
        .context("the system gave no threads")?;
    let token = options.access.token()?;
    let reach = Reach { token: token.as_deref(), ca: options.access.ca.as_deref(), timeout };
    let (plan, known, tally) = runtime.block_on(async {
        let urls = [Some(&options.server), options.other.as_ref()];
        let servers = urls.into_iter().flatten().map(|url| Endpoint::new(url, &options.database, &reach));
        let servers = servers.collect::<anyhow::Result<Vec<_>>>()?;
        let weak_prf = if options.accept_weak_prf { WeakPrf::Accept } else { WeakPrf::Refuse };
        let fleet = Fleet::open(servers, &options.database, options.clients, weak_prf).await?;
        let current = fleet.current();
        let questions = Questions::open(&options.source, current.description().table(), options.seed)?;
        fleet.register().await?;
        let plan = Plan {
            database: options.database.clone(),
            protocol: current.description().params().name.into(),
            clients: options.clients,
            rate: options.rate,
            seconds: options.seconds,
        };
        let known = questions.known();
        let (clients, rate, seed) = (options.clients, options.rate, options.seed);
        let traffic = Traffic { fleet, questions, clients, rate, duration, seed };
        anyhow::Ok((plan, known, drive::run(traffic).await))
    })?;
    let (report, latencies) = plan.report(tally);
    match Format::from_flag(options.json) {
        Format::Json => print_line(&serde_json::to_string(&report)?)?,
        Format::Text => print(&report, known)?,
    }
    if let Some(file) = &options.plot {
        let drawn = chart(&report, &latencies).draw(file);
        drawn.with_context(|| format!("{}: cannot be drawn", file.display()))?;
    }
    Ok(Status::of(report.bad() == 0))
}

fn checked_seconds(option: &str, seconds: f64) -> anyhow::Result<Duration> {
    let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero());
    duration.with_context(|| format!("{option} must be above 0"))
}

fn print(report: &Report, known: bool) -> anyhow::Result<()> {
    print_line(&format!(
        "{} ({}): {} look-ups of {} client(s) in {}, {:.1} a second; {} answered, {:.1} a second",
        report.database,
        report.protocol,
        report.counts.sent,
        report.clients,
        seconds(report.seconds),
        report.rate,
        report.answered,
        report.achieved_rate
    ))?;
    print_line(&format!(
        "  latency from when a look-up was due: mean {}, p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
        seconds(report.mean_seconds),
        seconds(report.p50_seconds),
        seconds(report.p90_seconds),
        seconds(report.p99_seconds),
        seconds(report.p999_seconds),
        seconds(report.max_seconds)
    ))?;
    print_line(&format!(
        "  sent {}, received {}; at most {} behind time",
        bytes(report.counts.sent_bytes),
        bytes(report.counts.received_bytes),
        seconds(report.behind_seconds)
    ))?;
    let compared = match known {
        true => format!("{} compared with the table", report.counts.checked),
        false => "none compared, as the values are not known: only checksums tell a wrong one".into(),
    };
    print_line(&format!(
        "  answers: {} wrong, {} corrupted, {compared}",
        report.counts.wrong, report.counts.corrupted
    ))?;
    if report.counts.refreshed + report.counts.keys_sent_again > 0 {
        print_line(&format!(
            "  made anew for a new version: {}; keys sent again: {}",
            report.counts.refreshed, report.counts.keys_sent_again
        ))?;
    }
    for (why, count) in &report.counts.errors {
        print_line(&format!("  {count} not answered: {why}"))?;
    }
    Ok(())
}

/// Draws latency against the share of answers that exceed it.
fn chart(report: &Report, latencies: &Latencies) -> Chart {
    let most = latencies.count().max(1) as f64;
    // At the mark x, the chart shows the latency that 1 answer in x exceeds. There are ten marks
    // per decade.
    let marks = (0..).map(|i| 10f64.powf(f64::from(i) / 10.0)).take_while(|&x| x <= most);
    let points = marks.map(|x| (x, latencies.quantile(1.0 - 1.0 / x)));
    Chart {
        title: format!("Latency of {} ({})", report.database, report.protocol),
        subtitle: format!(
            "{:.1} look-ups a second for {}, {} clients: {} answered, {} wrong; from when each was due",
            report.rate,
            seconds(report.seconds),
            report.clients,
            report.answered,
            report.bad()
        ),
        x: Axis { label: "share of look-ups that take at most so long".into(), format: share },
        y: Axis { label: "latency".into(), format: seconds },
        series: vec![Series { name: "from due to answered".into(), points: points.collect() }],
    }
}

/// Formats 1 - 1/x as a percentage.
fn share(x: f64) -> String {
    let digits = (x.log10().ceil() as usize).saturating_sub(2);
    format!("{:.digits$}%", 100.0 * (1.0 - 1.0 / x))
}

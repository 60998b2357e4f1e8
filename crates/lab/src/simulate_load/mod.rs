//! `spirea-lab simulate-load`: latency against load, from the server's own scheduler in virtual
//! time.

mod path;
mod service;

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use spirea_chart::lines::{Axis, Chart, Series};
use spirea_console::output::{Format, print_line, seconds};
use spirea_console::status::Status;
use spirea_console::threads::Threads;
use spirea_server::ServerConfig;

use self::path::{Path, Point};
use self::service::Service;

/// Options of `spirea-lab simulate-load`.
#[derive(Args)]
pub struct Options {
    /// A snapshot whose batches are timed on this machine.
    #[arg(required_unless_present = "batch_seconds", conflicts_with = "batch_seconds")]
    snapshot: Option<PathBuf>,
    /// Times of batches, in place of a snapshot: queries=seconds, interpolated in between.
    #[arg(long, value_name = "1=0.035,32=0.4", value_parser = Service::parse)]
    batch_seconds: Option<Service>,
    /// Maximum number of queries in a batch; by default the snapshot's limit, or the largest given
    /// size. Never more than the requests that may wait.
    #[arg(long)]
    limit: Option<usize>,
    /// Requests that may wait, as for `spirea serve`.
    #[arg(long, default_value_t = ServerConfig::default().queue)]
    queue: usize,
    /// Loads, as fractions of the rate that full batches answer.
    #[arg(long, value_delimiter = ',', value_name = "SHARES", conflicts_with = "rate")]
    load: Vec<f64>,
    /// Loads, as queries a second.
    #[arg(long, value_delimiter = ',', value_name = "RATES")]
    rate: Vec<f64>,
    /// Queries at each load.
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// Seed of the arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that batches are timed with; 0 for all.
    #[arg(long, default_value = "0")]
    threads: Threads,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    /// Draw mean latency against rate.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Loads as fractions of the saturation rate, from loads with single-query batches to loads beyond
/// capacity.
const LOADS: [f64; 14] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.1];

/// Simulates and prints.
pub fn run(options: &Options) -> anyhow::Result<Status> {
    ensure!(options.queue > 0 && options.requests > 0, "--queue and --requests must be at least 1");
    let (service, largest) = service(options)?;
    let limit = options.limit.unwrap_or(largest).min(options.queue);
    ensure!(limit > 0, "--limit must be at least 1");
    let saturation = limit as f64 / service.time(limit).as_secs_f64();
    let rates = rates(options, saturation)?;
    let paths = [Path::batched(&service, options.queue, limit), Path::direct(&service, options.queue)];
    let points: Vec<Vec<Point>> = paths
        .iter()
        .map(|path| rates.iter().map(|&rate| path.at(rate, options.requests, options.seed)).collect())
        .collect();
    match Format::from_flag(options.json) {
        Format::Json => {
            for point in points.iter().flatten() {
                print_line(&serde_json::to_string(point)?)?;
            }
        }
        Format::Text => print_table(&service, limit, saturation, &points)?,
    }
    if let Some(file) = &options.plot {
        let alone = service.time(1).as_secs_f64();
        chart(limit, alone, &points)
            .draw(file)
            .with_context(|| format!("{}: cannot be drawn", file.display()))?;
        if !options.json {
            print_line(&format!("wrote {}", file.display()))?;
        }
    }
    Ok(Status::SUCCESS)
}

/// Returns the times of batches, and the largest batch size.
fn service(options: &Options) -> anyhow::Result<(Service, usize)> {
    match (&options.batch_seconds, &options.snapshot) {
        (Some(service), _) => Ok((service.clone(), service.largest())),
        (None, Some(snapshot)) => {
            let most = options.limit.unwrap_or(usize::MAX).min(options.queue);
            let service = Service::measure(snapshot, options.threads, most)?;
            let largest = service.largest();
            Ok((service, largest))
        }
        (None, None) => bail!("name a snapshot, or give --batch-seconds"),
    }
}

fn rates(options: &Options, saturation: f64) -> anyhow::Result<Vec<f64>> {
    let rates = match (options.rate.is_empty(), options.load.is_empty()) {
        (false, _) => options.rate.clone(),
        (true, false) => options.load.iter().map(|share| share * saturation).collect(),
        (true, true) => LOADS.iter().map(|share| share * saturation).collect(),
    };
    ensure!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "loads and rates must be above 0");
    Ok(rates)
}

fn print_table(
    service: &Service,
    limit: usize,
    saturation: f64,
    points: &[Vec<Point>],
) -> anyhow::Result<()> {
    print_line(&format!(
        "simulated, not measured under load: the server's scheduler in virtual time, {}",
        service.origin()
    ))?;
    print_line(&format!(
        "one query alone takes {}, {limit} together {}: full batches answer {saturation:.1} queries/s",
        seconds(service.time(1).as_secs_f64()),
        seconds(service.time(limit).as_secs_f64())
    ))?;
    for path in points {
        print_line("")?;
        print_line(&format!(
            "{:8}  {:>9}  {:>6}  {:>10}  {:>10}  {:>10}  {:>6}  {:>5}  {:>8}",
            path.first().map_or("", |point| point.path),
            "rate/s",
            "load",
            "mean",
            "p50",
            "p99",
            "batch",
            "busy",
            "refused"
        ))?;
        for point in path {
            print_line(&format!(
                "{:8}  {:>9.2}  {:>6.3}  {:>10}  {:>10}  {:>10}  {:>6.1}  {:>4.0}%  {:>7.1}%",
                "",
                point.rate,
                point.rate / saturation,
                seconds(point.mean_seconds),
                seconds(point.p50_seconds),
                seconds(point.p99_seconds),
                point.mean_batch,
                100.0 * point.utilisation,
                100.0 * point.refused_share()
            ))?;
        }
    }
    Ok(())
}

/// Draws mean latency against rate, up to the rate at which a path cannot keep up.
fn chart(limit: usize, alone: f64, points: &[Vec<Point>]) -> Chart {
    let mut series: Vec<Series> = points
        .iter()
        .map(|path| {
            let keeping_up = path.iter().filter(|point| point.refused_share() < 0.01);
            Series {
                name: path.first().map_or_else(String::new, |point| point.path.into()),
                points: keeping_up.map(|point| (point.rate, point.mean_seconds)).collect(),
            }
        })
        .collect();
    let rates = points.iter().flatten().map(|point| point.rate);
    let (least, most) =
        rates.fold((f64::MAX, 0.0f64), |(least, most), rate| (least.min(rate), most.max(rate)));
    let bound = vec![(least, 2.0 * alone), (most, 2.0 * alone)];
    series.push(Series { name: "twice a query alone".into(), points: bound });
    Chart {
        title: "Latency against load (simulated)".into(),
        subtitle: format!(
            "the server's scheduler in virtual time, Poisson arrivals, batches of at most {limit}; lines end where more than 1% is refused"
        ),
        x: Axis { label: "queries a second".into(), format: |rate| format!("{rate}") },
        y: Axis { label: "mean latency".into(), format: seconds },
        series,
    }
}

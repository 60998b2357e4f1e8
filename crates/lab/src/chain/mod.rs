//! `spirea-lab chain`: a table that changes with every block of a chain, while clients without
//! state ask for the newest accounts.

mod accounts;
mod clients;
mod ledger;
mod programs;
mod report;
mod service;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use chacha20::ChaCha20Rng;
use clap::Args;
use serde::Deserialize as _;
use spirea_console::output::{Format, note, print_line};
use spirea_console::status::Status;

use self::accounts::{Accounts, Height, generator};
use self::clients::{Answers, CLIENTS, Pace, Target};
use self::ledger::Published;
use self::programs::{Programs, Stream};
use self::report::{Memory, Outcome, Report};
use self::service::{KINDS, Service};

/// Fraction of the capacity that clients use.
const LOAD: f64 = 0.5;
/// Durations of two phases, as fractions of the time with changes: measuring the capacity, and
/// look-ups without changes. Each is at most [`LONGEST_PHASE`].
const PHASES: [f64; 2] = [0.1, 0.25];
const LONGEST_PHASE: Duration = Duration::from_secs(300);
/// Pause between two reads of the servers' versions and memory. A server keeps 16 versions, so no
/// version is missed.
const LOOK: Duration = Duration::from_millis(250);
/// Part of the error of `spirea compact` during another compaction.
const GOING_ON: &str = "a compaction is going on";
/// Minimum length of a state in bytes: enough to make every state different, with some padding.
const LEAST_STATE: usize = 40;

/// Options of `spirea-lab chain`.
#[derive(Args)]
pub struct Options {
    /// Size of the table, in GiB of states.
    #[arg(long, default_value_t = 1.0)]
    gib: f64,
    /// Bytes of an account's state.
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// Changes in a block.
    #[arg(long, default_value_t = 5000)]
    changes: usize,
    /// Time between blocks.
    #[arg(long, default_value_t = 12.0)]
    every_seconds: f64,
    /// Duration of the part with changes. A compaction is asked for in its middle, or at the first
    /// change if that is later.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// The spirea program; by default the file spirea in the folder of this program.
    #[arg(long, value_name = "FILE")]
    spirea: Option<PathBuf>,
    /// Existing folder for the tables, about 8 times their size, which are deleted at the end; by
    /// default the system's for temporary files.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Seed of the blocks and of the look-ups.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the scenario. The status is 1 if an answer was wrong or is missing, if a block was never
/// seen, or if no compaction took place.
pub fn run(options: &Options) -> anyhow::Result<Status> {
    let (every, duration) = options.times()?;
    let states = options.gib * f64::from(1 << 30) / options.value_bytes as f64;
    ensure!(
        states >= 2.0 * options.changes as f64,
        "--gib: a table must have twice as many accounts as a block has changes"
    );
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder).with_context(|| folder.display().to_string())?,
        None => tempfile::tempdir()?,
    };
    let programs = Programs::new(options.program()?, folder.path());
    let accounts = Arc::new(Accounts::new(states as u64, options.value_bytes));
    let csv = folder.path().join("accounts.csv");
    let mut table = BufWriter::new(File::create(&csv)?);
    accounts.write_csv(&mut table).and_then(|()| table.flush()).context("the table")?;
    let mut services = Vec::new();
    for kind in &KINDS {
        note(&format!("building and starting {}", kind.name));
        services.push(Service::start(&programs, kind, &csv, &accounts)?);
    }
    std::fs::remove_file(&csv)?;
    // From the first block on, every look-up asks base and delta. Without this block, the capacity
    // would be that of cheaper look-ups.
    note("publishing the first block");
    let mut rng = generator(options.seed);
    let first = accounts.lines(&accounts.next_block(options.changes, &mut rng));
    services.iter().try_for_each(|service| service.publish(&programs, options.changes, &first))?;

    let [measuring, quiet] = PHASES.map(|part| duration.mul_f64(part).min(LONGEST_PHASE));
    note("measuring how many look-ups a second the servers answer");
    let clients = 2 * thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let closed = at_once(&services, |target, _| {
        target.load(Pace::Closed(clients.min(CLIENTS)), measuring, options.seed)
    })?;
    let capacities: Vec<f64> =
        closed.iter().map(|answers| answers.count() as f64 / measuring.as_secs_f64()).collect();
    ensure!(capacities.iter().all(|&rate| rate > 0.0), "no look-up was answered in {measuring:?}");
    let rates: Vec<f64> = capacities.iter().map(|capacity| LOAD * capacity).collect();
    note("asking without changes");
    let calm = at_once(&services, |target, i| target.load(Pace::Open(rates[i]), quiet, options.seed + 1))?;
    note("asking with changes");
    let traffic = Traffic { options, programs: &programs, every, duration, rates: &rates };
    let changed = traffic.run(&accounts, rng, &mut services)?;

    let mut databases = Vec::new();
    let parts = services.iter().zip(closed).zip(calm).zip(changed.services).enumerate();
    for (i, (((service, closed), calm), changed)) in parts {
        databases.push(changed.outcome(&service.target, [capacities[i], rates[i]], closed, calm));
    }
    let report = Report {
        name: "chain",
        accounts: accounts.first(),
        value_bytes: options.value_bytes,
        changes: options.changes,
        every_seconds: options.every_seconds,
        minutes: options.minutes,
        blocks: changed.blocks,
        databases,
    };
    match Format::from_flag(options.json) {
        Format::Json => print_line(&serde_json::to_string(&report)?)?,
        Format::Text => report.print()?,
    }
    Ok(Status::of(report.holds()))
}

impl Options {
    /// Returns the time between blocks, and the time with changes.
    fn times(&self) -> anyhow::Result<(Duration, Duration)> {
        ensure!(self.changes > 0, "--changes must be at least 1");
        ensure!(self.value_bytes >= LEAST_STATE, "--value-bytes must be at least {LEAST_STATE}");
        let time = |option: &str, seconds: f64| {
            let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
            time.with_context(|| format!("{option} must be above 0"))
        };
        let (every, duration) =
            (time("--every-seconds", self.every_seconds)?, time("--minutes", 60.0 * self.minutes)?);
        ensure!(duration >= 4 * every, "--minutes: at least 4 blocks must fit");
        Ok((every, duration))
    }

    /// Returns the path of the program.
    fn program(&self) -> anyhow::Result<PathBuf> {
        let program = match &self.spirea {
            Some(program) => std::path::absolute(program)?,
            None => std::env::current_exe()?.with_file_name("spirea"),
        };
        ensure!(program.is_file(), "{}: there is no such program; give --spirea FILE", program.display());
        Ok(program)
    }
}

/// Does `work` for all services at the same time. Returns the results in their order.
fn at_once<T: Send>(
    services: &[Service],
    work: impl Fn(&Target, usize) -> T + Sync,
) -> anyhow::Result<Vec<T>> {
    thread::scope(|scope| {
        let (work, mut running) = (&work, Vec::new());
        for (i, service) in services.iter().enumerate() {
            let target = Arc::clone(&service.target);
            running.push(scope.spawn(move || work(&target, i)));
        }
        running.into_iter().map(joined).collect()
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> anyhow::Result<T> {
    thread.join().map_err(|_| anyhow!("a thread was aborted by a defect"))
}

/// The part of the scenario in which the table changes.
struct Traffic<'a> {
    options: &'a Options,
    programs: &'a Programs,
    every: Duration,
    duration: Duration,
    rates: &'a [f64],
}

/// Results of the part with changes.
struct Changed {
    /// Number of blocks after the first one.
    blocks: u32,
    services: Vec<ChangedService>,
}

/// Results of the part with changes at one service.
struct ChangedService {
    answers: Answers,
    /// Delays of the blocks until their versions were reported.
    published: Vec<f64>,
    /// Delays of the blocks until an answer came from a version with the block; `None` for a block
    /// that was never seen.
    seen: Vec<Option<f64>>,
    probed: Answers,
    blocks: u32,
    /// Start and end of the requested compaction.
    compaction: [Instant; 2],
    memory: Vec<Memory>,
}

impl ChangedService {
    /// Judges all answers of a service.
    fn outcome(self, target: &Target, [capacity, rate]: [f64; 2], closed: Answers, calm: Answers) -> Outcome {
        let [began, ended] = self.compaction;
        let (quiet, changing) = (calm.latencies(|_| true), self.answers.latencies(|_| true));
        let compacting = self.answers.latencies(|due| (began..ended).contains(&due));
        let loads = [closed, calm, self.answers, self.probed];
        // Both lists have the blocks in the order of publication.
        let after = |(published, seen): (&f64, &Option<f64>)| seen.map(|seen| seen - published);
        let then_visible: Vec<f64> = self.published.iter().zip(&self.seen).filter_map(after).collect();
        let seen: Vec<f64> = self.seen.into_iter().flatten().collect();
        Outcome {
            database: target.database.clone(),
            capacity,
            rate,
            judged: loads.iter().map(|answers| target.judge(answers)).sum(),
            quiet: quiet.into(),
            changing: changing.into(),
            compacting: compacting.into(),
            published: self.published.into(),
            invisible: self.blocks as usize - seen.len(),
            visible: seen.into(),
            then_visible: then_visible.into(),
            versions: target.ledger.versions(),
            compactions: target.ledger.compactions(),
            compaction_seconds: (ended - began).as_secs_f64(),
            memory: self.memory,
        }
    }
}

/// A block's number and lines, on the way to a stream.
type Lines = (Height, Arc<Vec<u8>>);

impl Traffic<'_> {
    /// Runs the part with changes.
    fn run(
        &self,
        accounts: &Accounts,
        rng: ChaCha20Rng,
        services: &mut [Service],
    ) -> anyhow::Result<Changed> {
        let stop = AtomicBool::new(false);
        let (blocks, parts, memory) = thread::scope(|scope| {
            let (stop, shared) = (&stop, &*services);
            let watching = scope.spawn(move || watch(shared, stop));
            let (mut senders, mut running) = (Vec::new(), Vec::new());
            for (service, &rate) in shared.iter().zip(self.rates) {
                let (sender, lines) = channel();
                senders.push(sender);
                running.push(scope.spawn(move || self.serve(service, rate, &lines, stop)));
            }
            let blocks = self.produce(accounts, rng, senders);
            let parts: anyhow::Result<Vec<_>> = running.into_iter().map(|part| joined(part)?).collect();
            stop.store(true, Ordering::Relaxed);
            let memory = joined(watching)??;
            anyhow::Ok((blocks, parts?, memory))
        })?;
        for service in &mut *services {
            service.servers.iter_mut().try_for_each(programs::Server::check)?;
            service.look()?;
        }
        let mut memory = memory.into_iter();
        let services = services.iter().zip(parts).map(|(service, part)| ChangedService {
            blocks,
            memory: memory.by_ref().take(service.servers.len()).collect(),
            ..part
        });
        Ok(Changed { blocks, services: services.collect() })
    }

    /// Sends a block to all streams at each interval. Returns the number of these blocks.
    fn produce(&self, accounts: &Accounts, mut rng: ChaCha20Rng, senders: Vec<Sender<Lines>>) -> u32 {
        let began = Instant::now();
        let mut blocks = 0;
        while self.every * (blocks + 1) <= self.duration {
            thread::sleep((began + self.every * blocks).saturating_duration_since(Instant::now()));
            let block = accounts.next_block(self.options.changes, &mut rng);
            let lines = Arc::new(accounts.lines(&block));
            blocks += 1;
            // A service that failed no longer receives blocks; its error is reported at the end.
            senders.iter().for_each(|sender| drop(sender.send((block.height, Arc::clone(&lines)))));
        }
        thread::sleep((began + self.duration).saturating_duration_since(Instant::now()));
        blocks
    }

    /// Sends look-ups to a service, probes it, streams the blocks to it, and requests a compaction.
    /// The compaction is in the middle, or at the first change if that is later.
    fn serve(
        &self,
        service: &Service,
        rate: f64,
        blocks: &Receiver<Lines>,
        stop: &AtomicBool,
    ) -> anyhow::Result<ChangedService> {
        let target = &*service.target;
        let mut stream = service.stream(self.programs, self.options.changes)?;
        let output = stream.take_lines();
        thread::scope(|scope| {
            let seed = self.options.seed + 2;
            let asking = scope.spawn(move || target.load(Pace::Open(rate), self.duration, seed));
            let (changed, first_change) = channel();
            let compacting = scope.spawn(move || {
                thread::sleep(self.duration / 2);
                // Before the first change there is nothing to compact. The stream may also end
                // without a change.
                let _ = first_change.recv();
                let began = Instant::now();
                let place = ["--server", service.admin(), "--database", &target.database];
                alone(|| self.programs.run(&[&["compact"][..], &place].concat()))?;
                anyhow::Ok([began, Instant::now()])
            });
            let (sender, published) = channel();
            let reading = scope.spawn(move || -> anyhow::Result<Vec<f64>> {
                let mut delays = Vec::new();
                // The first line has the cursor to resume after, and no version.
                for line in output.iter().skip(1) {
                    let version = Published::deserialize(&line).with_context(|| line.to_string())?;
                    target.ledger.add(&version);
                    delays.extend(target.ledger.since(version.height()));
                    let _ = changed.send(());
                    // The probe may have ended already.
                    let _ = sender.send(version.height());
                }
                Ok(delays)
            });
            let probing = scope.spawn(move || target.probe(&published, stop));
            let streamed = send(&mut stream, target, blocks);
            let (answers, compaction) = (joined(asking)?, joined(compacting)??);
            let published = joined(reading)??;
            let (seen, probed) = joined(probing)?;
            streamed?;
            Ok(ChangedService { answers, published, seen, probed, blocks: 0, compaction, memory: Vec::new() })
        })
    }
}

/// Runs `compact` again and again until no other compaction is in the way: a server also starts
/// compactions itself.
fn alone(mut compact: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    loop {
        match compact() {
            Err(error) if error.to_string().contains(GOING_ON) => thread::sleep(LOOK),
            done => return done,
        }
    }
}

/// Sends blocks to a stream until there are no more, and ends the stream.
fn send(stream: &mut Stream, target: &Target, blocks: &Receiver<Lines>) -> anyhow::Result<()> {
    for (height, lines) in blocks {
        target.ledger.send(height);
        stream.send(&lines)?;
    }
    stream.finish()
}

/// Repeatedly records the versions and the memory of the servers. Returns the memory.
fn watch(services: &[Service], stop: &AtomicBool) -> anyhow::Result<Vec<Memory>> {
    let servers = || services.iter().flat_map(|service| &service.servers);
    let mut seen: Vec<Memory> = servers()
        .map(|server| {
            let now = server.memory().unwrap_or_default();
            Memory { server: server.name().into(), before: now, most: now, end: now }
        })
        .collect();
    while !stop.load(Ordering::Relaxed) {
        services.iter().try_for_each(Service::look)?;
        for (memory, server) in seen.iter_mut().zip(servers()) {
            memory.end = server.memory().unwrap_or_default();
            memory.most = memory.most.max(memory.end);
        }
        thread::sleep(LOOK);
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_compaction_waits_for_another_one() {
        let mut refusals = 2;
        let compact = || match refusals {
            0 => Ok(()),
            _ => {
                refusals -= 1;
                bail!("409 Conflict: {GOING_ON}; wait for it")
            }
        };
        alone(compact).unwrap();
        assert_eq!(refusals, 0);
        assert_eq!(alone(|| bail!("no server")).unwrap_err().to_string(), "no server");
    }
}

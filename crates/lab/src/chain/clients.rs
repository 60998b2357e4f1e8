//! Clients of a service: an open loop of look-ups whose answers are kept for judging, and a probe
//! that waits for each block.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use spirea_client::{ClientError, ClientOptions, HttpClient, Keep};
use spirea_console::output::explained;
use spirea_engine::scheduler::simulation::poisson;
use spirea_wire::Version;

use super::accounts::{Accounts, Height, generator, key};
use super::ledger::Ledger;

/// Number of clients of a service. Each makes one look-up at a time, so this bounds the look-ups
/// under way; a look-up that waits for a client counts that time as latency.
pub const CLIENTS: u64 = 16;
/// Time after which the probe gives up on a block that is not visible.
const PATIENCE: Duration = Duration::from_secs(600);

/// Servers of a database, and its versions.
pub struct Target {
    /// Name of the database.
    pub database: String,
    /// Addresses of its one or two servers.
    pub urls: Vec<String>,
    /// Its accounts.
    pub accounts: Arc<Accounts>,
    /// Its versions.
    pub ledger: Ledger,
}

/// An answered look-up.
struct Answer {
    account: u64,
    version: Version,
    value: Option<Vec<u8>>,
    /// Newest block when the look-up was due.
    newest: Height,
    /// Seconds from when the look-up was due until its value was decoded.
    latency: f64,
    /// Time when the look-up was due.
    due: Instant,
}

/// Pace of a load.
#[derive(Clone, Copy)]
pub enum Pace {
    /// Closed loop with this number of clients, each of which asks again as soon as it has its
    /// answer.
    Closed(u64),
    /// Open loop with this number of look-ups per second, due at random times whether or not
    /// earlier look-ups have been answered.
    Open(f64),
}

/// Answers of a load, and the reasons for missing answers.
#[derive(Default)]
pub struct Answers {
    answered: Vec<Answer>,
    lost: BTreeMap<String, u64>,
}

/// Counts of judged look-ups.
#[derive(Debug, Default, Serialize)]
pub struct Judged {
    /// Number of look-ups that were due.
    pub sent: u64,
    /// Answers whose value differs from the account's state in the version that answered.
    pub wrong: u64,
    /// Answers from versions that nobody published.
    pub unknown: u64,
    /// Look-ups without an answer.
    pub lost: u64,
    /// Look-ups without an answer, by reason.
    pub errors: BTreeMap<String, u64>,
    /// Answers from a version older than the newest version at the time when the look-up was due.
    pub older: u64,
    /// Largest number of blocks by which an answer was older.
    pub most_blocks_older: Height,
}

impl Target {
    /// Connects a client that keeps nothing on disk.
    fn connect(&self) -> Result<HttpClient, ClientError> {
        let urls: Vec<&str> = self.urls.iter().map(String::as_str).collect();
        let options = ClientOptions { keep: Keep::Memory, ..ClientOptions::default() };
        HttpClient::connect_with(&urls, &self.database, options)
    }

    /// Makes look-ups for `duration`, and returns their answers.
    pub fn load(&self, pace: Pace, duration: Duration, seed: u64) -> Answers {
        let (clients, rate) = match pace {
            Pace::Closed(clients) => (clients, None),
            Pace::Open(rate) => (CLIENTS, Some(rate)),
        };
        let times = Mutex::new(rate.map(|rate| poisson(rate, seed)));
        let answers = Mutex::new(Answers::default());
        let began = Instant::now();
        let next = || match &mut *times.lock() {
            Some(times) => times.next().map(|at| began + at),
            None => Some(Instant::now()),
        };
        thread::scope(|scope| {
            for number in 0..clients {
                let (next, answers) = (&next, &answers);
                scope.spawn(move || {
                    let mut client = None;
                    let mut rng = generator(seed ^ (number + 1) << 32);
                    while let Some(due) = next().filter(|&due| due < began + duration) {
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                        let newest = self.ledger.newest();
                        let account = self.accounts.draw(newest, &mut rng);
                        let answer = self.ask(&mut client, account);
                        let mut answers = answers.lock();
                        match answer {
                            Ok((value, version)) => {
                                let latency = due.elapsed().as_secs_f64();
                                answers.answered.push(Answer {
                                    account,
                                    version,
                                    value,
                                    newest,
                                    latency,
                                    due,
                                });
                            }
                            Err(error) => *answers.lost.entry(explained(&error.into())).or_default() += 1,
                        }
                    }
                });
            }
        });
        answers.into_inner()
    }

    /// Looks up an account, by a client that is connected first if there is none.
    fn ask(
        &self,
        client: &mut Option<HttpClient>,
        account: u64,
    ) -> Result<(Option<Vec<u8>>, Version), ClientError> {
        let connected = match client {
            Some(client) => client,
            None => client.insert(self.connect()?),
        };
        let mut found = connected.look_up_keys(&[key(account).as_bytes()])?;
        let value = found.values.remove(0).and_then(|value| value.into_fields().pop());
        Ok((value, found.versions[0]))
    }

    /// For each published block, waits until an answer comes from a version that contains the
    /// block. Returns the seconds between sending the block to the stream and this answer; `None`
    /// for a block that was never seen.
    pub fn probe(&self, published: &Receiver<Height>, stop: &AtomicBool) -> (Vec<Option<f64>>, Answers) {
        let (mut client, mut rng) = (None, generator(0));
        let (mut seen, mut answers) = (Vec::new(), Answers::default());
        for height in published {
            let began = Instant::now();
            let delay = loop {
                if began.elapsed() > PATIENCE || stop.load(Ordering::Relaxed) {
                    break None;
                }
                let (account, due) = (self.accounts.draw(height, &mut rng), Instant::now());
                let (value, version) = match self.ask(&mut client, account) {
                    Ok(answer) => answer,
                    Err(error) => {
                        *answers.lost.entry(explained(&error.into())).or_default() += 1;
                        continue;
                    }
                };
                let latency = due.elapsed().as_secs_f64();
                answers.answered.push(Answer { account, version, value, newest: height, latency, due });
                if self.ledger.height(&version).is_some_and(|found| found >= height) {
                    break self.ledger.since(height);
                }
            };
            seen.push(delay);
        }
        (seen, answers)
    }

    /// Compares answers with the accounts' states in the versions that gave them.
    pub fn judge(&self, answers: &Answers) -> Judged {
        let lost = answers.lost.values().sum();
        let mut judged = Judged {
            sent: answers.answered.len() as u64 + lost,
            lost,
            errors: answers.lost.clone(),
            ..Judged::default()
        };
        for answer in &answers.answered {
            let Some(height) = self.ledger.height(&answer.version) else {
                judged.unknown += 1;
                continue;
            };
            let right = self.accounts.state_at(answer.account, height);
            judged.wrong += u64::from(answer.value.as_deref() != right.as_deref().map(str::as_bytes));
            judged.older += u64::from(height < answer.newest);
            judged.most_blocks_older = judged.most_blocks_older.max(answer.newest.saturating_sub(height));
        }
        judged
    }
}

impl Answers {
    /// Number of answers.
    pub fn count(&self) -> usize {
        self.answered.len()
    }

    /// Latencies in seconds of the look-ups that were due within the given times.
    pub fn latencies(&self, times: impl Fn(Instant) -> bool) -> Vec<f64> {
        self.answered.iter().filter(|answer| times(answer.due)).map(|answer| answer.latency).collect()
    }
}

impl Sum for Judged {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |mut sum, part| {
            sum.sent += part.sent;
            sum.wrong += part.wrong;
            sum.unknown += part.unknown;
            sum.lost += part.lost;
            sum.older += part.older;
            sum.most_blocks_older = sum.most_blocks_older.max(part.most_blocks_older);
            for (why, count) in part.errors {
                *sum.errors.entry(why).or_default() += count;
            }
            sum
        })
    }
}

//! Open-loop load generator: a look-up is sent when it is due, even if earlier ones have no answers
//! yet.
//!
//! A look-up's latency counts from the time when it was due. Hence a slow server cannot hide its
//! queue by keeping the generator waiting, nor can the generator hide its own delays.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chacha20::ChaCha20Rng;
use parking_lot::Mutex;
use rand_core::{Rng as _, SeedableRng as _};
use spirea_client::{ClientError, Value};
use spirea_console::output::explained;
use spirea_engine::scheduler::simulation::poisson;
use spirea_wire::{Code, Limits, Version};
use tokio::task::{JoinHandle, JoinSet};

use super::clients::{Fleet, Prepared, may_be_stale};
use super::endpoint::Failure;
use super::questions::{Ask, Questions};
use super::tally::Tally;

/// Memory for requests that are made ahead of time, in bytes. They are made ahead so that the
/// client's work does not count as the server's.
const AHEAD_BYTES: usize = 64 << 20;
/// Maximum number of requests that are made ahead of time.
const AHEAD: usize = 64;
/// Maximum number of times that a look-up is sent: versions and keys may change, but not for ever.
const ATTEMPTS: usize = 4;

/// The look-ups to make.
pub struct Traffic {
    /// Clients that ask.
    pub fleet: Fleet,
    /// Questions that they ask.
    pub questions: Questions,
    /// Number of clients.
    pub clients: usize,
    /// Look-ups per second.
    pub rate: f64,
    /// Time during which look-ups fall due.
    pub duration: Duration,
    /// Seed for the times, clients and questions.
    pub seed: u64,
}

/// A look-up.
struct Lookup {
    client: usize,
    ask: Ask,
    which: Option<usize>,
    id: String,
}

/// State shared by the look-ups.
struct Shared {
    traffic: Traffic,
    tally: Mutex<Tally>,
    began: Instant,
}

type Ready = JoinHandle<(Lookup, anyhow::Result<Prepared>)>;

/// Runs until all look-ups have ended. After an interruption, waits only for look-ups that have
/// been sent.
pub async fn run(traffic: Traffic) -> Tally {
    let mut rng = ChaCha20Rng::seed_from_u64(traffic.seed);
    let (rate, duration, seed) = (traffic.rate, traffic.duration, traffic.seed);
    let limits = traffic.fleet.current().description().limits();
    let query_bytes: usize = limits.parts().map(|part| part.query_bytes).sum();
    let ahead = (AHEAD_BYTES / query_bytes.max(1)).clamp(2, AHEAD);
    let shared = Arc::new(Shared { traffic, tally: Mutex::default(), began: Instant::now() });
    let mut times = poisson(rate, seed).take_while(|&at| at < duration);
    let mut coming: VecDeque<(Duration, Ready)> = VecDeque::new();
    let mut open = JoinSet::new();
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        while coming.len() < ahead {
            let Some(at) = times.next() else { break };
            coming.push_back((at, shared.make(&mut rng)));
        }
        let Some((at, ready)) = coming.pop_front() else { break };
        let due = shared.began + at;
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => (),
            _ = &mut interrupted => break,
        }
        let Ok((lookup, prepared)) = ready.await else { continue };
        shared.note(|tally| {
            tally.counts.sent += 1;
            tally.behind = tally.behind.max(due.elapsed().as_secs_f64());
        });
        open.spawn(Arc::clone(&shared).look_up(due, lookup, prepared));
        while open.try_join_next().is_some() {}
    }
    while open.join_next().await.is_some() {}
    let tally = &mut *shared.tally.lock();
    std::mem::take(tally)
}

impl Shared {
    fn note(&self, note: impl FnOnce(&mut Tally)) {
        note(&mut self.tally.lock());
    }

    /// Starts to make a look-up.
    fn make(self: &Arc<Self>, rng: &mut ChaCha20Rng) -> Ready {
        let client = (rng.next_u64() % self.traffic.clients as u64) as usize;
        let (ask, which) = self.traffic.questions.draw(rng);
        let id = format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64());
        let (shared, lookup) = (Arc::clone(self), Lookup { client, ask, which, id });
        tokio::spawn(async move {
            let prepared = shared.traffic.fleet.prepare(lookup.client, &lookup.ask).await;
            (lookup, prepared)
        })
    }

    async fn look_up(self: Arc<Self>, due: Instant, lookup: Lookup, prepared: anyhow::Result<Prepared>) {
        let outcome = self.exchange(&lookup, prepared).await;
        let latency = due.elapsed().as_secs_f64();
        let ended = self.began.elapsed().as_secs_f64();
        self.note(|tally| tally.ended = tally.ended.max(ended));
        let (prepared, responses) = match outcome {
            Ok(answered) => answered,
            Err(why) => return self.note(|tally| tally.error(why)),
        };
        // Decoding is the client's work and does not count as latency.
        let (shared, version) = (Arc::clone(&self), prepared.version);
        let checked = tokio::task::spawn_blocking(move || shared.check(lookup.which, prepared, responses));
        let (verdict, newest) = checked.await.unwrap_or((Verdict::Corrupted, None));
        if newest.is_some_and(|newest| newest != version) {
            // The next look-up is made for the newer version. If the fetch fails now, that look-up
            // reports the error.
            let _ = self.traffic.fleet.refresh(&version).await;
        }
        self.note(|tally| match verdict {
            Verdict::Unusable => tally.failed(&Failure::Unusable),
            verdict => {
                tally.latencies.push(latency);
                tally.counts.checked += u64::from(matches!(verdict, Verdict::Right | Verdict::Wrong));
                tally.counts.wrong += u64::from(matches!(verdict, Verdict::Wrong));
                tally.counts.corrupted += u64::from(matches!(verdict, Verdict::Corrupted));
            }
        });
    }

    /// Sends a look-up. Returns the responses with the requests to which they belong, or the reason
    /// why there are no responses.
    async fn exchange(
        &self,
        lookup: &Lookup,
        prepared: anyhow::Result<Prepared>,
    ) -> Result<(Prepared, Vec<Bytes>), String> {
        let unprepared = |error: anyhow::Error| format!("not sent: {}", explained(&error));
        let mut prepared = prepared.map_err(unprepared)?;
        let fleet = &self.traffic.fleet;
        let mut requests = prepared.requests.clone();
        for _ in 0..ATTEMPTS {
            let failure = match self.ask(&prepared.limits, &requests, &lookup.id).await {
                Ok(responses) => return Ok((prepared, responses)),
                Err(failure) => failure,
            };
            if failure.refused_for() == Some(Code::UnknownKeys) {
                self.note(|tally| tally.counts.keys_sent_again += 1);
                requests = prepared.requests_with_keys();
            } else if may_be_stale(&failure) {
                if !fleet.refresh(&prepared.version).await.map_err(unprepared)? {
                    return Err(failure.to_string());
                }
                self.note(|tally| tally.counts.refreshed += 1);
                prepared = fleet.prepare(lookup.client, &lookup.ask).await.map_err(unprepared)?;
                requests = prepared.requests.clone();
            } else {
                return Err(failure.to_string());
            }
        }
        Err("refused time after time as stale or without keys".into())
    }

    /// Sends a look-up's requests to all servers at the same time.
    async fn ask(&self, limits: &Limits, requests: &[Bytes], id: &str) -> Result<Vec<Bytes>, Failure> {
        let limit = limits.response_bytes(1);
        let servers = self.traffic.fleet.servers();
        let ask = |party: usize| servers[party].post("query", id, requests[party].clone(), limit);
        let responses = match servers.len() {
            1 => vec![ask(0).await?],
            _ => {
                let (first, second) = tokio::try_join!(ask(0), ask(1))?;
                vec![first, second]
            }
        };
        self.note(|tally| {
            tally.counts.sent_bytes += requests.iter().map(|request| request.len() as u64).sum::<u64>();
            tally.counts.received_bytes +=
                responses.iter().map(|response| response.len() as u64).sum::<u64>();
        });
        Ok(responses)
    }

    /// Judges the responses; returns also the newest version that they name.
    fn check(
        &self,
        which: Option<usize>,
        prepared: Prepared,
        responses: Vec<Bytes>,
    ) -> (Verdict, Option<Version>) {
        let session = prepared.client.session();
        let read: Result<Vec<_>, _> =
            responses.into_iter().map(|response| session.read(1, response)).collect();
        let Ok(responses) = read else { return (Verdict::Unusable, None) };
        let newest =
            responses.iter().map(|response| response.newest).find(|newest| *newest != prepared.version);
        let answered = match session.decode(prepared.pending, &responses) {
            Ok(answered) => answered,
            // The keys have ended because another answer to this client was wrong.
            Err(ClientError::KeysEnded) => return (Verdict::Unusable, newest),
            Err(_) => return (Verdict::Corrupted, newest),
        };
        let fields = answered.values.into_iter().next().flatten().map(Value::into_fields);
        let verdict = match self.traffic.questions.check(which, &fields) {
            None => Verdict::Unknown,
            Some(true) => Verdict::Right,
            Some(false) => Verdict::Wrong,
        };
        (verdict, newest)
    }
}

/// Verdict on an answer.
enum Verdict {
    Right,
    Wrong,
    /// The checksum is right; the right value is not known.
    Unknown,
    Corrupted,
    /// The response is not the expected message.
    Unusable,
}

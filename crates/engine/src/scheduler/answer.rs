//! Computation of a batch: one call for each database, and the treatment of failures.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use spirea_protocols::{PreparedKeys, ProtocolError, Query};

use crate::{Database, EngineError};

/// Queries of a request to one database; their lengths have been checked.
pub struct DatabaseQueries {
    /// The database.
    pub database: Arc<Database>,
    /// The client's keys, held until they have been used, even if the registry drops them before.
    pub keys: Option<PreparedKeys>,
    /// The queries, at least one.
    pub queries: Vec<Bytes>,
}

impl DatabaseQueries {
    fn as_queries(&self) -> impl Iterator<Item = Query<'_>> {
        self.queries.iter().map(|bytes| Query { bytes, keys: self.keys.as_ref() })
    }
}

/// The time of each step, by its name.
pub type Steps = BTreeMap<&'static str, Duration>;

/// Time since a fixed instant.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Results for a request.
pub(super) struct Computed {
    /// For each part, an answer for each query.
    pub answers: Vec<Vec<Bytes>>,
    /// Time of the computation that the request shared.
    pub time: Duration,
    /// The time of that computation's steps.
    pub steps: Arc<Steps>,
    /// Number of requests that shared it.
    pub requests: usize,
}

/// Answers requests together, with one outcome for each.
///
/// A query that cannot be read fails the whole computation, and so does a query that triggers a
/// defect. Each half of the requests is then answered separately, and so on. In the end only
/// requests fail that would also fail alone.
pub(super) fn answer(
    requests: &[Vec<DatabaseQueries>],
    clock: &Clock,
    outcomes: &mut Vec<Result<Computed, EngineError>>,
) {
    let started = clock();
    // Queries change no state of a responder, so a panic leaves nothing half changed.
    let together = catch_unwind(AssertUnwindSafe(|| answer_together(requests)));
    let time = clock().saturating_sub(started);
    match together.unwrap_or(Err(EngineError::Panicked)) {
        Ok(answers) => {
            let steps = Arc::new(steps(requests));
            let requests = requests.len();
            outcomes.extend(
                answers
                    .into_iter()
                    .map(|answers| Ok(Computed { answers, time, steps: Arc::clone(&steps), requests })),
            );
        }
        // Splitting the batch would not help: the machines are gone for every request.
        Err(EngineError::Protocol(ProtocolError::Unanswered(cause))) => {
            let unanswered = || Err(ProtocolError::Unanswered(cause.clone()).into());
            outcomes.extend(requests.iter().map(|_| unanswered()));
        }
        Err(error) if requests.len() == 1 => outcomes.push(Err(error)),
        Err(_) => {
            let (first, second) = requests.split_at(requests.len() / 2);
            answer(first, clock, outcomes);
            answer(second, clock, outcomes);
        }
    }
}

/// Returns the answers by request and part.
fn answer_together(requests: &[Vec<DatabaseQueries>]) -> Result<Vec<Vec<Vec<Bytes>>>, EngineError> {
    let mut answers: Vec<Vec<Vec<Bytes>>> =
        requests.iter().map(|parts| vec![Vec::new(); parts.len()]).collect();
    for database in databases(requests) {
        let is_here = |part: &&DatabaseQueries| part.database.instance() == database.instance();
        let parts = requests.iter().flatten().filter(is_here);
        let queries: Vec<Query<'_>> = parts.flat_map(DatabaseQueries::as_queries).collect();
        let mut computed = Vec::with_capacity(queries.len());
        // The batch size follows the first part's database; another database may take fewer queries
        // at once.
        for queries in queries.chunks(database.max_batch()) {
            computed.extend(database.answer(queries)?);
        }
        let mut computed = computed.into_iter();
        for (part, answers) in requests.iter().flatten().zip(answers.iter_mut().flatten()) {
            if is_here(&part) {
                answers.extend(computed.by_ref().take(part.queries.len()));
            }
        }
    }
    Ok(answers)
}

/// Returns the databases' step times, added up.
fn steps(requests: &[Vec<DatabaseQueries>]) -> Steps {
    let mut steps = Steps::new();
    for (step, time) in databases(requests).into_iter().flat_map(|database| database.take_steps()) {
        *steps.entry(step).or_default() += time;
    }
    steps
}

/// Returns the databases that the requests are for, each once.
fn databases(requests: &[Vec<DatabaseQueries>]) -> Vec<&Arc<Database>> {
    let mut databases: Vec<&Arc<Database>> = Vec::new();
    for part in requests.iter().flatten() {
        if databases.iter().all(|database| database.instance() != part.database.instance()) {
            databases.push(&part.database);
        }
    }
    databases
}

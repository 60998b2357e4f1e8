//! Responder of a database whose rows lie on other machines: asks all shares at the same time and
//! combines their partials to the answers.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::try_join_all;
use parking_lot::Mutex;
use spirea_backend::Share;
use spirea_engine::current_trace;
use spirea_protocols::{
    BatchDigest, KeysHash, Partial, PreparedKeys, ProtocolError, Query, Responder, Sizes, Version,
};
use spirea_wire::ShareRequest;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::group::{Answered, Group, Patience};
use crate::rate::Rate;
use crate::replica::{Ask, Replica};
use crate::standing::Offence;

const NO_COMBINING: &str = "its partials do not combine with those of other shares, and another replica's do";

/// The shares of a snapshot on other machines.
pub(crate) struct RemoteShares {
    /// Combines partials to answers; has no rows.
    joins: Box<dyn Responder>,
    shares: Shares,
    patience: Patience,
    runtime: Handle,
    ending: Ending,
}

/// Signal that the coordinator ends. It cancels the batches under way: they wait on the
/// coordinator's runtime, which must outlive them.
#[derive(Clone, Debug)]
pub(crate) struct Ending(Arc<watch::Sender<bool>>);

impl Ending {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Cancels all batches, and waits until none is under way.
    pub async fn end(&self) {
        self.0.send_replace(true);
        self.0.closed().await;
    }

    /// Waits for a batch, unless the coordinator ends.
    async fn unless_ended<T>(
        &self,
        batch: impl Future<Output = Result<T, ProtocolError>>,
    ) -> Result<T, ProtocolError> {
        // `end` waits until this receiver is dropped.
        let mut ended = self.0.subscribe();
        let outcome = tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => None,
            outcome = batch => Some(outcome),
        };
        outcome.unwrap_or_else(|| Err(ProtocolError::Unanswered("the coordinator ends".into())))
    }
}

/// Replicas of a snapshot's shares, in order, and the rate of answered queries.
#[derive(Clone)]
pub(crate) struct Shares {
    pub version: Version,
    pub groups: Arc<Vec<Group>>,
    pub answered: Arc<Mutex<Rate>>,
}

impl Shares {
    /// Returns true if each share has a replica that can be asked.
    pub fn are_ready(&self) -> bool {
        self.groups.iter().all(|group| group.ready() > 0)
    }

    /// Returns the maximum number of concurrent batches: the smallest number of ready replicas of
    /// any share, plus one, so that workers compute while the coordinator combines earlier
    /// partials.
    pub fn slots(&self) -> usize {
        self.groups.iter().map(Group::ready).min().unwrap_or(0) + 1
    }
}

/// A client's keys: prepared for combining, and as bytes for shares that need them.
struct RemoteKeys {
    joining: PreparedKeys,
    hash: KeysHash,
    bytes: Bytes,
}

impl RemoteShares {
    /// Creates a responder that asks `shares` and combines with `joins`, which has no rows.
    pub fn new(
        joins: Box<dyn Responder>,
        shares: Shares,
        patience: Patience,
        (runtime, ending): (Handle, Ending),
    ) -> Self {
        Self { joins, shares, patience, runtime, ending }
    }

    /// Encodes the batch for the wire, and collects the keys that it names.
    fn ask(&self, queries: &[Query<'_>], keys: &[Option<&RemoteKeys>]) -> Result<Ask, ProtocolError> {
        let mut named: Vec<(KeysHash, Bytes)> = Vec::new();
        let mut asked = Vec::with_capacity(queries.len());
        for (query, keys) in queries.iter().zip(keys) {
            let place = match keys {
                Some(keys) if self.joins.partial_keys_bytes() > 0 => {
                    let known = named.iter().position(|(hash, _)| *hash == keys.hash);
                    Some(known.unwrap_or_else(|| {
                        named.push((keys.hash, keys.bytes.clone()));
                        named.len() - 1
                    }))
                }
                None if self.joins.partial_keys_bytes() > 0 => {
                    let detail = "it names no keys".into();
                    return Err(ProtocolError::Malformed { what: "query", detail });
                }
                _ => None,
            };
            asked.push((place, Bytes::copy_from_slice(query.bytes)));
        }
        let keys = named.iter().map(|(hash, _)| *hash).collect();
        let request = ShareRequest { version: self.shares.version, keys, queries: asked };
        Ok(Ask {
            request: request.encode(),
            queries: queries.len(),
            keys: named,
            trace: current_trace(),
            batch: BatchDigest::of(queries),
        })
    }

    async fn partials(&self, ask: &Ask) -> Result<Vec<Answered>, ProtocolError> {
        let count = self.shares.groups.len();
        let asked = self.shares.groups.iter().enumerate().map(|(index, group)| async move {
            let bytes = self.joins.partial_bytes(Share::new(index, count)?, ask.queries);
            group.partial(ask, bytes, self.patience).await
        });
        try_join_all(asked).await
    }

    /// Compares some partials with those of other replicas, without delaying the answers. In most
    /// protocols wrong partials combine without an error, and only clients notice the wrong
    /// answers.
    fn compare_some(&self, ask: Ask, partials: Vec<Partial>, replicas: Vec<Arc<Replica>>) {
        let ask = Arc::new(ask);
        for (index, (partial, replica)) in partials.into_iter().zip(replicas).enumerate() {
            let Some(place) = self.shares.groups[index].draw(&replica) else { continue };
            let (groups, ask, ending) =
                (Arc::clone(&self.shares.groups), Arc::clone(&ask), self.ending.clone());
            self.runtime.spawn(async move {
                let (bytes, answered) = (partial.as_bytes().len(), Answered { partial, replica });
                let compared = async {
                    groups[index].compare(&ask, bytes, &answered).await;
                    Ok(())
                };
                // There is no outcome if the coordinator ends.
                let _ = ending.unless_ended(compared).await;
                drop(place);
            });
        }
    }

    /// Handles partials that do not combine: replaces some of them by those of other replicas, and
    /// combines again. The replicas whose partials had to be replaced are asked last for a while.
    ///
    /// # Errors
    /// `error` if no replica sends another partial, or if the partials still do not combine; an
    /// error if the coordinator ends.
    fn combine_others(
        &self,
        ask: &Ask,
        joined: &[Query<'_>],
        (mut partials, replicas): (Vec<Partial>, Vec<Arc<Replica>>),
        error: ProtocolError,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let count = self.shares.groups.len();
        let mut contradicted = Vec::new();
        for (index, (group, replica)) in self.shares.groups.iter().zip(&replicas).enumerate() {
            let bytes = self.joins.partial_bytes(Share::new(index, count)?, ask.queries);
            let asked = async { Ok(group.second_opinion(ask, bytes, replica).await) };
            let Some(other) = self.runtime.block_on(self.ending.unless_ended(asked))? else { continue };
            if other.as_bytes() == partials[index].as_bytes() {
                continue;
            }
            partials[index] = other;
            contradicted.push(replica);
            if let Ok(answers) = self.joins.combine(joined, &partials) {
                contradicted.iter().for_each(|replica| replica.offend(Offence::Lie, NO_COMBINING));
                return Ok(answers);
            }
        }
        let urls: Vec<&str> = replicas.iter().map(|replica| replica.url()).collect();
        tracing::warn!(%error, ?urls, "partials do not combine");
        Err(error)
    }
}

fn of_remote(keys: &PreparedKeys) -> Result<&RemoteKeys, ProtocolError> {
    keys.get().ok_or_else(|| {
        let detail = "its keys are another server's".into();
        ProtocolError::Malformed { what: "query", detail }
    })
}

impl Responder for RemoteShares {
    fn sizes(&self) -> Sizes {
        self.joins.sizes()
    }

    fn max_batch(&self) -> usize {
        self.joins.max_batch()
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        let joining = self.joins.prepare_keys(bytes)?;
        let sent = match self.joins.partial_keys_bytes() {
            0 => Bytes::new(),
            _ => Bytes::copy_from_slice(bytes),
        };
        let memory = joining.memory_bytes() + sent.len();
        let keys = RemoteKeys { joining, hash: blake3::hash(bytes).into(), bytes: sent };
        Ok(PreparedKeys::new(Arc::new(keys), memory))
    }

    fn specimen(&self) -> Vec<u8> {
        self.joins.specimen()
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let keys: Vec<Option<&RemoteKeys>> =
            queries.iter().map(|query| query.keys.map(of_remote).transpose()).collect::<Result<_, _>>()?;
        let joined: Vec<Query<'_>> = queries
            .iter()
            .zip(&keys)
            .map(|(query, keys)| Query { bytes: query.bytes, keys: keys.map(|keys| &keys.joining) })
            .collect();
        // Rejects invalid queries of clients. After this check, a refusal or a partial that does
        // not combine is the worker's fault.
        self.joins.check(&joined)?;
        let ask = self.ask(queries, &keys)?;
        let answered = self.runtime.block_on(self.ending.unless_ended(self.partials(&ask)))?;
        let (partials, replicas): (Vec<Partial>, Vec<Arc<Replica>>) =
            answered.into_iter().map(|Answered { partial, replica }| (partial, replica)).unzip();
        let answers = match self.joins.combine(&joined, &partials) {
            Ok(answers) => {
                self.compare_some(ask, partials, replicas);
                answers
            }
            Err(error) => self.combine_others(&ask, &joined, (partials, replicas), error)?,
        };
        self.shares.answered.lock().count(Instant::now(), queries.len());
        Ok(answers)
    }
}

//! The servers of all shares of a database as one server.

use std::sync::Arc;

use spirea_backend::Share;

use crate::keys::PreparedKeys;
use crate::partial::Partial;
use crate::query::Query;
use crate::responder::Responder;
use crate::{ProtocolError, Sizes};

/// Servers of all shares of a database, possibly on different backends. All fold concurrently, and
/// the first one combines their partials.
pub struct Sharded {
    /// Servers in the order of their shares; at least one.
    shards: Vec<Box<dyn Responder>>,
}

impl Sharded {
    /// Wraps the servers of all shares, in order; the first one combines.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] unless `shards` are all shares of a database in order, with
    /// equal sizes.
    pub fn new(shards: Vec<Box<dyn Responder>>) -> Result<Self, ProtocolError> {
        let all = shards.first().map(|first| (first.share().all(), first.sizes()));
        let complete = all.is_some_and(|(shares, sizes)| {
            shares.eq(shards.iter().map(|shard| shard.share()))
                && shards.iter().all(|shard| shard.sizes() == sizes)
        });
        if !complete {
            return Err(ProtocolError::BadRequest(
                "these servers have not one share each of a database".into(),
            ));
        }
        Ok(Self { shards })
    }

    /// Returns the combining server.
    fn first(&self) -> &dyn Responder {
        &*self.shards[0]
    }

    /// Returns the queries with their clients' keys for each shard, in the order of the shards.
    fn queries<'a>(&self, queries: &[Query<'a>]) -> Result<Vec<Vec<Query<'a>>>, ProtocolError> {
        let of_shard = |index: usize| {
            let with_keys = |query: &Query<'a>| {
                let keys = query.keys.map(|keys| {
                    let of_shards = keys.get::<KeysOfShards>().and_then(|KeysOfShards(keys)| keys.get(index));
                    of_shards
                        .ok_or_else(|| ProtocolError::malformed("query", "its keys are another server's"))
                });
                Ok(Query { keys: keys.transpose()?, ..*query })
            };
            queries.iter().map(with_keys).collect()
        };
        (0..self.shards.len()).map(of_shard).collect()
    }
}

/// A client's keys as prepared by each shard, in the order of the shards.
struct KeysOfShards(Vec<PreparedKeys>);

impl Responder for Sharded {
    fn sizes(&self) -> Sizes {
        self.first().sizes()
    }

    fn max_batch(&self) -> usize {
        self.shards.iter().map(|shard| shard.max_batch()).min().unwrap_or(0)
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        let keys = self.shards.iter().map(|shard| shard.prepare_keys(bytes));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let memory = keys.iter().map(PreparedKeys::memory_bytes).sum();
        Ok(PreparedKeys::new(Arc::new(KeysOfShards(keys)), memory))
    }

    fn specimen(&self) -> Vec<u8> {
        self.first().specimen()
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let queries = self.queries(queries)?;
        if self.first().share() == Share::WHOLE {
            return self.first().answer(&queries[0]);
        }
        let partials: Result<Vec<Partial>, _> = std::thread::scope(|scope| {
            let others = self.shards.iter().zip(&queries).skip(1);
            let others: Vec<_> =
                others.map(|(shard, queries)| scope.spawn(move || shard.partial(queries))).collect();
            let first = self.first().partial(&queries[0]);
            let others = others
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            std::iter::once(first).chain(others).collect()
        });
        self.first().combine(&queries[0], &partials?)
    }
}

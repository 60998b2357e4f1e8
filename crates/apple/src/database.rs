use std::sync::Arc;

use spirea_backend::ResidueBackend;

use crate::bits;
use crate::error::AppleError;
use crate::evaluation_key::EvaluationKey;
use crate::keyword::Tables;
use crate::query::Query;
use crate::response::Response;
use crate::server::{self, Arithmetic, Asked, Over};
use crate::set::{RINGS, Set};
use crate::shape::Shape;

/// The tables of a shard as plaintext polynomials.
pub struct Database<B: ResidueBackend> {
    arithmetic: Arc<Arithmetic<B>>,
    shape: Shape,
    /// Plaintexts as values modulo q, `None` for 0: table by table, chunk by chunk, column by
    /// column.
    pub(crate) plaintexts: Vec<Option<Vec<u32>>>,
}

impl<B: ResidueBackend> std::fmt::Debug for Database<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl<B: ResidueBackend> Database<B> {
    /// Transforms tables to plaintexts in the order in which queries select them.
    ///
    /// # Errors
    /// [`AppleError::Table`] if the tables do not have this shape.
    pub fn new(arithmetic: Arc<Arithmetic<B>>, shape: Shape, tables: &Tables) -> Result<Self, AppleError> {
        let buckets = tables.buckets();
        let longest = buckets.iter().flatten().map(|bucket| bucket.serialized_bytes()).max().unwrap_or(0);
        if buckets.len() != shape.tables()
            || buckets[0].len() != shape.entries()
            || longest > shape.entry_size()
        {
            return Err(AppleError::Table("the tables have another shape".into()));
        }
        let mut plaintexts = Vec::with_capacity(shape.tables() * shape.chunks() * shape.plaintexts());
        for table in buckets {
            let bytes = |entry: usize| {
                let mut bytes = table.get(entry).map(|bucket| bucket.to_bytes()).unwrap_or_default();
                bytes.resize(shape.entry_size(), 0);
                bytes
            };
            for chunk in 0..shape.chunks() {
                for column in 0..shape.columns() {
                    for row in 0..shape.rows() {
                        let plaintext = row * shape.columns() + column;
                        let bytes = plaintext_bytes(&shape, plaintext, chunk, &bytes);
                        plaintexts.push(encode(&arithmetic, shape.set(), &bytes));
                    }
                }
            }
        }
        Ok(Self { arithmetic, shape, plaintexts })
    }

    /// Returns the shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the responses to queries of this shape, each under its client's key, in one pass
    /// over the plaintexts.
    ///
    /// # Errors
    /// [`AppleError::Malformed`] if an evaluation key lacks a Galois element that the expansion
    /// needs.
    pub fn answer(&self, queries: &[(&Query, &EvaluationKey)]) -> Result<Vec<Response>, AppleError> {
        let asked: Vec<Asked<'_>> = queries.iter().map(|&(query, key)| (query.ciphertexts(), key)).collect();
        let replies = server::answer(&self.arithmetic, &self.shape, &self.plaintexts, &asked)?;
        Ok(replies.into_iter().map(|replies| Response::new(self.shape.set(), replies)).collect())
    }
}

/// Returns the bytes of a plaintext of a chunk: whole buckets, or a piece of one.
fn plaintext_bytes(
    shape: &Shape,
    plaintext: usize,
    chunk: usize,
    bucket: &impl Fn(usize) -> Vec<u8>,
) -> Vec<u8> {
    if shape.chunks() == 1 {
        let entries = shape.entries_in_plaintext();
        return (plaintext * entries..(plaintext + 1) * entries).flat_map(bucket).collect();
    }
    let length = shape.set().plaintext_bytes();
    bucket(plaintext).into_iter().skip(chunk * length).take(length).collect()
}

/// Returns the plaintext of some bytes as values modulo q; `None` if it is 0.
fn encode<B: ResidueBackend>(arithmetic: &Arithmetic<B>, set: Set, bytes: &[u8]) -> Option<Vec<u32>> {
    if bytes.iter().all(|&byte| byte == 0) {
        return None;
    }
    let mut padded = bytes.to_vec();
    padded.resize(set.plaintext_bytes(), 0);
    let t = set.plaintext_modulus() as i32;
    let centred = |c: u32| if 2 * c as i32 > t { c as i32 - t } else { c as i32 };
    let coefficients: Vec<i32> = bits::numbers(&padded, set.plaintext_bits()).map(centred).collect();
    let mut values = RINGS.ciphertext.lift(&coefficients);
    arithmetic.forward(Over::Ciphertext, &mut values);
    Some(values)
}

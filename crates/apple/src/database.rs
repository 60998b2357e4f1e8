use std::sync::Arc;

use spirea_backend::{BackendError, ResidueBackend};

use crate::bits;
use crate::error::AppleError;
use crate::evaluation_key::EvaluationKey;
use crate::keyword::{Bucket, Tables};
use crate::query::Query;
use crate::response::Response;
use crate::server::{self, Arithmetic, Asked, Stage};
use crate::shape::Shape;

/// The tables of a shard as plaintext polynomials.
pub struct Database<B: ResidueBackend> {
    arithmetic: Arc<Arithmetic<B>>,
    shape: Shape,
    /// Matrix of plaintexts of each table. The matrix has a row for each column of each chunk of
    /// the table.
    plaintexts: Vec<B::Plain>,
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
    /// [`AppleError::Table`] if the tables do not have this shape; [`AppleError::Backend`] if there
    /// is no memory for them.
    pub fn new(arithmetic: Arc<Arithmetic<B>>, shape: Shape, tables: &Tables) -> Result<Self, AppleError> {
        let buckets = tables.buckets();
        let longest = buckets.iter().flatten().map(|bucket| bucket.serialized_bytes()).max().unwrap_or(0);
        if buckets.len() != shape.tables()
            || buckets[0].len() != shape.entries()
            || longest > shape.entry_size()
        {
            return Err(AppleError::Table("the tables have another shape".into()));
        }
        let encode = |table: &Vec<Bucket>| {
            let (rows, columns) = (shape.chunks() * shape.columns(), shape.rows());
            arithmetic.encode(rows, columns, &|row, column, to| {
                let (chunk, place) =
                    (row / shape.columns(), column * shape.columns() + row % shape.columns());
                write_plaintext(&shape, table, place, chunk, to);
            })
        };
        let plaintexts = buckets.iter().map(encode).collect::<Result<_, _>>();
        let plaintexts = plaintexts.map_err(|error: BackendError| AppleError::Backend(error.to_string()))?;
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
    /// needs; [`AppleError::Backend`] if the computation fails.
    pub fn answer(&self, queries: &[(&Query, &EvaluationKey)]) -> Result<Vec<Response>, AppleError> {
        self.answer_in_stages(queries, &mut |_| ())
    }

    /// Returns what [`Self::answer`] returns, and calls `ended` at the end of each stage: of the
    /// expansion once, of the other stages once for each table.
    ///
    /// # Errors
    /// Those of [`Self::answer`].
    pub fn answer_in_stages(
        &self,
        queries: &[(&Query, &EvaluationKey)],
        ended: &mut dyn FnMut(Stage),
    ) -> Result<Vec<Response>, AppleError> {
        let asked: Vec<Asked<'_>> = queries.iter().map(|&(query, key)| (query.ciphertexts(), key)).collect();
        let replies = server::answer(&self.arithmetic, &self.shape, &self.plaintexts, &asked, ended)?;
        Ok(replies.into_iter().map(|replies| Response::new(self.shape.set(), replies)).collect())
    }
}

/// Writes the coefficients of a plaintext of a chunk: whole buckets, or a piece of one.
pub(crate) fn write_plaintext(
    shape: &Shape,
    table: &[Bucket],
    plaintext: usize,
    chunk: usize,
    to: &mut [i32],
) {
    let set = shape.set();
    let mut bytes = vec![0; set.plaintext_bytes()];
    let entries = shape.entries_in_plaintext();
    let buckets = table.iter().skip(plaintext * entries).take(entries);
    if shape.chunks() == 1 {
        for (to, bucket) in bytes.chunks_exact_mut(shape.entry_size()).zip(buckets) {
            let bucket = bucket.to_bytes();
            to[..bucket.len()].copy_from_slice(&bucket);
        }
    } else {
        let bucket = buckets.flat_map(Bucket::to_bytes).skip(chunk * set.plaintext_bytes());
        bytes.iter_mut().zip(bucket).for_each(|(to, byte)| *to = byte);
    }
    let t = set.plaintext_modulus() as i32;
    let centred = |c: u32| if 2 * c as i32 > t { c as i32 - t } else { c as i32 };
    let coefficients = bits::numbers(&bytes, set.plaintext_bits()).map(centred);
    to.iter_mut().zip(coefficients).for_each(|(to, coefficient)| *to = coefficient);
}

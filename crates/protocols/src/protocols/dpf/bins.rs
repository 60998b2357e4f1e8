//! Partial batch retrieval: several records of a table in one query, one from each of its bins.
//!
//! (GPU-DPF section IV-A.) The table is cut into bins of consecutive records, and a query has a key for every bin,
//! over the bin's records only: as many records as there are bins for the work of one. Bins that nothing is asked of
//! get a key all the same, for a record that is thrown away, so that no server can tell. Of two records in one bin a
//! query brings one; the other *overflows*, and the caller is told, to ask again or to do without.

use std::ops::Range;
use std::sync::Arc;

use spirea_backend::ShareBackend;
use spirea_dpf::{Domain, Party};
use spirea_math::random::SecretRng;
use spirea_math::secret::declassify;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeLess};
use zeroize::Zeroizing;

use super::client::Client;
use super::params::{Params, Shares};
use super::server::parse_key;
use crate::parameters::Parameters;
use crate::steps::check::check_index;
use crate::{ProtocolError, Sizes};

/// The most bins of a table.
const MAX_BINS: u64 = 1 << 16;

/// A table with one record in each row, cut into bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins<S> {
    params: Params<S>,
    bins: u64,
}

impl<S: Shares> Bins<S> {
    /// Cuts a table into as many bins as wanted, or fewer where the last would be empty.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] unless there are 1 to 2^16 of them, not more than records, and each record has a
    /// row of its own.
    pub fn new(params: Params<S>, bins: u64) -> Result<Self, ProtocolError> {
        params.validate()?;
        let records = params.grid.records;
        if bins == 0 || bins > MAX_BINS || bins > records {
            let detail = format!("a table of {records} records has 1 to {} bins", MAX_BINS.min(records));
            return Err(ProtocolError::BadRequest(detail));
        }
        if params.grid.records_per_unit() != 1 {
            return Err(ProtocolError::BadRequest("records of bins need rows of their own".into()));
        }
        let bins = records.div_ceil(records.div_ceil(bins));
        Ok(Self { params, bins })
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.bins
    }

    /// Records of a bin; the last may have fewer.
    pub fn bin_records(&self) -> u64 {
        self.params.grid.records.div_ceil(self.bins)
    }

    /// The bin of a record.
    pub fn bin_of(&self, index: u64) -> u64 {
        index / self.bin_records()
    }

    /// The records of a bin.
    fn range(&self, bin: u64) -> Range<u64> {
        let size = self.bin_records();
        bin * size..((bin + 1) * size).min(self.params.grid.records)
    }

    /// The domain of a bin's key.
    fn domain(&self, bin: u64) -> Domain {
        let range = self.range(bin);
        Domain::new(range.end - range.start, self.params.shares.output()).expect("a part of a domain is one")
    }

    /// Bytes of a query to one server and of its answer.
    pub fn sizes(&self) -> Sizes {
        let query_bytes = (0..self.bins).map(|bin| self.domain(bin).key_bytes()).sum();
        let answer_bytes = self.params.layout().answer_bytes() * self.bins as usize;
        Sizes { query_bytes, answer_bytes, hint_bytes: 0, keys_bytes: 0 }
    }
}

/// A query for several records, and what became of each of them.
pub struct BinQuery {
    /// The queries to party 0 and party 1.
    pub queries: [Vec<u8>; 2],
    /// The wanted records, as places in the list that was asked for, that this query does not bring: their bins are
    /// taken by others.
    pub overflow: Vec<usize>,
    /// For each bin the place in the list of the record that it brings, or [`NOTHING`].
    wanted: Zeroizing<Vec<u64>>,
}

/// What a bin brings of which nothing is asked.
const NOTHING: u64 = u64::MAX;

/// The client half.
pub struct BinsClient<S> {
    bins: Bins<S>,
}

impl<S: Shares> BinsClient<S> {
    /// A client of these bins.
    pub fn new(bins: Bins<S>) -> Self {
        Self { bins }
    }

    /// A query for the records at `indices`: the first of each bin, and a random one of every bin without any. A record
    /// that is wanted twice is asked for once, and overflows the second time.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if there is no such record.
    pub fn query(&self, indices: &[u64], rng: &mut SecretRng) -> Result<BinQuery, ProtocolError> {
        let params = &self.bins.params;
        for &index in indices {
            check_index(index, params.grid.records)?;
        }
        let mut wanted = Zeroizing::new(Vec::with_capacity(self.bins.bins as usize));
        let mut queries = [Vec::new(), Vec::new()];
        let mut unserved = vec![Choice::from(1); indices.len()];
        for bin in 0..self.bins.bins {
            let (domain, Range { start, end }) = (self.bins.domain(bin), self.bins.range(bin));
            // Every bin looks at every index: nothing branches on what is wanted, nor reads memory by it.
            let random = (u128::from(rng.next_u64()) * u128::from(domain.points())) >> 64;
            let (mut row, mut taken) = (random as u64, NOTHING);
            for ((place, &index), unserved) in (0..).zip(indices).zip(&mut unserved) {
                let inside = !index.ct_lt(&start) & index.ct_lt(&end);
                let served = inside & taken.ct_eq(&NOTHING);
                row.conditional_assign(&index.wrapping_sub(start), served);
                taken.conditional_assign(&place, served);
                *unserved &= !served;
            }
            let keys = Client::keys(params, domain, row, rng)?;
            queries.iter_mut().zip(keys).for_each(|(query, key)| query.extend(key.to_bytes()));
            wanted.push(taken);
        }
        let overflows = |&place: &usize| {
            declassify(unserved[place].unwrap_u8(), "the caller is told what overflows") == 1
        };
        let overflow = (0..indices.len()).filter(overflows).collect();
        Ok(BinQuery { queries, overflow, wanted })
    }

    /// The records, each with its place in the list that was asked for, from the answers of party 0 and party 1.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if an answer is not what the parameters say.
    pub fn combine(
        &self,
        query: &BinQuery,
        answers: [&[u8]; 2],
    ) -> Result<Vec<(usize, Vec<u8>)>, ProtocolError> {
        let (params, sizes) = (&self.bins.params, self.bins.sizes());
        if answers.iter().any(|answer| answer.len() != sizes.answer_bytes) {
            let detail = format!("it has not the {} bytes that the parameters say", sizes.answer_bytes);
            return Err(ProtocolError::malformed("answer", detail));
        }
        let each = params.layout().answer_bytes();
        let rows = answers[0].chunks_exact(each).zip(answers[1].chunks_exact(each));
        // Every bin is combined, but a list of records is for the caller to hold: it shows which bins they came from.
        let records = query.wanted.iter().zip(rows).filter_map(|(&wanted, (zero, one))| {
            let row = Client::add(params, [zero, one]);
            let wanted = declassify(wanted, "the caller's list of records is in the order of their bins");
            (wanted != NOTHING).then(|| (wanted as usize, row[..params.grid.record_bytes].to_vec()))
        });
        Ok(records.collect())
    }
}

/// The server half: one of the two.
pub struct BinsServer<S, B: ShareBackend> {
    bins: Bins<S>,
    party: Party,
    backend: Arc<B>,
    rows: B::Rows,
}

impl<S: Shares, B: ShareBackend> BinsServer<S, B> {
    /// Server `party` of `rows`.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the rows have another layout than the parameters say.
    pub fn new(bins: Bins<S>, party: Party, backend: Arc<B>, rows: B::Rows) -> Result<Self, ProtocolError> {
        if backend.row_layout(&rows) != bins.params.layout() {
            return Err(ProtocolError::malformed("parameters", "the rows have another layout"));
        }
        Ok(Self { bins, party, backend, rows })
    }

    /// The answer to a query: the share of a row of each bin.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if it is not a query for these bins and this party, before any key of it is
    /// expanded; [`ProtocolError::Backend`] if the computation failed.
    pub fn answer(&self, query: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        let sizes = self.bins.sizes();
        if query.len() != sizes.query_bytes {
            let detail = format!("it has {} bytes, not {}", query.len(), sizes.query_bytes);
            return Err(ProtocolError::malformed("query", detail));
        }
        let mut rest = query;
        let keys = (0..self.bins.bins).map(|bin| {
            let domain = self.bins.domain(bin);
            let (key, behind) = rest.split_at(domain.key_bytes());
            rest = behind;
            parse_key(domain, self.party, key)
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let mut answer = Vec::with_capacity(sizes.answer_bytes);
        for (bin, key) in (0..).zip(keys) {
            let first = self.bins.range(bin).start as usize;
            answer.extend(self.backend.share_fold(&self.rows, first, self.bins.params.prf, &[key])?);
        }
        Ok(answer)
    }
}

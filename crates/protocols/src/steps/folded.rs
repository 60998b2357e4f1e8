//! Parameters of a database whose first step is `scalar_fold`.

use std::fmt::Debug;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use spirea_backend::{
    Backend, FileRows, MAX_BATCH, PANEL_ROWS, PanelLayout, RING_DEGREE, Residence, StoredFile,
};
use spirea_lattice::{LweEncryptor, LweSet, PublicMatrix, RingSet};
use spirea_math::random::{SecretRng, Seed};

use super::LweHint;
use super::hint::{exact_bits, is_exact, validate_bits};
use super::scalar_fold::FoldedColumns;
use super::shape::{LookupCost, cheapest, malformed};
use crate::choice::{Choice, HintForm, KeyDelivery, QueryForm, packing_sets};
use crate::client::AnyIndexClient;
use crate::grid::{Grid, Spread};
use crate::parameters::{FirstFold, Parameters, Profile, Sets, Stored};
use crate::protocol::{Holdings, Protocol};
use crate::{ProtocolError, Result, Sizes};

/// Parameters that all protocols with a first fold share. Public, and part of a snapshot's
/// identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folded {
    /// Name of the LWE set.
    pub set: String,
    /// Name of the ring set, if the protocol packs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<String>,
    /// Seed of the public matrices.
    #[serde(with = "crate::hex")]
    pub seed: Seed,
    /// Number of low bits of each word in a first fold's query that are not sent, if the protocol
    /// packs: the words are rounded to multiples of 2^`dropped_bits`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_bits: u32,
    /// Key delivery, if the protocol packs.
    #[serde(default, skip_serializing_if = "KeyDelivery::is_default")]
    pub keys: KeyDelivery,
    /// Form of the queries, if they carry their keys.
    #[serde(default, skip_serializing_if = "QueryForm::is_default")]
    pub queries: QueryForm,
    /// Number of upper bits of each word of the hint that clients download, if the protocol has
    /// one; 32, the default, if it is not rounded.
    #[serde(default = "exact_bits", skip_serializing_if = "is_exact")]
    pub hint_bits: u32,
    /// Positions of the records.
    pub grid: Grid,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(bits: &u32) -> bool {
    *bits == 0
}

/// Maximum number of dropped bits: with 9, even 600 columns would decode incorrectly too often.
const MAX_DROPPED_BITS: u32 = 8;
/// Choices for the number of dropped bits. Dropping 4 saves an eighth of a query's bytes, and its
/// noise less than doubles.
const DROPPED_BITS: [u32; 5] = [0, 4, 5, 6, 7];
/// Maximum failure probability for dropping bits, as log2. It is stricter because the probability
/// is an estimate.
const DROPPING_FAILURE_LOG2: f64 = -80.0;
/// Maximum failure bound over all databases, as log2, for a shape to be chosen, if the protocol has
/// such a bound.
const WORST_FAILURE_LOG2: f64 = -40.0;
/// Maximum number of columns of a first fold, limited by the failure bound.
pub(crate) const MAX_COLUMNS: usize = 1 << 20;
/// Maximum number of queries in a batch whose queries have ciphertexts to expand.
const MAX_PACKED_BATCH: usize = 64;

impl Folded {
    /// Creates parameters of a protocol without a ring, whose hint is not rounded.
    pub(crate) fn without_ring(set: String, seed: Seed, grid: Grid) -> Self {
        let (keys, queries) = (KeyDelivery::default(), QueryForm::default());
        Self { set, ring: None, seed, dropped_bits: 0, keys, queries, hint_bits: exact_bits(), grid }
    }

    /// Checks parameters read from untrusted bytes: the part that all protocols share.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names the member out of range.
    pub(crate) fn validate(&self, spread: Spread) -> Result<(), ProtocolError> {
        if LweSet::by_name(&self.set).is_none() {
            let known = LweSet::ALL.map(LweSet::name).join(", ");
            return Err(malformed(format!("no LWE set is called {:?}; there are {known}", self.set)));
        }
        self.grid.validate(spread)?;
        let columns = self.grid.columns;
        if !columns.is_multiple_of(RING_DEGREE) || columns > MAX_COLUMNS {
            return Err(malformed(format!(
                "columns must be a multiple of {RING_DEGREE} up to {MAX_COLUMNS}"
            )));
        }
        let most = if self.ring.is_some() { MAX_DROPPED_BITS } else { 0 };
        if self.dropped_bits > most {
            return Err(malformed(format!("at most {most} bits of a query's words can be dropped")));
        }
        if self.keys == KeyDelivery::PerQuery
            && !self.ring.as_deref().and_then(RingSet::by_name).is_some_and(brings_keys)
        {
            return Err(malformed("queries bring their keys where chunks are rotated, not here".into()));
        }
        if self.keys == KeyDelivery::Registered && self.queries != QueryForm::default() {
            return Err(malformed("queries are short where they bring their keys, not here".into()));
        }
        validate_bits(self.hint_bits)?;
        if self.ring.is_some() && !is_exact(&self.hint_bits) {
            return Err(malformed(
                "hint_bits are those of a hint that clients keep; there is none here".into(),
            ));
        }
        if !self.grid.rows(spread).is_multiple_of(PANEL_ROWS) {
            return Err(malformed(format!("rows must be a multiple of {PANEL_ROWS}")));
        }
        if PanelLayout::covering(self.grid.rows(spread), columns).is_err() {
            return Err(malformed("the matrix is larger than any this software holds".into()));
        }
        Ok(())
    }

    /// Checks parameters of a protocol whose units are blocks of the ring's degree.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names the member out of range.
    pub(crate) fn validate_blocks(&self) -> Result<(), ProtocolError> {
        /// Maximum number of groups. The hints of so many groups are far larger than any memory.
        const MAX_GROUPS: usize = 1 << 24;
        self.validate(Spread::Rows)?;
        let degree = self.validate_ring()?.ring().degree();
        if self.grid.unit_rows != degree || self.grid.groups > MAX_GROUPS {
            return Err(malformed(format!(
                "a unit must have {degree} bytes, and a column at most {MAX_GROUPS} of them"
            )));
        }
        Ok(())
    }

    /// Returns the ring set of a protocol that packs bytes: a set with room for a rounded LWE
    /// ciphertext.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if no such set has this name.
    pub(crate) fn validate_ring(&self) -> Result<RingSet, ProtocolError> {
        let name = self.ring.as_deref().unwrap_or_default();
        packing_sets().find(|set| set.name() == name).ok_or_else(|| {
            let known = packing_sets().map(RingSet::name).collect::<Vec<_>>().join(", ");
            malformed(format!("no ring set for packing is called {name:?}; there are {known}"))
        })
    }

    /// Returns the LWE set of validated parameters.
    pub(crate) fn lwe_set(&self) -> LweSet {
        LweSet::by_name(&self.set).expect("validated parameters name a set")
    }

    /// Returns the ring set of validated parameters.
    pub(crate) fn ring_set(&self) -> RingSet {
        self.validate_ring().expect("validated parameters name a ring set")
    }

    /// Returns the names of the sets of validated parameters.
    pub(crate) fn set_names(&self) -> String {
        match &self.ring {
            None => self.set.clone(),
            Some(ring) => format!("{}+{ring}", self.set),
        }
    }

    /// Returns the choice of `protocol` with these sets.
    pub(crate) fn choice_of(&self, protocol: &str) -> Choice {
        let (set, ring) = (Some(self.set.clone()), self.ring.clone());
        let choice = Choice { protocol: protocol.into(), set, ring, keys: self.keys, ..Choice::default() };
        let choice = match self.keys {
            KeyDelivery::PerQuery => Choice { queries: self.queries, ..choice },
            KeyDelivery::Registered => choice,
        };
        match self.ring {
            None => Choice { hint: HintForm::of_bits(self.hint_bits), ..choice },
            Some(_) => choice,
        }
    }

    /// Returns the layout of the matrix in its file.
    pub(crate) fn stored(&self, spread: Spread) -> Stored {
        Stored::Panels { layout: self.layout(spread), grid: self.grid, spread }
    }

    /// Returns the parameter sets of validated parameters.
    pub(crate) fn sets(&self) -> Sets {
        Sets { lwe: Some(self.lwe_set()), ring: self.ring.as_ref().map(|_| self.ring_set()) }
    }

    /// Returns the layout of the matrix of validated parameters.
    pub(crate) fn layout(&self, spread: Spread) -> PanelLayout {
        PanelLayout::covering(self.grid.rows(spread), self.grid.columns)
            .expect("validated parameters have a layout")
    }

    /// Returns the public matrix of the first fold.
    pub(crate) fn public_matrix(&self) -> PublicMatrix {
        self.bin_matrix(0)
    }

    /// Returns the public matrix of the first fold of bin `bin`.
    fn bin_matrix(&self, bin: usize) -> PublicMatrix {
        PublicMatrix::of_bin(self.lwe_set(), self.seed, bin as u64, self.grid.columns)
    }

    /// Returns the encryptor for columns of the first fold.
    pub(crate) fn encryptor(&self) -> LweEncryptor {
        self.bin_encryptor(0)
    }

    /// Returns the encryptor for columns of the first fold of bin `bin`.
    pub(crate) fn bin_encryptor(&self, bin: usize) -> LweEncryptor {
        LweEncryptor::new(self.bin_matrix(bin)).rounding(self.dropped_bits)
    }

    /// Returns the columns that a first fold's query multiplies.
    pub(crate) fn folded_columns(&self) -> FoldedColumns {
        FoldedColumns { columns: self.grid.columns, dropped_bits: self.dropped_bits }
    }

    /// Returns the public matrix of a second fold over `columns` columns. It differs from the
    /// first, so that both folds may use the same secret.
    pub(crate) fn second_matrix(&self, columns: usize) -> PublicMatrix {
        PublicMatrix::of_second_fold(self.lwe_set(), self.seed, columns.next_multiple_of(RING_DEGREE))
    }

    /// Computes the hint of the first fold of a database in a file.
    ///
    /// # Errors
    /// Those of the backend.
    pub(crate) fn hint<B: Backend>(
        &self,
        spread: Spread,
        backend: &B,
        matrix: &StoredFile,
        progress: impl FnMut(f64),
    ) -> Result<LweHint, ProtocolError> {
        LweHint::of_file(backend, self.layout(spread), &self.public_matrix(), matrix, progress)
    }

    /// Computes the hint of the first folds of a database in `bins` bins, which lie below each
    /// other in a file: the rows of each bin times its own public matrix.
    ///
    /// # Errors
    /// Those of the backend.
    pub(crate) fn hint_of_bins<B: Backend>(
        &self,
        (spread, bins): (Spread, usize),
        backend: &B,
        matrix: &StoredFile,
        mut progress: impl FnMut(f64),
    ) -> Result<LweHint, ProtocolError> {
        let all = FileRows::all(self.layout(spread), matrix, Residence::Mapped);
        let rows = self.grid.rows(spread) / bins;
        let hint_of = |bin: usize| {
            let matrix = backend.open(all.some(bin * rows..(bin + 1) * rows))?;
            let done = |share: f64| progress((bin as f64 + share) / bins as f64);
            LweHint::compute(backend, &self.bin_matrix(bin), &matrix, done)
        };
        Ok(LweHint::below_each_other((0..bins).map(hint_of).collect::<Result<_, _>>()?))
    }

    /// Reads the first fold's hint, which the server keeps.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`] if it cannot be read or has another length.
    pub(crate) fn read_hint(&self, spread: Spread, file: &StoredFile) -> Result<LweHint, ProtocolError> {
        LweHint::read(self.lwe_set(), self.grid.rows(spread), file)
    }

    /// Returns the maximum number of queries in a batch whose queries have `folds` columns in the
    /// first fold, each in `bins` bins. A batch has at most as many words as the largest batch over
    /// [`MAX_COLUMNS`] columns without bins.
    pub(crate) fn max_batch_in_bins(&self, folds: usize, bins: usize) -> usize {
        let words = MAX_PACKED_BATCH * MAX_COLUMNS / (self.grid.columns * bins);
        self.max_batch(folds).min(words.max(1))
    }

    /// Returns the maximum number of queries in a batch whose queries have `folds` columns in the
    /// first fold.
    pub(crate) fn max_batch(&self, folds: usize) -> usize {
        (MAX_BATCH / folds).min(MAX_PACKED_BATCH)
    }
}

/// Returns true if queries under a ring set can carry their keys: the set rotates chunks and rounds
/// queries.
fn brings_keys(set: RingSet) -> bool {
    set.dropped_bits() > 0
}

/// Returns candidates for a number of units, such as blocks of a column.
pub(crate) fn counts(powers: u32) -> impl Iterator<Item = usize> {
    let further = (0..powers).flat_map(|power| [4 << power, 5 << power, 6 << power, 7 << power]);
    [1, 2, 3].into_iter().chain(further)
}

/// Returns candidate shapes whose unit has as many rows as the ring has coefficients.
pub(crate) fn grids_of_blocks(records: u64, record_bytes: usize) -> impl Iterator<Item = Grid> {
    counts(20).filter_map(move |groups| {
        let grid = Grid { records, record_bytes, unit_rows: RingSet::DEGREE, groups, columns: 0 };
        grid.fit_columns(Spread::Rows, RING_DEGREE)
    })
}

/// Parameters of protocol `P`, which are the parameters of its first fold. Public, and part of a
/// snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedParams<P>(pub(crate) Folded, PhantomData<P>);

impl<P: FoldedProtocol> Serialize for FoldedParams<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        P::Form::from(self.0.clone()).serialize(serializer)
    }
}

impl<'de, P: FoldedProtocol> Deserialize<'de> for FoldedParams<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        P::Form::deserialize(deserializer).map(|form| Self(form.into(), PhantomData))
    }
}

/// Definition of a protocol whose parameters are those of a first fold.
pub trait FoldedProtocol: Clone + PartialEq + Debug + Send + Sync + Sized + 'static {
    /// The protocol's name.
    const NAME: &'static str;
    /// The simplest protocol of its kind, for deltas.
    const DELTA: &'static str;
    /// Arrangement of the parts of a large record.
    const SPREAD: Spread;
    /// See [`Protocol::hint_lasts`].
    const HINT_LASTS: bool = false;
    /// Key deliveries that the protocol supports.
    const DELIVERIES: &'static [KeyDelivery] = &[KeyDelivery::Registered];

    /// The parameters in JSON.
    type Form: Serialize + DeserializeOwned + From<Folded> + Into<Folded>;

    /// Returns the ring set of a choice, for packing; `None` for a protocol without a ring.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if no set has the chosen name, or the set is too weak.
    fn ring_of(choice: &Choice) -> Result<Option<RingSet>, ProtocolError> {
        choice.packing_set().map(Some)
    }

    /// Returns the bits of each word of the hint that clients download, in this form; all bits if
    /// clients download no hint.
    fn hint_bits(_form: HintForm, _folded: &Folded) -> u32 {
        exact_bits()
    }

    /// Refuses bins, unless the protocol has bins.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`].
    fn check_bins(choice: &Choice) -> Result<(), ProtocolError> {
        choice.check_undivided()
    }

    /// Returns the number of bins of a database: 1, or the number of its groups if they are bins.
    fn bins(_grid: &Grid) -> usize {
        1
    }

    /// Returns candidate shapes with this number of bins, which [`Self::check_bins`] admits.
    fn grids(records: u64, record_bytes: usize, bins: usize) -> impl Iterator<Item = Grid>;

    /// Returns the cost of a look-up under valid parameters.
    fn cost(params: &FoldedParams<Self>) -> LookupCost;

    /// See [`Protocol::client_of`].
    ///
    /// # Errors
    /// Those of [`Protocol::client_of`].
    fn client(
        params: &FoldedParams<Self>,
        known: Holdings<'_>,
        rng: &mut SecretRng,
    ) -> Result<Box<dyn AnyIndexClient>>;
}

impl<P: FoldedProtocol> FoldedParams<P> {
    /// Arrangement of the parts of a large record.
    pub(crate) const SPREAD: Spread = P::SPREAD;
}

impl<P: FoldedProtocol> FoldedParams<P>
where
    Self: Parameters,
{
    /// Returns the profile of a protocol that registers no keys and computes nothing from the
    /// database. Protocols replace the members that differ.
    pub(crate) fn folded_profile(&self, sizes: Sizes) -> Profile {
        let folded = &self.0;
        let (sets, names, bins) = (folded.sets(), folded.set_names(), P::bins(&folded.grid));
        let stored = folded.stored(P::SPREAD);
        Profile {
            name: P::NAME,
            set: if bins == 1 { names } else { format!("{names}, {bins} bins") },
            parties: 1,
            grid: folded.grid,
            bins,
            stored,
            first_fold: FirstFold::Bytes,
            sets,
            security_bits: sets.security_bits(),
            key_shape: None,
            key_delivery: sets.ring.map(|_| folded.keys),
            combined_answer_bits: 0.0,
            sizes,
            hint_bits: folded.hint_bits,
            hint_determines_records: false,
            server_bytes: 0,
            memory_bytes: stored.bytes(),
            work: Vec::new(),
            failure: self.exceedance(1.0),
            worst_failure: self.worst_failure(),
        }
    }

    /// Refuses dropped bits that make failures too likely.
    fn validate_dropped(&self) -> Result<(), ProtocolError> {
        match self.exceedance(1.0) {
            Some(failure) if self.0.dropped_bits > 0 && failure.log2 > DROPPING_FAILURE_LOG2 => {
                Err(malformed(format!("a response would decode wrongly with probability up to {failure}")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a shape in which content chosen against the public matrix fails too often.
    fn validate_worst(&self) -> Result<(), ProtocolError> {
        match self.worst_failure() {
            Some(worst) if worst.log2 > WORST_FAILURE_LOG2 => Err(malformed(format!(
                "content chosen against the public matrix would decode wrongly with probability up to {worst}, above 2^-40"
            ))),
            _ => Ok(()),
        }
    }
}

impl<P: FoldedProtocol> Protocol for FoldedParams<P>
where
    Self: Parameters,
{
    fn check(choice: &Choice) -> Result<(), ProtocolError> {
        choice.lwe_set().and(P::ring_of(choice)).map(drop)
    }

    fn check_keys(choice: &Choice) -> Result<(), ProtocolError> {
        choice.check_delivery(P::DELIVERIES)?;
        let ring = P::ring_of(choice)?;
        match (choice.keys, ring) {
            (KeyDelivery::PerQuery, Some(set)) if !brings_keys(set) => {
                Err(ProtocolError::BadRequest(format!(
                    "queries under {} bring no keys: it expands to single entries; leave out the set, or name fast or small",
                    set.name()
                )))
            }
            _ => Ok(()),
        }
    }

    fn check_bins(choice: &Choice) -> Result<(), ProtocolError> {
        P::check_bins(choice)
    }

    fn choose(choice: &Choice, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        P::check_bins(choice)?;
        let set: String = choice.lwe_set()?.name().into();
        let ring = P::ring_of(choice)?.map(|ring| ring.name().to_owned());
        let dropped = if ring.is_some() { &DROPPED_BITS[..] } else { &DROPPED_BITS[..1] };
        let queries = match choice.keys {
            KeyDelivery::Registered => QueryForm::default(),
            KeyDelivery::PerQuery => choice.queries,
        };
        let candidates = P::grids(records, record_bytes, choice.bins).flat_map(|grid| {
            let keys = choice.keys;
            let (set, ring, hint_bits) = (set.clone(), ring.clone(), exact_bits());
            let folded = Folded { set, ring, seed, dropped_bits: 0, keys, queries, hint_bits, grid };
            dropped
                .iter()
                .map(move |&dropped_bits| Self(Folded { dropped_bits, ..folded.clone() }, PhantomData))
        });
        let checks = [Self::validate, Self::validate_dropped, Self::validate_worst];
        let chosen = cheapest(choice.prefer, records, record_bytes, candidates, &checks, P::cost);
        // The hint is rounded only after the shape is chosen, so that a table has one shape for
        // both forms of the hint.
        chosen.map(|Self(folded, protocol)| {
            Self(Folded { hint_bits: P::hint_bits(choice.hint, &folded), ..folded }, protocol)
        })
    }

    fn choice(&self) -> Choice {
        Choice { bins: P::bins(&self.0.grid), ..self.0.choice_of(P::NAME) }
    }

    fn delta_choice(&self) -> Choice {
        self.0.choice_of(P::DELTA)
    }

    fn seed(&self) -> Option<Seed> {
        Some(self.0.seed)
    }

    fn reseed(&mut self, seed: Seed) {
        self.0.seed = seed;
    }

    fn hint_lasts(&self) -> bool {
        P::HINT_LASTS
    }

    fn client_of(&self, known: Holdings<'_>, rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        P::client(self, known, rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_in_bins_has_as_many_words_as_the_largest_without() {
        let most = MAX_PACKED_BATCH * MAX_COLUMNS;
        for columns in [256, 1 << 14, 1 << 18, MAX_COLUMNS] {
            let grid = Grid { records: 256, record_bytes: 1, unit_rows: 4096, groups: 75, columns };
            let folded = Folded::without_ring("module-1280".into(), Seed::default(), grid);
            assert_eq!(folded.max_batch(1), MAX_PACKED_BATCH);
            assert_eq!(folded.max_batch(MAX_BATCH / 2), 2);
            assert_eq!(folded.max_batch_in_bins(1, 1), MAX_PACKED_BATCH);
            for bins in [3, 75, 1000] {
                let batch = folded.max_batch_in_bins(1, bins);
                let words = columns * bins;
                assert!(batch == 1 || batch * words <= most, "{columns} x {bins}: {batch}");
                assert!(
                    batch == MAX_PACKED_BATCH || (batch + 1) * words > most,
                    "{columns} x {bins}: {batch}"
                );
            }
        }
    }
}

//! What a protocol is: parameters that choose their own shape, make both halves, and compute what a database needs
//! beforehand.

use std::sync::Arc;

use spirea_math::random::{SecretRng, Seed};

use crate::choice::{Choice, KeyDelivery};
use crate::client::AnyIndexClient;
use crate::files::{ChangedRecord, Files, PatchedFiles, Precomputation};
use crate::keys::ClientKeys;
use crate::opening::Opening;
use crate::parameters::Parameters;
use crate::{ProtocolError, Responder, Result};

/// Tables that reach every case of a protocol's shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Specimens {
    /// Records and their bytes: some whose records share a unit, some that take several, all made and asked in seconds.
    pub small: &'static [(u64, usize)],
    /// Bytes of the records of a large table that the protocol is made for.
    pub large_record_bytes: usize,
}

/// A protocol with its parameters.
pub trait Protocol: Parameters + Send + Sync {
    /// Tables for whoever checks the protocol on a backend.
    fn specimens() -> Specimens
    where
        Self: Sized,
    {
        Specimens { small: &[(40, 3), (1200, 40), (5, 9000)], large_record_bytes: 4096 }
    }

    /// Refuses a choice of parameter sets that the protocol does not have, or that are weaker than the choice's level.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] that names what there is.
    fn check(choice: &Choice) -> Result<(), ProtocolError>
    where
        Self: Sized;

    /// Refuses bins, unless the protocol has any.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`].
    fn check_bins(choice: &Choice) -> Result<(), ProtocolError>
    where
        Self: Sized,
    {
        choice.check_undivided()
    }

    /// Refuses keys that queries bring, unless the protocol's can.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`].
    fn check_keys(choice: &Choice) -> Result<(), ProtocolError>
    where
        Self: Sized,
    {
        choice.check_delivery(&[KeyDelivery::Registered])
    }

    /// The cheapest shape of records.
    ///
    /// # Errors
    /// Those of [`Protocol::check`]; [`ProtocolError::BadRequest`] for records that fit no shape.
    fn choose(choice: &Choice, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError>
    where
        Self: Sized;

    /// The choice that these are the parameters of.
    fn choice(&self) -> Choice;

    /// The choice for a delta's records beside a base of these: the same parameter sets under the simplest protocol of
    /// the kind. What a second fold, a second packing or a tournament saves of a large table, it costs a small one:
    /// hints, keys and time that do not shrink with the table.
    fn delta_choice(&self) -> Choice {
        self.choice()
    }

    /// The public seed: of the public matrices, or of the pad of polynomials; `None` for a protocol with neither.
    fn seed(&self) -> Option<Seed> {
        None
    }

    /// Takes another seed; a protocol with neither public matrices nor a pad takes no notice of it.
    fn reseed(&mut self, _seed: Seed) {}

    /// Whether clients hold the hint for longer than a version. Its public matrix stays when records change, so that
    /// they fetch only what differs, and [`Serve::patch`] brings it up to date. Aiming content at the matrix gains little:
    /// `simple` and `double` have bounds for every database and every public matrix ([`Parameters::worst_failure`]), and the
    /// checksum catches a failure.
    fn hint_lasts(&self) -> bool {
        false
    }

    /// The client half, with a hint as long as [`Parameters::sizes`] says. A protocol with evaluation keys takes those
    /// among the known ones that fit, or else draws the client's long-lived secret from `rng`.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid.
    fn client_of(&self, known: Holdings<'_>, rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>>;

    /// [`Protocol::client_of`] a hint that may be too short or too long.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if it is.
    fn client(
        &self,
        hint: &[u8],
        keys: &[ClientKeys],
        rng: &mut SecretRng,
    ) -> Result<Box<dyn AnyIndexClient>, ProtocolError> {
        if hint.len() as u64 != self.sizes().hint_bytes {
            return Err(ProtocolError::malformed("hint", "it is not as long as the parameters say"));
        }
        self.client_of(Holdings { hint, keys }, rng)
    }
}

/// What a client has before it asks.
#[derive(Clone, Copy)]
pub struct Holdings<'a> {
    /// The database's hint; empty if the protocol has none.
    pub hint: &'a [u8],
    /// Keys that it made before, for whichever parameters.
    pub keys: &'a [ClientKeys],
}

/// A protocol on a backend with the operations that it needs.
pub trait Serve<B>: Protocol {
    /// Computes once what a stored database needs: the hint for clients and what the server keeps, of the sizes that
    /// the parameters say. `progress` is told the share that is done.
    ///
    /// # Errors
    /// The backend's; [`ProtocolError::Write`] if an output fails.
    fn precompute(&self, _backend: &Arc<B>, _job: Precomputation<'_>) -> Result<()> {
        Ok(())
    }

    /// Brings what was computed of a database up to date after some of its records have changed, where
    /// [`Protocol::hint_lasts`]: the same bytes as [`Serve::precompute`] of the changed database, at a cost that goes
    /// by the changes and the hint and not by the database. `files.matrix` has the changed records already; the others
    /// are changed in place.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the hint does not last; the backend's; [`ProtocolError::Malformed`] if a file is
    /// not as long as the parameters say or a change is of no record; [`ProtocolError::Write`].
    fn patch(&self, _backend: &Arc<B>, _files: &PatchedFiles<'_>, _changes: &[ChangedRecord]) -> Result<()> {
        let name = self.name();
        Err(ProtocolError::BadRequest(format!("{name} computes everything anew when records change")))
    }

    /// The server half, of the files of a snapshot.
    ///
    /// # Errors
    /// If the files are not what the parameters say or the backend fails; [`ProtocolError::BadRequest`] if the protocol
    /// has two servers and `opening` does not say which.
    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>>;
}

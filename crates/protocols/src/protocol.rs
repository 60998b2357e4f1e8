//! Definition of a protocol: parameters that choose their shape, make both halves, and precompute
//! the data that answering needs.

use std::sync::Arc;

use spirea_math::random::{SecretRng, Seed};

use crate::choice::{Choice, KeyDelivery};
use crate::client::AnyIndexClient;
use crate::files::{ChangedRecord, Files, PatchedFiles, Precomputation};
use crate::keys::ClientKeys;
use crate::opening::Opening;
use crate::parameters::Parameters;
use crate::{ProtocolError, Responder, Result};

/// A protocol with its parameters.
pub trait Protocol: Parameters + Send + Sync {
    /// Refuses a parameter set that the protocol does not have, or that is weaker than the choice's
    /// security level.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] that lists the known sets.
    fn check(choice: &Choice) -> Result<(), ProtocolError>
    where
        Self: Sized;

    /// Refuses bins, unless the protocol has bins.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`].
    fn check_bins(choice: &Choice) -> Result<(), ProtocolError>
    where
        Self: Sized,
    {
        choice.check_undivided()
    }

    /// Refuses keys that queries carry, unless the protocol supports them.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`].
    fn check_keys(choice: &Choice) -> Result<(), ProtocolError>
    where
        Self: Sized,
    {
        choice.check_delivery(&[KeyDelivery::Registered])
    }

    /// Chooses the cheapest shape of records.
    ///
    /// # Errors
    /// Those of [`Protocol::check`]; [`ProtocolError::BadRequest`] for records that fit no shape.
    fn choose(choice: &Choice, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError>
    where
        Self: Sized;

    /// Returns the choice from which these parameters follow.
    fn choice(&self) -> Choice;

    /// Returns the choice for the records of a delta beside this base: the same parameter sets,
    /// under the simplest protocol of the kind. A second fold, a second packing or a tournament
    /// saves work for a large table. For a small table, each of these costs hints, keys and time
    /// that do not shrink with the table.
    fn delta_choice(&self) -> Choice {
        self.choice()
    }

    /// Returns the public seed, of the public matrices or of the polynomials' pad; `None` for a
    /// protocol with neither.
    fn seed(&self) -> Option<Seed> {
        None
    }

    /// Replaces the seed; a protocol with neither public matrices nor a pad ignores it.
    fn reseed(&mut self, _seed: Seed) {}

    /// Returns true if clients keep the hint across versions. Its public matrix then stays when
    /// records change, so clients fetch only the differences, and [`Serve::patch`] updates the
    /// hint. Content chosen against the matrix gains little: `simple` and `double` have bounds for
    /// every database and every public matrix ([`Parameters::worst_failure`]), and the checksum
    /// catches a failure.
    fn hint_lasts(&self) -> bool {
        false
    }

    /// Makes the client half from a hint of the length that the profile gives. If the
    /// protocol has evaluation keys, the client reuses known keys that fit, or else draws its
    /// long-lived secret from `rng`.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid.
    fn client_of(&self, known: Holdings<'_>, rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>>;
}

/// Data that a client has before it queries.
#[derive(Clone, Copy)]
pub struct Holdings<'a> {
    /// The database's hint; empty if the protocol has none.
    pub hint: &'a [u8],
    /// Keys that the client made before, for any parameters.
    pub keys: &'a [ClientKeys],
}

/// A protocol on a backend with the operations that it needs.
pub trait Serve<B>: Protocol {
    /// Precomputes the data that answering from a stored database needs: the hint for clients and
    /// the server's data, of the sizes that the parameters give. Reports the completed fraction to
    /// `progress`.
    ///
    /// # Errors
    /// Those of the backend; [`ProtocolError::Write`] if an output fails.
    fn precompute(&self, _backend: &Arc<B>, _job: Precomputation<'_>) -> Result<()> {
        Ok(())
    }

    /// Precomputes as [`Serve::precompute`] does, and opens the server half if both share most of
    /// their work. Otherwise returns `None`, and the caller opens the server half from the files.
    ///
    /// # Errors
    /// Those of [`Serve::precompute`] and [`Serve::open`].
    fn precompute_open(
        &self,
        backend: &Arc<B>,
        job: Precomputation<'_>,
        _opening: Opening,
    ) -> Result<Option<Box<dyn Responder>>> {
        self.precompute(backend, job).map(|()| None)
    }

    /// Updates the precomputed data of a database after some of its records have changed, if
    /// [`Protocol::hint_lasts`]. The result has the same bytes as [`Serve::precompute`] of the
    /// changed database; the cost depends on the changes, the panels that they touch and the hint.
    /// `files.matrix` must already contain the changed records; the other files are changed in
    /// place.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the hint does not last; those of the backend;
    /// [`ProtocolError::Malformed`] if a file does not have the length that the parameters give, or
    /// a change names no record; [`ProtocolError::Write`].
    fn patch(&self, _backend: &Arc<B>, _files: &PatchedFiles<'_>, _changes: &[ChangedRecord]) -> Result<()> {
        let reason = "the protocol computes everything anew when records change";
        Err(ProtocolError::BadRequest(reason.into()))
    }

    /// Opens the server half from the files of a snapshot.
    ///
    /// # Errors
    /// If the files do not match the parameters or the backend fails; [`ProtocolError::BadRequest`]
    /// if the protocol has two servers and `opening` names no party.
    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>>;
}

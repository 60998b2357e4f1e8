//! Packing: LWE ciphertexts to RLWE ciphertexts (step `pack` and the steps around it).
//!
//! - [`PackingShape`] is the shape of a protocol that packs. It opens the server half, a
//!   [`PackScheme`], and makes the client half, a [`PackClient`].
//! - `expanded`: leaves are entries of the LWE secret (step `expand`); `rotated`: leaves are
//!   rotated chunks of it (step `rotate`); `registered`: the common part of both, for clients that
//!   register keys; `one_shot`: rotated chunks, for queries that carry their keys.
//! - `scheme`: the server half of all protocols that pack, which runs any [`PackScheme`] after the
//!   first fold; `client`: the client half.
//! - `one_fold`: the protocols that pack the result of one fold, `exppack-simple` and `hybrid`.

pub(crate) mod client;
pub(crate) mod expanded;
pub(crate) mod one_fold;
mod one_shot;
pub(crate) mod registered;
mod rotated;
pub(crate) mod scheme;

use std::io::Write;
use std::ops::Deref;
use std::sync::Arc;

use spirea_backend::RingBackend;
use spirea_lattice::rlwe::noise::lwe_rounding;
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::{SecretRng, Seed};

use self::client::PackClient;
use self::expanded::ExpandedShape;
use self::one_shot::{OneShotClient, OneShotServer, OneShotShape, write_uniform};
use self::registered::Registered;
use self::rotated::RotatedShape;
use self::scheme::{PackScheme, PackedRows};
use crate::ProtocolError;
use crate::choice::KeyDelivery;
use crate::protocol::Holdings;
use crate::steps::LweHint;
use crate::steps::folded::Folded;
use crate::steps::noise::field_exceedance_log2;
use crate::steps::ring::{RingClient, Shape};
use crate::steps::scalar_fold::FoldedColumns;

/// The shape of a protocol that packs. Its ring set determines the variant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PackingShape {
    /// Packing by expansion to the secret's entries.
    Expanded(ExpandedShape),
    /// Packing by rotations of the secret's chunks.
    Rotated(RotatedShape),
    /// Packing by rotations, with keys that queries carry.
    OneShot(OneShotShape),
}

impl PackingShape {
    /// Returns the shape of a protocol with these validated parameters that packs into `results`
    /// ciphertexts for each query, and selects among `groups`. The set `paper` packs by expansion,
    /// as in VIPIR. Queries that carry their keys require one group and a set other than `paper`.
    pub fn new(folded: &Folded, results: usize, groups: usize) -> Self {
        let (lwe, set) = (folded.lwe_set(), folded.ring_set());
        match (folded.keys, set) {
            (KeyDelivery::PerQuery, _) => Self::OneShot(OneShotShape::new(lwe, set, results, folded.queries)),
            (_, RingSet::Paper) => Self::Expanded(ExpandedShape::packing(lwe, set, groups)),
            _ => Self::Rotated(RotatedShape::new(lwe, set, results, groups)),
        }
    }

    /// Opens the server half for the database of `seed`. `hint` is the hint of the packed rows.
    ///
    /// # Errors
    /// Those of the backend; [`ProtocolError::Malformed`] if the hint has too few rows.
    pub fn open<B: RingBackend>(
        self,
        backend: &Arc<B>,
        seed: &Seed,
        rows: PackedRows,
        hint: &LweHint,
    ) -> Result<Box<dyn PackScheme<B>>, ProtocolError> {
        let hint = hint.first_rows(rows.rows)?;
        Ok(match self {
            Self::Expanded(shape) => Box::new(Registered::new(shape, backend, rows, hint)?),
            Self::Rotated(shape) => Box::new(Registered::new(shape, backend, rows, hint)?),
            Self::OneShot(shape) => Box::new(OneShotServer::new(shape, backend, seed, rows.rows, hint)?.0),
        })
    }

    /// Opens the server half as [`Self::open`] does, and writes the hint that clients download, if
    /// there is one.
    ///
    /// # Errors
    /// Those of [`Self::open`] and [`Self::write_hint`].
    pub fn open_and_write<B: RingBackend>(
        self,
        backend: &Arc<B>,
        seed: &Seed,
        rows: PackedRows,
        hint: &LweHint,
        out: &mut dyn Write,
    ) -> Result<Box<dyn PackScheme<B>>, ProtocolError> {
        match self {
            Self::Expanded(_) | Self::Rotated(_) => self.open(backend, seed, rows, hint),
            Self::OneShot(shape) => {
                let hint = hint.first_rows(rows.rows)?;
                let (server, halves) = OneShotServer::new(shape, backend, seed, rows.rows, hint)?;
                out.write_all(&halves).map_err(ProtocolError::Write)?;
                Ok(Box::new(server))
            }
        }
    }

    /// Writes the hint that clients download, if there is one. The arguments are those of
    /// [`Self::open`].
    ///
    /// # Errors
    /// Those of [`Self::open`]; [`ProtocolError::Write`] if the output fails.
    pub fn write_hint<B: RingBackend>(
        self,
        backend: &Arc<B>,
        seed: &Seed,
        rows: PackedRows,
        hint: &LweHint,
        out: &mut dyn Write,
    ) -> Result<(), ProtocolError> {
        match self {
            Self::Expanded(_) | Self::Rotated(_) => Ok(()),
            Self::OneShot(shape) => write_uniform(shape, backend, seed, hint.first_rows(rows.rows)?, out),
        }
    }

    /// Makes the client half for the database of `seed`. If it registers keys, it reuses known keys
    /// that fit, or else makes its own.
    pub fn client(self, seed: &Seed, known: Holdings<'_>, rng: &mut SecretRng) -> Box<dyn PackClient> {
        match self {
            Self::Expanded(shape) => Box::new(RingClient::new(Box::new(shape), known.keys, rng)),
            Self::Rotated(shape) => Box::new(RingClient::new(Box::new(shape), known.keys, rng)),
            Self::OneShot(shape) => Box::new(OneShotClient::new(shape, seed, known.hint)),
        }
    }
}

impl Deref for PackingShape {
    type Target = dyn Shape;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Expanded(shape) => shape,
            Self::Rotated(shape) => shape,
            Self::OneShot(shape) => shape,
        }
    }
}

/// Returns log2 of the estimated probability that the error of any of `entries` bytes exceeds the
/// fraction `share` of the tolerated error. The bytes are folded under `lwe`, packed, and selected
/// if the shape selects.
pub(crate) fn packed_exceedance_log2(
    shape: &dyn Shape,
    lwe: LweSet,
    folded: FoldedColumns,
    entries: usize,
    share: f64,
) -> f64 {
    let noise = shape.noise();
    let steps = shape.pack_noise(lwe) + shape.depth() as f64 * noise.tournament_level();
    let variance = folded.variance() + lwe_rounding(lwe, shape.set().plaintext_bits());
    field_exceedance_log2(noise.response(steps) + variance, entries, share)
}

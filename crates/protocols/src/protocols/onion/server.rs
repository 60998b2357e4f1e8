//! The server half.

use std::sync::Arc;

use spirea_backend::RingBackend;

use super::Params;
use crate::keys::PreparedKeys;
use crate::parameters::Parameters;
use crate::responder::{Query, Responder};
use crate::steps::check::check_batch;
use crate::steps::ring::RingServer;
use crate::{ProtocolError, Sizes};

/// The server half of OnionPIRv2 over a backend.
pub struct Server<B: RingBackend> {
    params: Params,
    ring: RingServer<B>,
    /// The plaintext polynomials of each part, a row for each group.
    parts: Vec<B::Plain>,
}

impl<B: RingBackend> Server<B> {
    /// A server of the units that `read` gives: the bytes of unit number n of the file into a buffer. The pad is added
    /// to them on the way.
    ///
    /// Transforming the polynomials when they are loaded takes less time than reading the four times larger
    /// result from a disk would.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid; the backend's, if there is no room.
    pub fn new(
        params: Params,
        backend: Arc<B>,
        read: impl Fn(usize, &mut [u8]) + Sync,
    ) -> Result<Self, ProtocolError> {
        params.validate()?;
        let ring = RingServer::new(backend, params.ring_shape())?;
        let (grid, bits, pad) = (params.grid, params.ring_set().plaintext_bits(), params.pad());
        let parts = (0..grid.parts()).map(|part| {
            let fill = |group: usize, column: usize, coefficients: &mut [i32]| {
                let mut bytes = vec![0; grid.unit_rows];
                let unit = (part * grid.groups + group) * grid.columns + column;
                read(unit, &mut bytes);
                let padding = pad.of_unit(unit, coefficients.len());
                for (coefficient, (number, pad)) in
                    coefficients.iter_mut().zip(split_bits(&bytes, bits).zip(padding))
                {
                    // Modulo 2^bits, read as a signed number: the representative of least magnitude.
                    *coefficient = (((number + pad) << (64 - bits)) as i64 >> (64 - bits)) as i32;
                }
            };
            ring.backend.encode(&ring.tables, grid.groups, grid.columns, &fill)
        });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { params, ring, parts })
    }
}

/// The numbers of `bits` bits each, lowest bit first, without gaps, that bytes hold; zeros after their end.
pub(super) fn split_bits(bytes: &[u8], bits: u32) -> impl Iterator<Item = u64> {
    let (mut bytes, mut pending, mut count) = (bytes.iter(), 0u64, 0);
    std::iter::repeat_with(move || {
        while count < bits {
            pending |= u64::from(*bytes.next().unwrap_or(&0)) << count;
            count += 8;
        }
        let number = pending & (u64::MAX >> (u64::BITS - bits));
        (pending, count) = (pending >> bits, count - bits);
        number
    })
}

impl<B: RingBackend> Responder for Server<B> {
    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn max_batch(&self) -> usize {
        64
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.ring.prepare_keys(bytes)
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        check_batch(queries, self.sizes().query_bytes, self.max_batch())?;
        let ciphertexts = self.ring.ciphertexts(queries, self.params.layout())?;
        let mut answers = Vec::with_capacity(queries.len());
        for group in self.ring.expand_groups(&ciphertexts)? {
            let (queries, leaves) = group?;
            let selectors = self.ring.selectors(&ciphertexts[queries], &leaves)?;
            let mut selected = Vec::new();
            for plain in &self.parts {
                let rows = self.ring.backend.poly_fold(&self.ring.tables, plain, &leaves)?;
                selected.push(self.ring.select(&selectors, rows)?);
            }
            answers.extend(self.ring.switch(&selected)?);
        }
        Ok(answers)
    }
}

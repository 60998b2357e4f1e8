//! Step `poly_fold`: the product of the transposed plain matrix and the leaves of a batch.
//!
//! docs/kernels/cuda-product.md describes the layout, the kernels and their overlap.

mod form;
mod launch;
mod pipeline;
mod shape;
#[cfg(test)]
mod tests;

use std::ops::Range;

use spirea_backend::BackendError;

pub use form::Form;

use super::ciphertexts::{Ciphertexts, Leaves};
use super::primes::Prime;
use super::tables::Tables;
use crate::driver::{Buffer, Compute, Stream, View};
use launch::{Kernels, Rows};
use pipeline::{Pipeline, Stored};
use shape::{MOST_QUERIES, SLOTS, STEP, Shape};

/// Matrix of plaintext polynomials, transposed: by slot, step of 32 columns, and row, in the
/// [`Form`] that the device multiplies. Each residue takes 4 bytes; columns are padded to a
/// multiple of 32.
#[derive(Debug)]
pub struct Plain {
    // Dropped first: its graphs contain the matrix's address.
    pipeline: Pipeline,
    stored: Stored,
}

impl Plain {
    /// Allocates a matrix of plaintexts in the best form for the device and the ring;
    /// [`store`](Self::store) fills it.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no room, [`BackendError::Shape`] if the matrix is
    /// empty.
    pub fn new(tables: &Tables, rows: usize, columns: usize) -> Result<Self, BackendError> {
        let primes = tables.ring().limbs().iter().map(|limb| limb.prime().value());
        let form = Form::choose(tables.device.properties().compute, primes);
        Self::with_form(tables, rows, columns, form)
    }

    /// Allocates a matrix in a given form.
    ///
    /// # Errors
    /// As for [`new`](Self::new); [`BackendError::Shape`] if the ring's residues cannot have this
    /// form.
    pub fn with_form(tables: &Tables, rows: usize, columns: usize, form: Form) -> Result<Self, BackendError> {
        let degree = tables.degree();
        let primes: Vec<Prime> = tables.ring().limbs().iter().map(|limb| Prime::new(limb.prime())).collect();
        let warpgroups = tables.device.properties().compute == Compute::WARPGROUPS;
        let shape = Shape { form, warpgroups, degree, rows, terms: columns };
        if rows == 0 || columns == 0 {
            return Err(BackendError::Shape(format!("a plain matrix of {rows} x {columns} polynomials")));
        }
        if !degree.is_multiple_of(SLOTS) {
            return Err(BackendError::Shape(format!("a degree of {degree} is no multiple of {SLOTS}")));
        }
        if !primes.iter().all(|prime| form.holds(prime.q)) {
            return Err(BackendError::Shape(format!("a prime is too large for the form {form:?}")));
        }
        // Steps are limited by a grid's second dimension, rows by a word.
        if shape.steps() >= 1 << 16 || rows > (1 << 31) - STEP {
            return Err(BackendError::Shape(format!("a plain matrix of {rows} x {columns} polynomials")));
        }
        let words = shape.slot_words().and_then(|words| words.checked_mul(tables.words()));
        let device = &tables.device;
        let matrix = device.hold(words.unwrap_or(usize::MAX))?;
        let kernels = Kernels::new(device, shape)?;
        let pipeline = Pipeline::new(device, shape, tables.limbs())?;
        Ok(Self { pipeline, stored: Stored { shape, primes, kernels, matrix } })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.stored.shape.rows
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.stored.shape.terms
    }

    /// Returns the form.
    pub fn form(&self) -> Form {
        self.stored.shape.form
    }

    /// Returns the bytes of the matrix in the device's memory, which a fold reads once.
    pub fn bytes(&self) -> usize {
        4 * self.stored.matrix.len()
    }

    /// Views the matrix, for a copy to another device's matrix of the same shape and form.
    pub(crate) fn words(&self) -> View<'_, u32> {
        self.stored.matrix.all()
    }

    /// Stores the whole rows `first` to `first + rows - 1`. `values` begins with them,
    /// `[row][column][limb][N]`. The buffer may be reused once the work queued here on the main
    /// stream has run.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the matrix does not have these rows, or there are too few values.
    pub fn store(
        &mut self,
        tables: &Tables,
        first: usize,
        rows: usize,
        values: &Buffer<u32>,
    ) -> Result<(), BackendError> {
        self.store_on(&tables.device.main(), tables, first, rows, values)
    }

    /// Stores rows like [`Self::store`], on another stream, which the caller forks from the main
    /// stream and joins to it again.
    pub(super) fn store_on(
        &mut self,
        stream: &Stream,
        tables: &Tables,
        first: usize,
        rows: usize,
        values: &Buffer<u32>,
    ) -> Result<(), BackendError> {
        self.check_ring(tables)?;
        let wanted = rows.checked_mul(self.stored.shape.terms * tables.words());
        if rows > self.stored.shape.rows
            || first > self.stored.shape.rows - rows
            || wanted.is_none_or(|n| n > values.len())
        {
            return Err(BackendError::Shape(format!(
                "{} values for rows {first} to {} of {}",
                values.len(),
                first.saturating_add(rows),
                self.stored.shape.rows
            )));
        }
        if rows == 0 {
            return Ok(());
        }
        let rows = Rows { first, count: rows, values };
        for limb in 0..self.stored.primes.len() {
            self.stored.kernels.transpose_rows(
                stream,
                self.stored.shape,
                &self.stored.primes,
                limb,
                &rows,
                &self.stored.matrix,
            )?;
        }
        Ok(())
    }

    fn check_ring(&self, tables: &Tables) -> Result<(), BackendError> {
        let primes = tables.ring().limbs().iter().map(|limb| limb.prime().value());
        if tables.degree() != self.stored.shape.degree
            || !primes.eq(self.stored.primes.iter().map(|prime| prime.q))
        {
            return Err(BackendError::Shape("a plain matrix of another ring".into()));
        }
        Ok(())
    }
}

/// Computes `poly_fold`: the rows of each matrix follow those of the matrix before.
///
/// # Errors
/// [`BackendError::Shape`] if there are fewer leaves than columns.
pub fn poly_fold(tables: &Tables, plain: &[&Plain], leaves: &Leaves) -> Result<Ciphertexts, BackendError> {
    let rows = plain.iter().map(|plain| plain.rows()).sum();
    let products = Ciphertexts::room(tables, leaves.queries(), rows)?;
    let mut first = 0;
    for plain in plain {
        multiply(tables, plain, leaves, 0..leaves.queries(), &products, first)?;
        first += plain.rows();
    }
    Ok(products)
}

/// Computes `poly_fold` for some queries of a batch. The products of each query are written to
/// `products` from ciphertext `first` on.
///
/// # Errors
/// [`BackendError::Shape`] if there are fewer leaves than columns.
///
/// # Panics
/// If `products` has less room.
pub(super) fn multiply(
    tables: &Tables,
    plain: &Plain,
    leaves: &Leaves,
    mut queries: Range<usize>,
    products: &Ciphertexts,
    first: usize,
) -> Result<(), BackendError> {
    plain.check_ring(tables)?;
    if leaves.count() < plain.columns() {
        return Err(BackendError::Shape("fewer leaves than columns".into()));
    }
    let one = tables.ciphertext();
    while !queries.is_empty() {
        let last = queries.end.min(queries.start + MOST_QUERIES);
        let operands = (queries.start..last).map(|query| {
            let results = products.of(tables, query).range(first * one..(first + plain.rows()) * one);
            [leaves.of(tables, query).address(), results.address()]
        });
        plain.pipeline.run(&plain.stored, operands)?;
        queries.start = last;
    }
    Ok(())
}

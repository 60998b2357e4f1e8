use crate::ciphertext::parse_seeded;
use crate::error::AppleError;
use crate::messages::EncryptedIndices;
use crate::seed::uniform;
use crate::set::{Polynomials, RINGS};
use crate::shape::Shape;

const MESSAGE: &str = "EncryptedIndices";

/// A query for one bucket of each table of a shard.
///
/// `Debug` shows only its number of ciphertexts.
#[derive(Clone, PartialEq, Eq)]
pub struct Query {
    /// Ciphertexts as coefficients modulo q.
    ciphertexts: Vec<Polynomials>,
}

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Query").field("ciphertexts", &self.ciphertexts.len()).finish_non_exhaustive()
    }
}

impl Query {
    /// Parses a query to a shard of this shape.
    ///
    /// # Errors
    /// [`AppleError::Malformed`] if the numbers of tables or ciphertexts are not those of the
    /// shape, or a ciphertext is malformed.
    pub fn parse(shape: &Shape, message: &EncryptedIndices) -> Result<Self, AppleError> {
        let (tables, ciphertexts) = (shape.tables() as u64, shape.leaves_of_ciphertexts().len());
        if message.num_pir_calls != tables || message.ciphertexts.len() != ciphertexts {
            let found = (message.ciphertexts.len(), message.num_pir_calls);
            let detail =
                format!("{} ciphertexts for {} tables, not {ciphertexts} for {tables}", found.0, found.1);
            return Err(AppleError::malformed(MESSAGE, detail));
        }
        let ring = &RINGS.ciphertext;
        let parse = |ciphertext| {
            let (c0, seed) = parse_seeded(MESSAGE, ring, ciphertext)?;
            let mut c1 = uniform(ring, &seed);
            ring.inverse(&mut c1);
            Ok([c0, c1])
        };
        Ok(Self { ciphertexts: message.ciphertexts.iter().map(parse).collect::<Result<_, AppleError>>()? })
    }

    /// Returns the ciphertexts as coefficients modulo q.
    pub(crate) fn ciphertexts(&self) -> &[Polynomials] {
        &self.ciphertexts
    }
}

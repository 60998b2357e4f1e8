use crate::ciphertext::parse_seeded;
use crate::error::AppleError;
use crate::messages::EncryptedIndices;
use crate::seed::uniform;
use crate::set::RINGS;
use crate::shape::Shape;

const MESSAGE: &str = "EncryptedIndices";

/// A query for one bucket of each table of a shard.
///
/// `Debug` shows only its number of ciphertexts.
#[derive(Clone, PartialEq, Eq)]
pub struct Query {
    /// Ciphertexts modulo q: the first polynomial as coefficients, then the second one as values.
    ciphertexts: Vec<Vec<u32>>,
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
            let (mut words, seed) = parse_seeded(MESSAGE, ring, ciphertext)?;
            words.extend(uniform(ring, &seed));
            Ok(words)
        };
        Ok(Self { ciphertexts: message.ciphertexts.iter().map(parse).collect::<Result<_, AppleError>>()? })
    }

    /// Returns the ciphertexts modulo q: the first polynomial as coefficients, then the second one
    /// as values.
    pub(crate) fn ciphertexts(&self) -> &[Vec<u32>] {
        &self.ciphertexts
    }
}

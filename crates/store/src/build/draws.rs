//! The public random values of a snapshot. Each is drawn only when the content that could be aimed
//! at it is fixed.

use spirea_math::random::Seed;
use spirea_protocols::{PlaceSalt, Salt};

use crate::StoreError;

/// Source of a build's public random values.
pub(super) enum Draws {
    /// The operating system.
    System,
    /// A seed, for reproducible builds.
    Derived([u8; 32]),
}

impl Draws {
    /// Draws the salt of keys and checksums. It comes first because keys are hashed while they are
    /// read. When a table is rebuilt, content may therefore depend on it.
    pub(super) fn salt(&self) -> Result<Salt, StoreError> {
        self.draw("spirea build v2: salt of the table")
    }

    /// Draws the salt of the entries' places. Must be drawn after all keys are read: otherwise keys
    /// could be aimed at one bucket.
    pub(super) fn places(&self) -> Result<PlaceSalt, StoreError> {
        self.draw("spirea build v2: places of the table")
    }

    /// Draws the seed of the public matrix. Must be drawn after all values are read: otherwise
    /// content could be aimed at it.
    pub(super) fn seed(&self) -> Result<Seed, StoreError> {
        self.draw("spirea build v2: seed of the public matrix")
    }

    /// Draws the salt of inclusion proofs. Must be drawn after all values are read: otherwise
    /// records with equal hashes could be made.
    pub(super) fn proofs(&self) -> Result<Salt, StoreError> {
        self.draw("spirea build v2: salt of the inclusion proofs")
    }

    fn draw<T: From<[u8; 32]>>(&self, name: &str) -> Result<T, StoreError> {
        match self {
            Self::Derived(seed) => Ok(blake3::derive_key(name, seed).into()),
            Self::System => {
                let mut bytes = [0; 32];
                getrandom::fill(&mut bytes).map_err(StoreError::NoEntropy)?;
                Ok(bytes.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_new_ones_unless_a_seed_repeats_them() {
        let all = |draws: &Draws| {
            let (salt, places, proofs) = (draws.salt(), draws.places(), draws.proofs());
            let [salt, proofs] = [salt, proofs].map(|salt| *salt.unwrap().as_bytes());
            [salt, *draws.seed().unwrap().as_bytes(), *places.unwrap().as_bytes(), proofs]
        };
        let derived = Draws::Derived([1; 32]);
        assert_eq!(all(&derived), all(&derived));
        let several =
            [all(&derived), all(&Draws::Derived([2; 32])), all(&Draws::System), all(&Draws::System)];
        let different: std::collections::BTreeSet<_> = several.into_iter().flatten().collect();
        assert_eq!(different.len(), 16);
    }
}

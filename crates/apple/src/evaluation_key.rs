use std::collections::BTreeMap;

use spirea_backend::SwitchKey;

use crate::ciphertext::parse_seeded;
use crate::config::KeyConfig;
use crate::error::AppleError;
use crate::messages::{SerializedEvaluationKey, SerializedKeySwitchKey};
use crate::seed::uniform;
use crate::set::RINGS;

const MESSAGE: &str = "SerializedEvaluationKey";

/// The evaluation key of a client, ready to use.
///
/// `Debug` shows only the Galois elements.
#[derive(Clone, PartialEq, Eq)]
pub struct EvaluationKey {
    galois: BTreeMap<u32, SwitchKey>,
    relinearisation: SwitchKey,
}

impl std::fmt::Debug for EvaluationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EvaluationKey").field("galois", &self.galois.keys()).finish_non_exhaustive()
    }
}

impl EvaluationKey {
    /// Parses the key that `config` asks for.
    ///
    /// # Errors
    /// [`AppleError::Malformed`] if the key has other Galois elements, no relinearisation key, or a
    /// malformed ciphertext.
    pub fn parse(config: &KeyConfig, message: &SerializedEvaluationKey) -> Result<Self, AppleError> {
        let keys = message.galois_key.as_ref().map(|key| &key.key_switch_keys);
        let found = keys.into_iter().flatten();
        let elements = || config.galois_elements().iter().copied();
        if !found.clone().map(|(&element, _)| element).eq(elements().map(u64::from)) {
            let detail = format!("the Galois elements are not {:?}", config.galois_elements());
            return Err(AppleError::malformed(MESSAGE, detail));
        }
        let relinearisation = message.relin_key.as_ref().and_then(|key| key.relin_key.as_ref());
        let relinearisation = relinearisation
            .ok_or_else(|| AppleError::malformed(MESSAGE, "there is no relinearisation key"))?;
        Ok(Self {
            galois: elements()
                .zip(found)
                .map(|(element, (_, key))| Ok((element, switch_key(key)?)))
                .collect::<Result<_, AppleError>>()?,
            relinearisation: switch_key(relinearisation)?,
        })
    }

    /// Returns the memory that the key takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let keys = self.galois.values().chain([&self.relinearisation]);
        keys.map(|key| size_of_val(key.words())).sum()
    }

    /// Returns the greatest Galois element up to `element`, and its key.
    pub(crate) fn galois(&self, element: u32) -> Option<(u32, &SwitchKey)> {
        self.galois.range(..=element).next_back().map(|(&element, key)| (element, key))
    }

    /// Returns the key from the square of the secret.
    pub(crate) fn relinearisation(&self) -> &SwitchKey {
        &self.relinearisation
    }
}

/// Parses a key-switching key from a secret s' to the secret s: for each prime of q an encryption
/// of P s' in that prime's residues, and of 0 in all others.
fn switch_key(message: &SerializedKeySwitchKey) -> Result<SwitchKey, AppleError> {
    let ring = &RINGS.keys;
    let digits = RINGS.ciphertext.limbs().len();
    let ciphertexts = message.key_switch_key.as_ref().map_or(&[][..], |vec| &vec.ciphertexts);
    if ciphertexts.len() != digits {
        let detail = format!("a key has {digits} ciphertexts, not {}", ciphertexts.len());
        return Err(AppleError::malformed(MESSAGE, detail));
    }
    let parse = |ciphertext| {
        let (c0, seed) = parse_seeded(MESSAGE, ring, ciphertext)?;
        Ok([c0, uniform(ring, &seed)])
    };
    let ciphertexts: Vec<_> = ciphertexts.iter().map(parse).collect::<Result<_, AppleError>>()?;
    Ok(SwitchKey::new(ring, &ciphertexts))
}

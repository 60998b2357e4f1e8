use std::fmt;

use spirea_math::random::{NoEntropy, SecretRng};
use zeroize::Zeroizing;

/// What every token begins with, so that people and scanners of leaked secrets know it for one.
pub const TOKEN_PREFIX: &str = "spirea_";

/// A token: 256 random bits behind [`TOKEN_PREFIX`], in hexadecimal. Erased when dropped, and not printed by
/// accident.
///
/// One fast hash of it is kept at rest. The slow hashes made for passwords make guessing dear; no one guesses
/// 256 random bits, and a slow hash would only be work that anyone could cause by sending wrong tokens.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// A fresh token.
    ///
    /// # Errors
    /// If the operating system gives no randomness.
    pub fn new() -> Result<Self, NoEntropy> {
        let mut bits = Zeroizing::new([0; 32]);
        SecretRng::from_os()?.fill(bits.as_mut());
        // As long as it becomes, so that growing leaves no copy behind.
        let mut text = Zeroizing::new(String::with_capacity(TOKEN_PREFIX.len() + 2 * bits.len()));
        text.push_str(TOKEN_PREFIX);
        for digit in bits.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
            text.extend(char::from_digit(digit.into(), 16));
        }
        Ok(Self(text))
    }

    /// The token's text: to be shown once.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What a server keeps of it: BLAKE3 of its text.
    pub fn hash(&self) -> blake3::Hash {
        blake3::hash(self.0.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_random_and_not_printed() {
        let (one, two) = (Secret::new().unwrap(), Secret::new().unwrap());
        let digits = one.expose().strip_prefix(TOKEN_PREFIX).unwrap();
        assert!(digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        assert_ne!(one.expose(), two.expose());
        assert_eq!(one.hash(), blake3::hash(one.expose().as_bytes()));
        assert_eq!(format!("{one:?}"), "Secret(..)");
    }
}

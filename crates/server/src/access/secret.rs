use std::fmt;

use spirea_math::random::{NoEntropy, SecretRng};
use zeroize::Zeroizing;

/// Prefix of every token, so that people and secret scanners recognise it.
pub const TOKEN_PREFIX: &str = "spirea_";

/// A token: 256 random bits in hexadecimal after [`TOKEN_PREFIX`]. Erased when dropped; `Debug`
/// does not print it.
///
/// The server stores only a fast hash of the token. A slow password hash would gain nothing,
/// because nobody guesses 256 random bits. Anyone could also load the server with slow hashes by
/// sending wrong tokens.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Creates a fresh token.
    ///
    /// # Errors
    /// If the operating system gives no randomness.
    pub fn new() -> Result<Self, NoEntropy> {
        let mut bits = Zeroizing::new([0; 32]);
        SecretRng::from_os()?.fill(bits.as_mut());
        // Allocated at its final length: growing would leave copies in freed memory.
        let mut text = Zeroizing::new(String::with_capacity(TOKEN_PREFIX.len() + 2 * bits.len()));
        text.push_str(TOKEN_PREFIX);
        for digit in bits.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
            text.extend(char::from_digit(digit.into(), 16));
        }
        Ok(Self(text))
    }

    /// Returns the token's text, to be shown once.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the BLAKE3 hash of the token's text, which a server keeps.
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

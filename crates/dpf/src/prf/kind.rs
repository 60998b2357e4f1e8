use serde::{Deserialize, Serialize};

use crate::DpfError;

/// Lists the functions: type, name, and statement of trust.
macro_rules! functions {
    ($($(#[$attribute:meta])* $prf:ident, $name:literal, $trust:literal;)*) => {
        /// Pseudorandom functions by name.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum PrfKind {$(
            #[doc = concat!("[`", stringify!($prf), "`](super::", stringify!($prf), "): ", $trust)]
            #[serde(rename = $name)]
            $(#[$attribute])*
            $prf,
        )*}

        impl PrfKind {
            /// All functions.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$prf),*];

            /// Returns the name, by which every file and command calls the function.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$prf => $name,)*
                }
            }

            /// Returns a sentence on what the function can be trusted for.
            pub fn trust(self) -> &'static str {
                match self {
                    $(Self::$prf => $trust,)*
                }
            }
        }
    };
}

functions! {
    #[default]
    Aes128, "aes-128",
    "A standard block cipher; with one fixed key its use here is proved secure for an ideal permutation.";
    ChaCha20, "chacha20",
    "The stream cipher of TLS, with a wide margin: published attacks reach fewer than half of its 20 rounds.";
    ChaCha12, "chacha12",
    "ChaCha with fewer rounds: no attack on 12 rounds is known, and the margin is smaller.";
    Salsa20, "salsa20",
    "A stream cipher with a wide margin: published attacks reach fewer than half of its 20 rounds.";
    Salsa12, "salsa12",
    "The variant of Salsa20 in the eSTREAM portfolio: no attack on 12 rounds is known.";
    SipHash24, "siphash",
    "A keyed function made for hash tables: a pseudorandom function by design, with a small margin and little \
     analysis of its form with 128 bits of output.";
    HighwayHash, "highwayhash",
    "A fast keyed hash: there is no proof of it and little cryptanalysis.";
    Sha256, "sha-256",
    "A conservative standard hash, and slow.";
}

impl PrfKind {
    /// Returns true if the function must be chosen by name, with knowledge of [`PrfKind::trust`],
    /// before anything runs with it. The function decides what a server can learn, and there is too
    /// little evidence for SipHash and HighwayHash to choose them for their speed alone.
    pub fn needs_consent(self) -> bool {
        matches!(self, Self::SipHash24 | Self::HighwayHash)
    }

    /// Returns the number of blocks of one call.
    pub fn blocks_per_call(self) -> u64 {
        match self {
            Self::Aes128 | Self::SipHash24 => 1,
            Self::HighwayHash | Self::Sha256 => 2,
            Self::ChaCha20 | Self::ChaCha12 | Self::Salsa20 | Self::Salsa12 => 4,
        }
    }
}

impl std::str::FromStr for PrfKind {
    type Err = DpfError;

    fn from_str(name: &str) -> Result<Self, DpfError> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| DpfError::Unknown {
            what: "pseudorandom function",
            name: name.into(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

impl std::fmt::Display for PrfKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

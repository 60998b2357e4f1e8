//! Choice of a protocol, its parameter sets and the level of security.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use spirea_dpf::PrfKind;
use spirea_lattice::noise::HintRounding;
use spirea_lattice::{LweSet, RingSet, Security};

use crate::ProtocolError;

/// Maximum number of bins.
pub const MAX_BINS: usize = 1 << 16;

/// Security that parameter sets must reach. The level restricts the choice and selects defaults;
/// parameters record only the names of the chosen sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityLevel {
    /// At least 128 bits under the models that count operations: every set.
    #[default]
    Standard,
    /// At least [`Security::ML_KEM_512`] under every model. Two-server protocols have no lattice:
    /// finding the 127-bit seeds of their keys is as hard, up to a bit, as finding the key of the
    /// cipher that defines ML-KEM-512's level. A pseudorandom function with little cryptanalysis is
    /// refused.
    Conservative,
}

impl SecurityLevel {
    /// Returns its name, as operators write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Conservative => "conservative",
        }
    }

    /// Returns the default LWE set.
    pub fn lwe_set(self) -> LweSet {
        match self {
            Self::Standard => LweSet::Module1280,
            Self::Conservative => LweSet::Module1536,
        }
    }

    /// Returns the default ring set for packing.
    pub fn packing_set(self) -> RingSet {
        RingSet::Brief
    }

    /// Returns the default ring set of `onion`.
    pub fn onion_set(self) -> RingSet {
        match self {
            Self::Standard => RingSet::Onion32,
            Self::Conservative => RingSet::Onion26,
        }
    }

    /// Returns the default ring sets, whose rates a plan needs.
    pub fn ring_sets(self) -> [RingSet; 2] {
        [self.packing_set(), self.onion_set()]
    }

    /// Returns true if a set of this security may be chosen.
    pub fn admits(self, security: Security) -> bool {
        match self {
            Self::Standard => true,
            Self::Conservative => security.reaches(Security::ML_KEM_512),
        }
    }

    fn admitted<S>(self, name: &str, set: S, security: Security) -> Result<S, ProtocolError> {
        if self.admits(security) {
            return Ok(set);
        }
        let Security { matzov, bdgl16, core_svp } = security;
        let least = Security::ML_KEM_512;
        Err(ProtocolError::BadRequest(format!(
            "the set {name} has {matzov}, {bdgl16} and {core_svp} bits under MATZOV, BDGL16 and core-SVP, and {} \
             security asks for ML-KEM-512's {}, {} and {}: name another set, or none",
            self.name(),
            least.matzov,
            least.bdgl16,
            least.core_svp
        )))
    }
}

impl FromStr for SecurityLevel {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let levels = [Self::Standard, Self::Conservative];
        levels
            .into_iter()
            .find(|level| level.name() == name)
            .ok_or_else(|| "there are standard and conservative".into())
    }
}

/// Objective of the choice of a shape: bytes of a query and its answer, work of the server, or a
/// balance of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// The fewest bytes among shapes within 5% of the least work.
    Time,
    /// The fewest bytes among shapes within 2.1 times the least work.
    Communication,
    /// The least sum of bytes and work, where work counts as the bytes that cross the network in
    /// the same time.
    #[default]
    Balance,
}

impl Preference {
    /// All preferences.
    pub const ALL: [Self; 3] = [Self::Time, Self::Communication, Self::Balance];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Communication => "communication",
            Self::Balance => "balance",
        }
    }
}

impl FromStr for Preference {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|preference| preference.name() == name);
        found.ok_or_else(|| format!("there are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// Delivery of a client's evaluation keys to a server that packs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyDelivery {
    /// A client registers its keys once, and its queries name them.
    #[default]
    Registered,
    /// Every query carries its own keys, under a secret used for this query only. Keys therefore do
    /// not link queries.
    PerQuery,
}

impl KeyDelivery {
    /// Both deliveries.
    pub const ALL: [Self; 2] = [Self::Registered, Self::PerQuery];

    /// Returns its name, as operators write it and parameters store it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::PerQuery => "per-query",
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl FromStr for KeyDelivery {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|delivery| delivery.name() == name);
        found.ok_or_else(|| format!("there are {}", Self::ALL.map(Self::name).join(" and ")))
    }
}

/// Form of the queries that carry their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueryForm {
    /// One ciphertext that expands to the chunks, with a key for each substitution. The default if
    /// parameters name no form.
    #[default]
    Whole,
    /// A ciphertext for each chunk, with two keys, from which the server derives a third. These
    /// queries are about half as long.
    Short,
}

impl QueryForm {
    /// Both forms.
    pub const ALL: [Self; 2] = [Self::Short, Self::Whole];

    /// Returns its name, as operators write it and parameters store it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Whole => "whole",
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl FromStr for QueryForm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|form| form.name() == name);
        found.ok_or_else(|| format!("there are {}", Self::ALL.map(Self::name).join(" and ")))
    }
}

/// Form of the words in the hints that clients download.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HintForm {
    /// The upper bits of each word only: the fewest bits for which the failure bound suffices for
    /// every database.
    #[default]
    Rounded,
    /// Whole words, for clients that cannot read rounded ones.
    Whole,
}

impl HintForm {
    /// Both forms.
    pub const ALL: [Self; 2] = [Self::Rounded, Self::Whole];

    /// Returns its name, as operators write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rounded => "rounded",
            Self::Whole => "whole",
        }
    }

    /// Returns the form of hints with `bits` bits a word.
    pub(crate) fn of_bits(bits: u32) -> Self {
        if bits == HintRounding::EXACT_BITS { Self::Whole } else { Self::Rounded }
    }

    /// Returns the bits of each word: the fewest for which `failure_log2`, a bound for every
    /// database, is at most `most_log2`, or all bits if no fewer bits suffice.
    pub(crate) fn bits(self, most_log2: f64, failure_log2: impl Fn(u32) -> f64) -> u32 {
        match self {
            Self::Rounded => HintRounding::fewest_bits(most_log2, failure_log2),
            Self::Whole => HintRounding::EXACT_BITS,
        }
    }
}

impl FromStr for HintForm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|form| form.name() == name);
        found.ok_or_else(|| format!("there are {}", Self::ALL.map(Self::name).join(" and ")))
    }
}

/// Word size of `dpf-sum`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Words {
    /// Shares and rows are words of 32 bits.
    #[default]
    U32,
    /// Shares and rows are words of 64 bits.
    U64,
}

/// A protocol with its parameter sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Name of the protocol; one of [`NAMES`](crate::registry::NAMES).
    pub protocol: String,
    /// Name of the LWE set, for protocols that begin with a fold. `None` for the level's default.
    pub set: Option<String>,
    /// Name of the ring set, for protocols with a ring. `None` for the level's default for the
    /// protocol.
    pub ring: Option<String>,
    /// Security that the sets must reach.
    pub security: SecurityLevel,
    /// Objective for choosing the shape.
    pub prefer: Preference,
    /// Pseudorandom function of two-server protocols.
    pub prf: PrfKind,
    /// Word size of `dpf-sum`.
    pub words: Words,
    /// Number of bins, of `exppack-simple` and two-server protocols; a query retrieves a record of
    /// each.
    pub bins: usize,
    /// Delivery of evaluation keys to a server that packs.
    pub keys: KeyDelivery,
    /// Form of queries that carry their keys.
    pub queries: QueryForm,
    /// Form of a hint that clients keep across versions.
    pub hint: HintForm,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            protocol: "simple".into(),
            set: None,
            ring: None,
            security: SecurityLevel::default(),
            prefer: Preference::default(),
            prf: PrfKind::default(),
            words: Words::default(),
            bins: 1,
            keys: KeyDelivery::default(),
            queries: QueryForm::Short,
            hint: HintForm::default(),
        }
    }
}

impl Choice {
    /// Returns the named LWE set, or the level's default.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the name is unknown (the error lists the names) or the set
    /// is too weak.
    pub(crate) fn lwe_set(&self) -> Result<LweSet, ProtocolError> {
        let Some(name) = &self.set else { return Ok(self.security.lwe_set()) };
        let known = || unknown("LWE set", name, &LweSet::ALL.map(LweSet::name));
        let set = LweSet::by_name(name).ok_or_else(known)?;
        self.security.admitted(name, set, set.security())
    }

    /// Returns the named ring set for packing LWE ciphertexts, or the level's default.
    ///
    /// # Errors
    /// Those of [`Choice::lwe_set`].
    pub(crate) fn packing_set(&self) -> Result<RingSet, ProtocolError> {
        self.ring_set(self.security.packing_set(), packing_sets().collect())
    }

    /// Returns the named ring set among `sets`, or `default`.
    ///
    /// # Errors
    /// Those of [`Choice::lwe_set`].
    pub(crate) fn ring_set(&self, default: RingSet, sets: Vec<RingSet>) -> Result<RingSet, ProtocolError> {
        let Some(name) = &self.ring else { return Ok(default) };
        let names: Vec<_> = sets.iter().map(|set| set.name()).collect();
        let known = || unknown("ring set of the protocol", name, &names);
        let set = sets.iter().copied().find(|set| set.name() == name).ok_or_else(known)?;
        self.security.admitted(name, set, set.security())
    }

    /// Refuses bins, for protocols that have none.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`].
    pub(crate) fn check_undivided(&self) -> Result<(), ProtocolError> {
        match self.bins {
            1 => Ok(()),
            _ => Err(ProtocolError::BadRequest(format!(
                "{} has no bins: exppack-simple, dpf-xor and dpf-sum have",
                self.protocol
            ))),
        }
    }

    /// Refuses a number of bins outside 1 to [`MAX_BINS`].
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`].
    pub(crate) fn check_bins(&self) -> Result<(), ProtocolError> {
        match self.bins {
            1..=MAX_BINS => Ok(()),
            bins => Err(ProtocolError::BadRequest(format!("{bins} bins: a table has 1 to {MAX_BINS}"))),
        }
    }

    /// Refuses a key delivery that is not among `deliveries`, those of the protocol.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`].
    pub(crate) fn check_delivery(&self, deliveries: &[KeyDelivery]) -> Result<(), ProtocolError> {
        if deliveries.contains(&self.keys) {
            return Ok(());
        }
        Err(ProtocolError::BadRequest(format!(
            "no query of {} brings keys: those of exppack-simple, exppack-double and hybrid can",
            self.protocol
        )))
    }

    /// Refuses a pseudorandom function that the security level excludes.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`].
    pub(crate) fn check_prf(&self) -> Result<(), ProtocolError> {
        if self.security == SecurityLevel::Conservative && self.prf.needs_consent() {
            return Err(ProtocolError::BadRequest(format!(
                "{}: {} {} security does not take it",
                self.prf,
                self.prf.trust(),
                self.security.name()
            )));
        }
        Ok(())
    }
}

/// Returns the ring sets that pack LWE ciphertexts: those whose plaintexts have room for a rounded
/// LWE ciphertext.
pub(crate) fn packing_sets() -> impl Iterator<Item = RingSet> {
    RingSet::ALL.into_iter().filter(|set| set.plaintext_bits() < 20)
}

/// Returns the error for an unknown name.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> ProtocolError {
    ProtocolError::BadRequest(format!("no {what} is called {name:?}; there are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_back_from_their_names_and_others_are_refused() {
        for level in [SecurityLevel::Standard, SecurityLevel::Conservative] {
            assert_eq!(level.name().parse(), Ok(level));
        }
        for preference in Preference::ALL {
            assert_eq!(preference.name().parse(), Ok(preference));
        }
        for delivery in KeyDelivery::ALL {
            assert_eq!(delivery.name().parse(), Ok(delivery));
        }
        assert_eq!("none".parse::<SecurityLevel>(), Err("there are standard and conservative".into()));
        let refused = "none".parse::<Preference>().unwrap_err();
        assert_eq!(refused, "there are time, communication, balance");
        assert_eq!("none".parse::<KeyDelivery>(), Err("there are registered and per-query".into()));
        for form in HintForm::ALL {
            assert_eq!(form.name().parse(), Ok(form));
        }
        for form in QueryForm::ALL {
            assert_eq!(form.name().parse(), Ok(form));
        }
        assert_eq!("none".parse::<QueryForm>(), Err("there are short and whole".into()));
        assert_eq!("none".parse::<HintForm>(), Err("there are rounded and whole".into()));
    }
}

//! The protocols by name; the only list of them.

use serde::de::DeserializeOwned;
pub use serde::de::Error;
pub use serde::{Deserialize, Deserializer, Serialize, Serializer};
use spirea_backend::{ProtocolBackend, Residence};
use spirea_dpf::Party;
pub use spirea_math::random::{SecretRng, Seed};

pub use crate::choice::Choice;
use crate::choice::Preference;
use crate::opening::Opening;
use crate::{ProtocolError, double, double_pack, dpf, exppack_double, exppack_simple, hybrid, onion, simple};

registry! {
    /// A protocol with its parameters, as stored in manifests. Opaque inside the wire's envelope.
    pub struct ProtocolParams(AnyParams) over ProtocolBackend {
        /// [`simple`].
        Simple = "simple": simple::Params,
        /// [`double`].
        Double = "double": double::Params,
        /// [`exppack_simple`].
        ExppackSimple = "exppack-simple": exppack_simple::Params,
        /// [`exppack_double`].
        ExppackDouble = "exppack-double": exppack_double::Params,
        /// [`double_pack`].
        DoublePack = "double-pack": double_pack::Params,
        /// [`hybrid`].
        Hybrid = "hybrid": hybrid::Params,
        /// [`onion`].
        Onion = "onion": onion::Params,
        /// [`dpf`] with bits.
        DpfXor = "dpf-xor": dpf::XorParams,
        /// [`dpf`] with words.
        DpfSum = "dpf-sum": dpf::SumParams,
    }
}

/// Names of the protocols.
pub const NAMES: [&str; ProtocolParams::NAMES.len()] = ProtocolParams::NAMES;

impl ProtocolParams {
    /// Chooses parameters for other records under the same protocol and parameter sets, with
    /// another seed.
    ///
    /// # Errors
    /// See [`ProtocolParams::choose`].
    pub fn reshaped(&self, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        Self::choose(&self.repeated(), seed, records, record_bytes)
    }

    /// Returns the choice that makes such parameters again, for any records.
    pub fn repeated(&self) -> Choice {
        Choice { prefer: self.preference(), ..self.choice() }
    }

    /// Infers the preference under which the shape was chosen: returns the first preference that
    /// chooses this shape for these records.
    fn preference(&self) -> Preference {
        let (records, record_bytes) = (self.records(), self.record_bytes());
        let chosen = |&prefer: &Preference| {
            let choice = Choice { prefer, ..self.choice() };
            let params = Self::choose(&choice, self.seed().unwrap_or_default(), records, record_bytes);
            params.is_ok_and(|params| params == *self)
        };
        let likely = [Preference::Balance, Preference::Communication, Preference::Time];
        likely.into_iter().find(chosen).unwrap_or_default()
    }

    /// Chooses parameters for the records of a delta beside this base.
    ///
    /// # Errors
    /// See [`ProtocolParams::choose`].
    pub fn of_delta(&self, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        Self::choose(&self.delta_choice(), seed, records, record_bytes)
    }

    /// Returns true if clients keep data for later look-ups: a hint that outlasts its version, or
    /// registered evaluation keys.
    pub fn clients_keep(&self) -> bool {
        self.hint_lasts() || self.key_shape.is_some()
    }

    /// Serialises the parameters as JSON. Equal parameters give equal bytes.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("parameters are plain data")
    }

    /// Returns the opening of each of the protocol's servers, in order.
    pub fn openings(&self, residence: Residence) -> Vec<Opening> {
        Opening::of_parties(self.parties, residence)
    }

    /// Returns the party of a two-server protocol that `opening` names; `None` for a protocol with
    /// one server.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the protocol has two servers and `opening` names no party.
    pub fn party(&self, opening: Opening) -> Result<Option<Party>, ProtocolError> {
        (self.parties > 1).then(|| opening.one_of_two()).transpose()
    }
}

/// Parses parameters of a list from JSON.
///
/// # Errors
/// [`ProtocolError::Malformed`] with the cause.
pub fn parse<P: DeserializeOwned>(json: &[u8]) -> Result<P, ProtocolError> {
    serde_json::from_slice(json).map_err(|error| ProtocolError::malformed("parameters", error.to_string()))
}

#[cfg(test)]
mod tests {
    use spirea_dpf::PrfKind;
    use spirea_lattice::Security;

    use super::*;
    use crate::choice::{HintForm, KeyDelivery, QueryForm, SecurityLevel};

    /// Returns the key deliveries that a protocol supports.
    fn deliveries(name: &str) -> &'static [KeyDelivery] {
        if ["exppack-simple", "exppack-double", "hybrid"].contains(&name) {
            &KeyDelivery::ALL
        } else {
            &[KeyDelivery::Registered]
        }
    }

    #[test]
    fn what_is_preferred_outlasts_new_records() {
        let mut distinct = 0;
        for name in NAMES {
            for prefer in Preference::ALL {
                let choice = Choice { protocol: name.into(), prefer, ..Choice::default() };
                let [params, more] = [1 << 20, 5 << 20].map(|records| {
                    ProtocolParams::choose(&choice, Seed::new([1; 32]), records, 256).unwrap()
                });
                let balanced = Choice { prefer: Preference::Balance, ..choice };
                let balanced = ProtocolParams::choose(&balanced, Seed::new([1; 32]), 1 << 20, 256).unwrap();
                if balanced != params {
                    distinct += 1;
                    assert_eq!(
                        params.reshaped(Seed::new([1; 32]), 5 << 20, 256).unwrap(),
                        more,
                        "{name} {prefer:?}"
                    );
                }
            }
        }
        assert!(distinct > 3, "{distinct} shapes of preferences are others than the balanced ones");
    }

    #[test]
    fn parameters_tell_what_was_chosen() {
        for name in NAMES {
            let wanted = [
                Choice { protocol: name.into(), ..Choice::default() },
                Choice {
                    protocol: name.into(),
                    set: Some("paper".into()),
                    ring: (name == "onion").then(|| "onion-30".into()),
                    security: SecurityLevel::Standard,
                    prefer: Preference::Balance,
                    prf: PrfKind::ChaCha20,
                    words: dpf::Words::U64,
                    bins: if name.starts_with("dpf") { 3 } else { 1 },
                    keys: deliveries(name)[deliveries(name).len() - 1],
                    queries: QueryForm::Whole,
                    hint: HintForm::Whole,
                },
            ];
            for choice in wanted {
                let params = ProtocolParams::choose(&choice, Seed::new([1; 32]), 300, 64).unwrap();
                assert_eq!(
                    ProtocolParams::choose(&params.choice(), Seed::new([1; 32]), 300, 64).unwrap(),
                    params
                );
                let grown = params.reshaped(Seed::new([1; 32]), 300, 64).unwrap();
                assert_eq!(grown, params);
                let other = params.reshaped(Seed::new([2; 32]), 8, 1000).unwrap();
                let functions = |params: &ProtocolParams| (params.name, params.set.clone(), params.prf());
                assert_eq!(functions(&other), functions(&params));
                assert_eq!((other.records(), other.record_bytes()), (8, 1000));
                assert_eq!(other.seed(), params.seed().map(|_| [2; 32]).map(Seed::new));
                assert_eq!(
                    other.reseeded(Seed::new([1; 32])).reshaped(Seed::new([1; 32]), 300, 64).unwrap(),
                    params
                );
                assert_eq!(params.reseeded(Seed::new([2; 32])).seed(), other.seed());
                let halves = choice.keys == KeyDelivery::PerQuery;
                assert_eq!(params.hint_lasts() || halves, params.sizes.hint_bytes > 0, "{name}");
            }
        }
    }

    /// Tables with whole hints keep whole hints when they are reshaped, and so do their deltas.
    #[test]
    fn hints_are_rounded_where_clients_keep_them_unless_they_are_to_be_whole() {
        for name in NAMES {
            let choice = Choice { protocol: name.into(), ..Choice::default() };
            let [rounded, whole] = HintForm::ALL.map(|hint| {
                ProtocolParams::choose(&Choice { hint, ..choice.clone() }, Seed::new([1; 32]), 1 << 16, 64)
                    .unwrap()
            });
            let keeps = whole.hint_lasts();
            assert_eq!((rounded.hint_bits, whole.hint_bits), (if keeps { 17 } else { 32 }, 32), "{name}");
            assert_eq!(keeps, rounded != whole, "{name}");
            for (params, bits) in [(&rounded, 17), (&whole, 32)] {
                let json = String::from_utf8(params.to_json()).unwrap();
                assert_eq!(json.contains("\"hint_bits\":17"), keeps && bits == 17, "{json}");
                if keeps {
                    let delta = params.of_delta(Seed::new([2; 32]), 10, 100).unwrap();
                    let other = params.reshaped(Seed::new([2; 32]), 1 << 10, 64).unwrap();
                    assert_eq!([delta.hint_bits, other.hint_bits], [bits; 2], "{name}");
                }
            }
            // Protocols without a lasting hint refuse the member `hint_bits`. All protocols refuse
            // too few bits.
            let mut json: serde_json::Value = serde_json::from_slice(&whole.to_json()).unwrap();
            for (bits, admitted) in [(15, false), (16, false), (17, keeps), (31, keeps), (33, false)] {
                json["hint_bits"] = bits.into();
                let read = ProtocolParams::from_json(json.to_string().as_bytes());
                assert_eq!(read.is_ok(), admitted, "{name}, {bits} bits: {read:?}");
            }
        }
    }

    /// Tables with whole queries keep whole queries when they are reshaped, and so do their deltas.
    #[test]
    fn queries_that_bring_their_keys_are_short_unless_they_are_to_be_whole() {
        for name in ["exppack-simple", "exppack-double", "hybrid"] {
            let choice = Choice { protocol: name.into(), keys: KeyDelivery::PerQuery, ..Choice::default() };
            let [short, whole] = QueryForm::ALL.map(|queries| {
                ProtocolParams::choose(&Choice { queries, ..choice.clone() }, Seed::new([1; 32]), 1 << 16, 64)
                    .unwrap()
            });
            let [of_short, of_whole] = [&short, &whole].map(|params| params.sizes.query_bytes);
            assert!(3 * of_short < 2 * of_whole, "{name}: {of_short} and {of_whole} bytes");
            for (params, form) in [(&short, QueryForm::Short), (&whole, QueryForm::Whole)] {
                let json = String::from_utf8(params.to_json()).unwrap();
                assert_eq!(json.contains("\"queries\":\"short\""), form == QueryForm::Short, "{json}");
                let delta = params.of_delta(Seed::new([2; 32]), 10, 100).unwrap();
                let other = params.reshaped(Seed::new([2; 32]), 1 << 10, 64).unwrap();
                assert_eq!([delta.choice().queries, other.choice().queries], [form; 2], "{name}");
            }
            // If keys are registered, the member `queries` is refused.
            let mut json: serde_json::Value = serde_json::from_slice(&short.to_json()).unwrap();
            json["keys"] = "registered".into();
            let refusal = ProtocolParams::from_json(json.to_string().as_bytes()).unwrap_err();
            assert!(refusal.to_string().contains("short where they bring their keys"), "{refusal}");
            json["queries"] = "whole".into();
            ProtocolParams::from_json(json.to_string().as_bytes()).unwrap();
            json["queries"] = "other".into();
            ProtocolParams::from_json(json.to_string().as_bytes()).unwrap_err();
        }
    }

    /// Clients that draw new keys have no reason to keep a hint.
    #[test]
    fn no_protocol_has_both_keys_and_a_hint() {
        for name in NAMES {
            for &keys in deliveries(name) {
                let choice = Choice { protocol: name.into(), keys, ..Choice::default() };
                let params = ProtocolParams::choose(&choice, Seed::new([1; 32]), 300, 64).unwrap();
                let sizes = params.sizes;
                assert!(sizes.keys_bytes == 0 || sizes.hint_bytes == 0, "{name}");
                let without_state = name.starts_with("dpf") || keys == KeyDelivery::PerQuery;
                assert_eq!(params.clients_keep(), !without_state, "{name}");
            }
        }
    }

    #[test]
    fn keys_come_with_queries_where_they_can_and_nowhere_else() {
        for name in NAMES {
            let choice = Choice { protocol: name.into(), keys: KeyDelivery::PerQuery, ..Choice::default() };
            if deliveries(name).len() == 1 {
                for refusal in [
                    ProtocolParams::check(&choice).unwrap_err(),
                    ProtocolParams::choose(&choice, Seed::new([1; 32]), 300, 64).unwrap_err(),
                ] {
                    assert!(refusal.to_string().contains("brings keys"), "{refusal}");
                }
                let other = ProtocolParams::choose(
                    &Choice { keys: KeyDelivery::Registered, ..choice },
                    Seed::new([1; 32]),
                    300,
                    64,
                );
                let mut json: serde_json::Value = serde_json::from_slice(&other.unwrap().to_json()).unwrap();
                json["keys"] = "per-query".into();
                assert!(ProtocolParams::from_json(json.to_string().as_bytes()).is_err(), "{name}");
                continue;
            }
            ProtocolParams::check(&choice).unwrap();
            let params = ProtocolParams::choose(&choice, Seed::new([1; 32]), 300, 64).unwrap();
            assert!(params.sizes.keys_bytes == 0 && params.key_shape.is_none());
            let json = String::from_utf8(params.to_json()).unwrap();
            assert!(json.contains("\"keys\":\"per-query\""), "{json}");
            // Queries to the delta of these parameters also carry their keys.
            let delta = params.of_delta(Seed::new([2; 32]), 10, 100).unwrap();
            assert!(delta.sizes.keys_bytes == 0 && delta.sizes.hint_bytes > 0);
            let paper = Choice { ring: Some("paper".into()), ..choice };
            assert!(ProtocolParams::check(&paper).unwrap_err().to_string().contains("single entries"));
            let paper = json.replace("\"brief\"", "\"paper\"");
            assert_ne!(paper, json);
            assert!(ProtocolParams::from_json(paper.as_bytes()).is_err());
            // Parameters without the member mean registered keys.
            let registered = json.replace("\"keys\":\"per-query\",\"queries\":\"short\",", "");
            assert!(ProtocolParams::from_json(registered.as_bytes()).unwrap().sizes.keys_bytes > 0);
        }
        let json = |groups: &str| {
            let choice =
                Choice { protocol: "hybrid".into(), keys: KeyDelivery::PerQuery, ..Choice::default() };
            let params = ProtocolParams::choose(&choice, Seed::new([1; 32]), 300, 64).unwrap().to_json();
            String::from_utf8(params).unwrap().replace("\"groups\":1,", groups)
        };
        ProtocolParams::from_json(json("\"groups\":1,").as_bytes()).unwrap();
        let refusal = ProtocolParams::from_json(json("\"groups\":2,").as_bytes()).unwrap_err();
        assert!(refusal.to_string().contains("nothing is selected"), "{refusal}");
    }

    #[test]
    fn whatever_is_chosen_conservatively_reaches_ml_kem_512_under_every_model() {
        for name in NAMES {
            let choice =
                Choice { protocol: name.into(), security: SecurityLevel::Conservative, ..Choice::default() };
            let params = ProtocolParams::choose(&choice, Seed::new([1; 32]), 300, 2).unwrap();
            let delta = params.of_delta(Seed::new([2; 32]), 10, 100).unwrap();
            for params in [params, delta] {
                let sets: Vec<_> = params.sets.securities().collect();
                assert!(
                    sets.iter().all(|(_, security)| security.reaches(Security::ML_KEM_512)),
                    "{name}: {sets:?}"
                );
                assert_eq!(sets.is_empty(), name.starts_with("dpf"), "{name}");
            }
        }
    }

    #[test]
    fn weaker_sets_conflict_with_conservative_security() {
        let conservative = Choice { security: SecurityLevel::Conservative, ..Choice::default() };
        let weak = [
            Choice { set: Some("module-1280".into()), ..conservative.clone() },
            Choice { protocol: "hybrid".into(), set: Some("paper".into()), ..conservative.clone() },
            Choice { protocol: "onion".into(), ring: Some("onion-32".into()), ..conservative.clone() },
            Choice { protocol: "dpf-xor".into(), prf: PrfKind::SipHash24, ..conservative.clone() },
        ];
        for choice in weak {
            let refusal = ProtocolParams::check(&choice).unwrap_err().to_string();
            assert!(refusal.contains("conservative security"), "{refusal}");
            ProtocolParams::check(&Choice { security: SecurityLevel::Standard, ..choice }).unwrap();
        }
        let strong = Choice {
            protocol: "hybrid".into(),
            set: Some("module-1536".into()),
            ring: Some("small".into()),
            ..conservative
        };
        ProtocolParams::check(&strong).unwrap();
    }
}

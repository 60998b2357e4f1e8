//! The form of a table's keys: normalisation of a key before storing it and before looking it up.

use serde::{Deserialize, Serialize};

use crate::ProtocolError;

/// Public form of a table's keys. Clients normalise a key to it before looking the key up.
///
/// `spirea-normalise` implements the steps; docs/wire/tables.md specifies them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyForm {
    /// Steps, applied in order and repeated until nothing changes: any of `trim`, `nfc` and
    /// `lower`, or a single other step.
    pub steps: Vec<KeyStep>,
    /// Default region of phone numbers without a country code, two letters of ISO 3166, for step
    /// `e164`. Without a region, numbers must begin with `+`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Version of Unicode by which the table's keys were normalised, such as `17.0.0`; none if the
    /// steps handle ASCII only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unicode: Option<String>,
    /// Version of the phone number rules by which the table's keys were normalised, for step
    /// `e164`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phone_rules: Option<String>,
}

/// A step of normalising keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyStep {
    /// Removes white space at both ends.
    Trim,
    /// Composes text to Unicode's Normalization Form C.
    Nfc,
    /// Converts letters to lower case, independently of language.
    Lower,
    /// Converts a domain name to the ASCII form of UTS #46, without a trailing dot.
    Domain,
    /// Converts a phone number to its E.164 form, preceded by `+`.
    E164,
    /// Converts hexadecimal digits to lower case, and removes a leading `0x`.
    Hex,
}

impl KeyStep {
    /// All steps, with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("trim", Self::Trim),
        ("nfc", Self::Nfc),
        ("lower", Self::Lower),
        ("domain", Self::Domain),
        ("e164", Self::E164),
        ("hex", Self::Hex),
    ];

    /// Returns true if the step can be combined with others.
    fn is_of_text(self) -> bool {
        matches!(self, Self::Trim | Self::Nfc | Self::Lower)
    }

    /// Returns true if the step needs Unicode's character data.
    pub fn uses_unicode(self) -> bool {
        matches!(self, Self::Trim | Self::Nfc | Self::Lower | Self::Domain)
    }
}

impl KeyForm {
    /// Checks a form read from untrusted bytes.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names the member out of range.
    pub fn validate(&self) -> Result<(), ProtocolError> {
        let wrong = |detail: &str| Err(ProtocolError::malformed("key_form", detail));
        let is_twice = |(i, step)| self.steps[..i].contains(step);
        if self.steps.is_empty() || self.steps.iter().enumerate().any(is_twice) {
            return wrong("steps must name at least one step, and each once");
        }
        if self.steps.len() > 1 && !self.steps.iter().all(|step| step.is_of_text()) {
            return wrong("steps must be of trim, nfc and lower where there are several");
        }
        let is_phone = self.steps.contains(&KeyStep::E164);
        if self.region.is_some() && !is_phone {
            return wrong("region belongs to e164");
        }
        let is_region = |text: &String| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase());
        if !self.region.iter().all(is_region) {
            return wrong("region must be two capital letters");
        }
        if self.unicode.is_some() != self.steps.iter().any(|step| step.uses_unicode()) {
            return wrong("unicode must be there if and only if a step uses it");
        }
        if self.phone_rules.is_some() != is_phone {
            return wrong("phone_rules must be there if and only if the step is e164");
        }
        let is_version = |text: &String| {
            text.len() <= 16
                && text.split('.').count() == 3
                && text.split('.').all(|part| part.parse::<u16>().is_ok())
        };
        if !self.unicode.iter().chain(&self.phone_rules).all(is_version) {
            return wrong("unicode and phone_rules must be versions such as 17.0.0");
        }
        Ok(())
    }

    /// Returns true if any of its rules has an older version than the same rule of `other`.
    pub fn is_older_than(&self, other: &Self) -> bool {
        let older = |own: &Option<String>, other: &Option<String>| {
            own.as_deref().zip(other.as_deref()).is_some_and(|(own, other)| numbers(own) < numbers(other))
        };
        older(&self.unicode, &other.unicode) || older(&self.phone_rules, &other.phone_rules)
    }

    /// Names the versions of its rules, such as `Unicode 17.0.0`.
    pub fn rules(&self) -> String {
        let unicode = self.unicode.iter().map(|version| format!("Unicode {version}"));
        let phone = self.phone_rules.iter().map(|version| format!("phone numbers {version}"));
        unicode.chain(phone).collect::<Vec<_>>().join(", ")
    }
}

/// Splits a version into its parts, the most significant first.
fn numbers(version: &str) -> Vec<u16> {
    version.split('.').map(|part| part.parse().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(steps: &[KeyStep]) -> KeyForm {
        let uses_unicode = steps.iter().any(|step| step.uses_unicode());
        KeyForm {
            steps: steps.to_vec(),
            region: None,
            unicode: uses_unicode.then(|| "17.0.0".into()),
            phone_rules: steps.contains(&KeyStep::E164).then(|| "9.0.42".into()),
        }
    }

    #[test]
    fn forms_that_belong_together_are_valid_and_others_are_named() {
        use KeyStep::{Domain, E164, Hex, Lower, Nfc, Trim};
        let swiss = KeyForm { region: Some("CH".into()), ..form(&[E164]) };
        for valid in [form(&[Trim, Lower, Nfc]), form(&[Domain]), form(&[E164]), form(&[Hex]), swiss.clone()]
        {
            valid.validate().unwrap();
            let json = serde_json::to_string(&valid).unwrap();
            assert_eq!(serde_json::from_str::<KeyForm>(&json).unwrap(), valid);
        }
        let version = |text: &str| Some(text.to_owned());
        let refused = [
            (form(&[]), "steps"),
            (form(&[Nfc, Nfc]), "steps"),
            (form(&[Trim, Domain]), "steps"),
            (KeyForm { region: version("CH"), ..form(&[Nfc]) }, "region"),
            (KeyForm { region: version("ch"), ..swiss.clone() }, "region"),
            (KeyForm { region: version("CHE"), ..swiss.clone() }, "region"),
            (KeyForm { unicode: None, ..form(&[Nfc]) }, "unicode"),
            (KeyForm { unicode: version("17.0.0"), ..form(&[Hex]) }, "unicode"),
            (KeyForm { phone_rules: None, ..swiss }, "phone_rules"),
            (KeyForm { unicode: version("17.0"), ..form(&[Nfc]) }, "versions"),
            (KeyForm { unicode: version("17.0.0.0"), ..form(&[Nfc]) }, "versions"),
            (KeyForm { unicode: version("17.0.x"), ..form(&[Nfc]) }, "versions"),
            (KeyForm { unicode: version("00000017.000.0000"), ..form(&[Nfc]) }, "versions"),
        ];
        for (form, named) in refused {
            let wrong = form.validate().unwrap_err().to_string();
            assert!(wrong.contains(named), "{wrong}");
        }
    }

    #[test]
    fn names_of_steps_are_those_of_the_manifest() {
        for (name, step) in KeyStep::ALL {
            assert_eq!(serde_json::to_string(&step).unwrap(), format!("{name:?}"));
        }
    }

    #[test]
    fn rules_are_compared_as_numbers() {
        use KeyStep::{E164, Nfc};
        let unicode = |version: &str| KeyForm { unicode: Some(version.into()), ..form(&[Nfc]) };
        assert!(unicode("9.0.0").is_older_than(&unicode("17.0.0")));
        assert!(!unicode("17.0.0").is_older_than(&unicode("9.0.0")));
        assert!(!unicode("17.0.0").is_older_than(&unicode("17.0.0")));
        let phone = |version: &str| KeyForm { phone_rules: Some(version.into()), ..form(&[E164]) };
        assert!(phone("9.0.9").is_older_than(&phone("9.0.42")));
        assert!(!phone("9.0.9").is_older_than(&unicode("17.0.0")));
        assert_eq!(phone("9.0.9").rules(), "phone numbers 9.0.9");
    }
}

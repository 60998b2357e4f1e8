//! Forms of keys, by the rules that this client was built with, or by those that it is given.

use std::sync::OnceLock;

use spirea_protocols::ProtocolError;
use spirea_protocols::table::KeyForm;
use zeroize::Zeroizing;

use crate::ClientError;

/// Rules for the forms of keys: the functions of `spirea-normalise`, or calls of them elsewhere.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Checks that the rules can bring keys into a form; the fault if they cannot.
    pub check: fn(&KeyForm) -> Result<(), String>,
    /// Brings a key into a form.
    pub bring: fn(&KeyForm, &[u8]) -> KeyInForm,
}

/// A key in the form of a table's keys.
pub struct KeyInForm {
    /// The key to ask for: in its form, or as it is if it cannot be brought into it.
    pub key: Zeroizing<Vec<u8>>,
    /// The rules know for certain that the form is this one.
    pub is_known: bool,
}

static PROVIDED: OnceLock<Rules> = OnceLock::new();

/// The rules of `spirea-normalise`, which are a part of this client.
#[cfg(feature = "forms")]
const OWN: Option<Rules> = {
    use spirea_normalise::{asked, check, is_known};
    let bring = |form: &KeyForm, key: &[u8]| KeyInForm {
        key: Zeroizing::new(asked(Some(form), key).into_owned()),
        is_known: is_known(Some(form), key),
    };
    Some(Rules { check, bring })
};
/// None: the embedder may have rules.
#[cfg(not(feature = "forms"))]
const OWN: Option<Rules> = None;

/// Gives all clients of this process rules for the forms of keys, once and for all. A client that was built with the feature
/// `forms` needs none.
pub fn provide_rules(rules: Rules) {
    // The first ones stay: keys of one look-up are not brought into a form by two.
    _ = PROVIDED.set(rules);
}

fn rules() -> Option<Rules> {
    PROVIDED.get().copied().or(OWN)
}

/// Checks that this client can bring keys into a form.
///
/// # Errors
/// [`ClientError::NoRules`] if it has no rules; [`ClientError::Protocol`] if they do not know the form.
pub(crate) fn check(form: &KeyForm) -> Result<(), ClientError> {
    let rules = rules().ok_or(ClientError::NoRules)?;
    (rules.check)(form).map_err(|fault| ProtocolError::BadRequest(fault).into())
}

/// Brings a key into the form of a table's keys, if they have one.
pub(crate) fn in_form(form: Option<&KeyForm>, key: &[u8]) -> KeyInForm {
    match form.zip(rules()) {
        Some((form, rules)) => (rules.bring)(form, key),
        // No description with a form passes `check` without rules.
        None => KeyInForm { key: Zeroizing::new(key.to_vec()), is_known: true },
    }
}

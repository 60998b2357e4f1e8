//! Forms of keys, by the rules built into this client or provided by the embedder.

use std::sync::OnceLock;

use spirea_protocols::ProtocolError;
use spirea_protocols::table::KeyForm;
use zeroize::Zeroizing;

use crate::ClientError;

/// Rules for the forms of keys: the functions of `spirea-normalise`, or functions that call them in
/// another module.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Checks that the rules can convert keys to a form; otherwise returns the fault.
    pub check: fn(&KeyForm) -> Result<(), String>,
    /// Converts a key to a form.
    pub bring: fn(&KeyForm, &[u8]) -> KeyInForm,
}

/// A key in the form of a table's keys.
pub struct KeyInForm {
    /// Key to look up: in its form, or unchanged if it cannot be converted.
    pub key: Zeroizing<Vec<u8>>,
    /// True if the rules know for certain that this is the form.
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
/// No built-in rules: the embedder may provide them.
#[cfg(not(feature = "forms"))]
const OWN: Option<Rules> = None;

/// Sets the rules for forms of keys for all clients of this process. Later calls have no effect.
/// Clients built with the feature `forms` do not need this call.
pub fn provide_rules(rules: Rules) {
    // The first rules stay, so that the keys of one look-up are never converted by two sets of
    // rules.
    _ = PROVIDED.set(rules);
}

fn rules() -> Option<Rules> {
    PROVIDED.get().copied().or(OWN)
}

/// Checks that this client can convert keys to a form.
///
/// # Errors
/// [`ClientError::NoRules`] if it has no rules; [`ClientError::Protocol`] if the rules do not know
/// the form.
pub(crate) fn check(form: &KeyForm) -> Result<(), ClientError> {
    let rules = rules().ok_or(ClientError::NoRules)?;
    (rules.check)(form).map_err(|fault| ProtocolError::BadRequest(fault).into())
}

/// Converts a key to the form of a table's keys, if they have one.
pub(crate) fn in_form(form: Option<&KeyForm>, key: &[u8]) -> KeyInForm {
    match form.zip(rules()) {
        Some((form, rules)) => (rules.bring)(form, key),
        // Without rules, `check` rejects every description with a form.
        None => KeyInForm { key: Zeroizing::new(key.to_vec()), is_known: true },
    }
}

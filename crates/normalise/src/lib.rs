//! Forms of keys: the normalisation that a table requires of its keys, implemented once for
//! builders and clients.
//!
//! Normalisation is idempotent. A key that cannot be brought into a table's form is not in the
//! table. Clients ask for it unchanged and report it as absent: a missing request would tell a
//! server that the key has no such form.
//!
//! Code that normalises secret keys branches on them, and its libraries leave copies in memory. It
//! runs before each request, for microseconds, and no message depends on it.

mod domains;
mod steps;

use std::borrow::Cow;

use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;
use spirea_protocols::table::{KeyForm, KeyStep};
use zeroize::Zeroizing;

pub use domains::{Asked, DomainKeys};

/// Unicode version of this software.
pub const UNICODE: &str = "18.0.0";
/// Version of libphonenumber's rules in this software.
pub const PHONE_RULES: &str = "9.0.42";

/// Returns the form that these steps make, with the versions of this software.
///
/// # Errors
/// The fault of the steps or of the region, and a remedy.
pub fn form(steps: Vec<KeyStep>, region: Option<String>) -> Result<KeyForm, String> {
    let uses_unicode = steps.iter().any(|step| step.uses_unicode());
    let phone_rules = steps.contains(&KeyStep::E164).then(|| PHONE_RULES.to_owned());
    let form = KeyForm { steps, region, unicode: uses_unicode.then(|| UNICODE.to_owned()), phone_rules };
    form.validate().map_err(|error| error.to_string())?;
    check(&form)?;
    Ok(form)
}

/// Checks that this software can bring keys into a form.
///
/// # Errors
/// The fault: an unknown region.
pub fn check(form: &KeyForm) -> Result<(), String> {
    form.region.as_deref().map_or(Ok(()), |region| steps::region(region).map(drop))
}

/// Brings a key into the form of a table.
///
/// # Errors
/// The fault of the key, as words that follow "it".
pub fn normalised(form: &KeyForm, key: &[u8]) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    let Ok(text) = str::from_utf8(key) else { return Err("is not text in UTF-8") };
    let mut text = Zeroizing::new(text.to_owned());
    loop {
        let before = text.clone();
        for step in &form.steps {
            text = Zeroizing::new(steps::step(*step, form.region.as_deref(), &text)?);
        }
        // A step may undo another. For example, converting to lower case decomposes a letter if
        // only its capital has a composed form.
        if form.steps.len() == 1 || text == before {
            break;
        }
    }
    Ok(Zeroizing::new(text.as_bytes().to_vec()))
}

/// Returns the key to ask for instead of `key`: in the form, or unchanged if it cannot be brought
/// into the form.
pub fn asked<'k>(form: Option<&KeyForm>, key: &'k [u8]) -> Cow<'k, [u8]> {
    match form.map(|form| normalised(form, key)) {
        Some(Ok(key)) => Cow::Owned(key.to_vec()),
        _ => Cow::Borrowed(key),
    }
}

/// Returns true if this software knows all characters of a key, or if its Unicode version is at
/// least the table's. The form of unknown characters is not certain, so neither is the key's
/// absence.
pub fn is_known(form: Option<&KeyForm>, key: &[u8]) -> bool {
    let Some(unicode) = form.and_then(|form| form.unicode.as_deref()) else { return true };
    numbers(unicode) <= numbers(UNICODE) || str::from_utf8(key).is_ok_and(is_assigned)
}

/// True if all characters are assigned. Unicode never changes the forms of assigned characters.
fn is_assigned(text: &str) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new();
    text.chars().all(|character| category.get(character) != GeneralCategory::Unassigned)
}

/// Parses the numbers of a version.
fn numbers(version: &str) -> Vec<u16> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests;

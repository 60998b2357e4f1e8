//! Forms of keys: what a table demands of its keys, done in one place for builders and clients.
//!
//! A key in its form stays as it is when it is brought into it again. A key that cannot be brought into the form of a
//! table is not in the table: clients ask for it as it is, so that a server does not learn from a missing request
//! what a key is not, and are told that there is no such key.
//!
//! Code that brings secret keys into a form branches on them, and its libraries leave copies in memory. It runs before each
//! request, for microseconds, and no message depends on it.

mod domains;
mod steps;

use std::borrow::Cow;

use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;
use spirea_protocols::table::{KeyForm, KeyStep};
use zeroize::Zeroizing;

pub use domains::{Asked, DomainKeys};

/// The version of Unicode that this software knows.
pub const UNICODE: &str = "18.0.0";
/// The version of libphonenumber's rules that this software knows.
pub const PHONE_RULES: &str = "9.0.42";

/// Returns the form that these steps make, of the versions that this software knows.
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
/// The fault, if it cannot: an unknown region.
pub fn check(form: &KeyForm) -> Result<(), String> {
    form.region.as_deref().map_or(Ok(()), |region| steps::region(region).map(drop))
}

/// Brings a key into the form of a table.
///
/// # Errors
/// The fault of a key that cannot be, as words that follow "it".
pub fn normalised(form: &KeyForm, key: &[u8]) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    let Ok(text) = str::from_utf8(key) else { return Err("is not text in UTF-8") };
    let mut text = Zeroizing::new(text.to_owned());
    loop {
        let before = text.clone();
        for step in &form.steps {
            text = Zeroizing::new(steps::step(*step, form.region.as_deref(), &text)?);
        }
        // A step may undo another: composed text is decomposed where a capital letter alone has an accent.
        if form.steps.len() == 1 || text == before {
            break;
        }
    }
    Ok(Zeroizing::new(text.as_bytes().to_vec()))
}

/// The key that is asked for in place of `key`: in its form, or as it is if it cannot be brought into it.
pub fn asked<'k>(form: Option<&KeyForm>, key: &'k [u8]) -> Cow<'k, [u8]> {
    match form.map(|form| normalised(form, key)) {
        Some(Ok(key)) => Cow::Owned(key.to_vec()),
        _ => Cow::Borrowed(key),
    }
}

/// Tests that this software knows all characters of a key, or knows as many as whoever built the table. Of others it
/// cannot tell the form, and so not that the table lacks them.
pub fn is_known(form: Option<&KeyForm>, key: &[u8]) -> bool {
    let Some(unicode) = form.and_then(|form| form.unicode.as_deref()) else { return true };
    numbers(unicode) <= numbers(UNICODE) || str::from_utf8(key).is_ok_and(is_assigned)
}

/// Tests that all characters are assigned, which fixes their forms for good.
fn is_assigned(text: &str) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new();
    text.chars().all(|character| category.get(character) != GeneralCategory::Unassigned)
}

/// The numbers of a version.
fn numbers(version: &str) -> Vec<u16> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests;

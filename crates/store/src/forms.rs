//! Checks the form of keys and the types of fields of everything that enters a table.

use std::borrow::Cow;

use spirea_normalise::normalised;
use spirea_protocols::table::{FieldType, KeyForm};

use crate::RepeatedKey;

/// Converts a key to the form of a table's keys.
///
/// # Errors
/// The fault of a key that cannot be converted, and a remedy.
pub(crate) fn in_form<'k>(form: Option<&KeyForm>, key: &'k [u8]) -> Result<Cow<'k, [u8]>, String> {
    let Some(form) = form else { return Ok(Cow::Borrowed(key)) };
    let key_in_form = normalised(form, key).map_err(|fault| {
        format!("the key {} {fault}; correct it, or leave its row out", RepeatedKey::quoted(key))
    })?;
    Ok(Cow::Owned(key_in_form.to_vec()))
}

/// Checks the types of a value's fields, which are called `names`. Without types, nothing is
/// checked.
///
/// # Errors
/// The first fault, and a remedy.
pub(crate) fn check_types<'f>(
    names: &[String],
    types: &[FieldType],
    fields: impl IntoIterator<Item = &'f [u8]>,
) -> Result<(), String> {
    for ((name, kind), field) in names.iter().zip(types).zip(fields) {
        if !kind.admits(field) {
            return Err(format!(
                "{name} is {}, and the table's {name} is of type {kind} (docs/tables.md, \"Types\"); correct it, or build the table with --types {name}=text",
                RepeatedKey::quoted(field)
            ));
        }
    }
    Ok(())
}

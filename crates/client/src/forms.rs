//! Forms of keys, by the rules that this client was built with.

#[cfg(feature = "forms")]
pub(crate) use spirea_normalise::{asked, check, is_known};

#[cfg(not(feature = "forms"))]
mod without_rules {
    use std::borrow::Cow;

    use spirea_protocols::table::KeyForm;

    /// Refuses every form.
    pub(crate) fn check(_: &KeyForm) -> Result<(), String> {
        Err("the table's keys have a form, whose rules this client was built without: use the command or the Python package".into())
    }

    /// The key as it is: no table that [`check`] lets through has a form.
    pub(crate) fn asked<'k>(_: Option<&KeyForm>, key: &'k [u8]) -> Cow<'k, [u8]> {
        Cow::Borrowed(key)
    }

    /// True: a key without a form is known.
    pub(crate) fn is_known(_: Option<&KeyForm>, _: &[u8]) -> bool {
        true
    }
}

#[cfg(not(feature = "forms"))]
pub(crate) use without_rules::{asked, check, is_known};

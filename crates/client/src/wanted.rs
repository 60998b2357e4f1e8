use spirea_protocols::delta;
use spirea_protocols::table::KeyForm;
use zeroize::Zeroizing;

use crate::forms::{KeyInForm, in_form};

/// The values to look up.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// The values of keys.
    Keys(&'a [&'a [u8]]),
    /// The values at indices.
    Indices(&'a [u64]),
}

impl Wanted<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.len(),
            Self::Indices(indices) => indices.len(),
        }
    }

    /// Returns at most `most` of the wanted values, from position `start`.
    pub(crate) fn part(&self, start: usize, most: usize) -> Self {
        let part = start..self.len().min(start + most);
        match self {
            Self::Keys(keys) => Self::Keys(&keys[part]),
            Self::Indices(indices) => Self::Indices(&indices[part]),
        }
    }

    /// Returns the wanted values one by one, for a table whose keys have this form.
    pub(crate) fn each(&self, form: Option<&KeyForm>) -> impl Iterator<Item = WantedOne> {
        (0..self.len()).map(move |i| match self {
            Self::Keys(keys) => {
                let KeyInForm { key, is_known } = in_form(form, keys[i]);
                WantedOne { key, index: None, is_known }
            }
            Self::Indices(indices) => WantedOne {
                key: Zeroizing::new(delta::index_key(indices[i]).to_vec()),
                index: Some(indices[i]),
                is_known: true,
            },
        })
    }
}

/// A single value to look up.
pub(crate) struct WantedOne {
    /// The key in its form, or the key under which a delta stores the index.
    pub key: Zeroizing<Vec<u8>>,
    pub index: Option<u64>,
    /// True if this software knows the key's form for certain.
    pub is_known: bool,
}

/// Message for a key that was not found and that may have a form unknown to this software.
pub(crate) const KEY_IS_NEWER: &str = "a key has characters that this software does not know, and the table was built by a newer one, which may write \
                                       them in another form: update this software";

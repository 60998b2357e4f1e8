//! The rules for a base that replaces another base while clients send queries.

use spirea_protocols::TableKind;
use spirea_protocols::table::KeyForm;

use crate::manifest::Manifest;
use crate::{Snapshot, StoreError};

/// Treatment of a base with less than half of the current version's values: its input may have been
/// cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shrinking {
    /// It is refused.
    #[default]
    Refuse,
    /// It is accepted.
    Allow,
}

/// Checks that a snapshot is a base.
///
/// # Errors
/// [`StoreError::BadOption`] if it is a delta.
pub fn check_base(snapshot: &Snapshot) -> Result<(), StoreError> {
    if snapshot.manifest().delta_of.is_none() {
        return Ok(());
    }
    let detail = "this snapshot is a delta: publish the base, or the changes";
    Err(StoreError::BadOption(detail.into()))
}

/// Checks that clients of the base `former` can move to the base `new`. `former_values` is the
/// number of values of the current version, including its delta.
///
/// # Errors
/// [`StoreError::BadOption`] if `new` belongs to another database, has the other kind of table, or
/// converts keys to their form by older rules. [`StoreError::Shrunk`] if `new` has less than half
/// of the values, unless that is allowed.
pub fn check_successor(
    new: &Manifest,
    former: &Manifest,
    former_values: u64,
    shrinking: Shrinking,
) -> Result<(), StoreError> {
    let refuse = |detail: String| Err(StoreError::BadOption(detail));
    if new.name != former.name {
        return refuse(format!(
            "the current version is of {0:?}, and the snapshot of {1:?}: build it with --name {0}, or give {1:?} a folder of its own",
            former.name, new.name
        ));
    }
    if new.table.kind != former.table.kind {
        let [new, former] = [new, former].map(|manifest| match manifest.table.kind {
            TableKind::Index => "by position",
            TableKind::Keyword => "by key",
        });
        return refuse(format!(
            "the snapshot's table is {new}, and the current version's {former}: clients could not follow; build it under another name (--name)"
        ));
    }
    let forms = [new, former].map(|manifest| manifest.table.key_form.as_ref());
    if let [Some(new), Some(former)] = forms
        && new.is_older_than(former)
    {
        let [new, former] = [new, former].map(KeyForm::rules);
        return refuse(format!(
            "the snapshot's keys have their form by the rules {new}, older than {former} of the current version: build it with the newer release"
        ));
    }
    let values = new.table.entries;
    match shrinking {
        Shrinking::Refuse if values < former_values.div_ceil(2) => {
            Err(StoreError::Shrunk { former: former_values, new: values })
        }
        _ => Ok(()),
    }
}

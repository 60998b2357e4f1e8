//! The schema of a table: the form of its keys, and the names and types of its fields.

use std::borrow::Cow;

use spirea_protocols::Table;
use spirea_protocols::keyword::Copies;
use spirea_protocols::table::{FieldType, KeyForm};

use super::options::BuildOptions;
use crate::StoreError;
use crate::forms::{check_types, in_form};
use crate::ingest::{Row, RowSource, Selection};

/// Members of a table that do not depend on the layout of its records.
#[derive(Clone)]
pub(super) struct Schema {
    pub fields: Vec<String>,
    pub types: Vec<FieldType>,
    pub key_form: Option<KeyForm>,
    pub key_queries: Option<u64>,
    pub copies: Copies,
}

impl Schema {
    /// Creates the schema of the table that is built from `source`.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] for a type of a field that does not exist, or for a form or copies
    /// of keys of a table without keys.
    pub(super) fn new(
        options: &BuildOptions,
        selection: &Selection,
        source: &dyn RowSource,
    ) -> Result<Self, StoreError> {
        let bad = |detail: String| Err(StoreError::BadOption(detail));
        let fields = selection.fields();
        if let Some((name, _)) = options.types.iter().find(|(name, _)| !fields.contains(name)) {
            return bad(format!(
                "--types names {name:?}, which is no field: there are {}",
                fields.join(", ")
            ));
        }
        if options.key_form.is_some() && selection.key.is_none() {
            return bad("--normalise belongs to tables with keys: name their column with --key".into());
        }
        if options.copies != Copies::One && selection.key.is_none() {
            return bad("--copies belongs to tables with keys: name their column with --key".into());
        }
        let mut types = source.types();
        if types.is_empty() && !options.types.is_empty() {
            types = vec![FieldType::Text; fields.len()];
        }
        for (name, kind) in &options.types {
            let place = fields.iter().position(|field| field == name).expect("it was found");
            types[place] = *kind;
        }
        let BuildOptions { key_queries, copies, .. } = *options;
        Ok(Self { fields, types, key_form: options.key_form.clone(), key_queries, copies })
    }

    /// Returns the schema of an existing table.
    pub(super) fn of(table: &Table) -> Self {
        Self {
            fields: table.fields.clone(),
            types: table.types.clone(),
            key_form: table.key_form.clone(),
            key_queries: table.key_queries,
            copies: table.copies,
        }
    }

    /// Converts a key to its form.
    ///
    /// # Errors
    /// The fault of a key that cannot be converted.
    pub(super) fn key<'k>(&self, key: &'k [u8]) -> Result<Cow<'k, [u8]>, String> {
        in_form(self.key_form.as_ref(), key)
    }

    /// Checks the fields of a row.
    ///
    /// # Errors
    /// The fault of a field that does not have its type.
    pub(super) fn check(&self, row: &Row) -> Result<(), String> {
        check_types(&self.fields, &self.types, row.fields())
    }
}

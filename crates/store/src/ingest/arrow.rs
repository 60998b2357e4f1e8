//! Arrow batches: tables in memory, and the intermediate form of other formats.
//!
//! A string or a binary value becomes its bytes. A list with a fixed number of numbers, such as a
//! row of a matrix, becomes the bytes of the numbers. Any other value becomes its text (`typed`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Schema};
use spirea_protocols::table::FieldType;

use super::typed::{Role, as_bytes, check, field_type};
use super::{Row, RowSource, Selection, positions};
use crate::{Location, StoreError};

/// Number of rows of a batch that are converted to text at a time.
/// [`MAX_TEXT_BYTES`](super::typed::MAX_TEXT_BYTES) limits the text of each value.
const SLICE_ROWS: usize = 64;

/// Rows of a stream of batches.
pub struct BatchRows<R> {
    reader: R,
    name: PathBuf,
    batch: Cells,
    /// Rows of the reader's last batch that follow `batch`.
    rest: Option<RecordBatch>,
    /// Position in a batch of the column of each cell.
    columns: Vec<usize>,
    types: Vec<FieldType>,
    selection: Selection,
    done: u64,
    /// Total number of rows; 0 if unknown.
    rows: u64,
}

impl<R: RecordBatchReader> BatchRows<R> {
    /// Creates the rows of `reader`, which messages call `name`. `rows` is their number, or 0 if
    /// unknown.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] if no columns are named, [`StoreError::NoSuchColumn`] with a list
    /// of the columns, [`StoreError::Malformed`] for columns whose types cannot be keys or values.
    pub fn new(reader: R, name: &Path, selection: &Selection, rows: u64) -> Result<Self, StoreError> {
        selection.check(true)?;
        let (schema, place) = (reader.schema(), Location::File(name.into()));
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let columns = positions(&place, &names, &selection.columns())?;
        let types =
            types_of(&schema, &columns, selection).map_err(|detail| StoreError::malformed(place, detail))?;
        let (name, selection) = (name.into(), selection.clone());
        Ok(Self {
            reader,
            name,
            batch: Cells::default(),
            rest: None,
            columns,
            types,
            selection,
            done: 0,
            rows,
        })
    }

    /// Returns the reader of the batches.
    pub(super) fn reader(&self) -> &R {
        &self.reader
    }

    /// Loads the next rows; `false` at the end.
    fn next_slice(&mut self) -> Result<bool, StoreError> {
        let cells = unpanicked(|| self.read_slice().map_err(cause_of));
        let cells = cells.map_err(|cause| {
            let place = Location::Row(self.name.clone(), self.done + 1);
            StoreError::malformed(place, format!("the rows from here cannot be read: {cause}"))
        })?;
        let more = cells.is_some();
        self.batch = cells.unwrap_or_default();
        Ok(more)
    }

    fn read_slice(&mut self) -> Result<Option<Cells>, ArrowError> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => {
                match self.reader.by_ref().find(|batch| !matches!(batch, Ok(batch) if batch.num_rows() == 0))
                {
                    Some(batch) => batch?,
                    None => return Ok(None),
                }
            }
        };
        let rows = batch.num_rows().min(SLICE_ROWS);
        let rest = batch.num_rows() - rows;
        self.rest = (rest > 0).then(|| batch.slice(rows, rest));
        Cells::of(&batch.slice(0, rows), &self.columns).map(Some)
    }
}

/// Returns the cause of an error, without its kind.
pub(super) fn cause_of(error: ArrowError) -> String {
    match error {
        ArrowError::IpcError(cause)
        | ArrowError::ParseError(cause)
        | ArrowError::SchemaError(cause)
        | ArrowError::ComputeError(cause)
        | ArrowError::MemoryError(cause)
        | ArrowError::InvalidArgumentError(cause) => cause,
        other => other.to_string(),
    }
}

/// Returns the result of `read`, or the cause of its failure. Catches panics, because damaged files
/// make parsers panic.
pub(super) fn unpanicked<T, E: std::fmt::Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the table is damaged".into()),
    }
}

impl<R: RecordBatchReader> RowSource for BatchRows<R> {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        loop {
            if self.batch.is_exhausted() && !self.next_slice()? {
                return Ok(false);
            }
            self.done += 1;
            let (name, done) = (&self.name, self.done);
            if self.batch.next(row, &self.selection, || Location::Row(name.clone(), done))? {
                return Ok(true);
            }
        }
    }

    fn place(&self) -> Location {
        Location::Row(self.name.clone(), self.done)
    }

    fn progress(&self) -> (u64, u64) {
        (self.done, self.rows.max(self.done))
    }

    fn types(&self) -> Vec<FieldType> {
        self.types.clone()
    }
}

/// Returns the types of the value columns; `columns` are the positions of the keys, then of the
/// values.
///
/// # Errors
/// The fault of a column whose type has no text form, and a remedy.
pub(super) fn types_of(
    schema: &Schema,
    columns: &[usize],
    selection: &Selection,
) -> Result<Vec<FieldType>, String> {
    let keys = usize::from(selection.key.is_some());
    for (cell, &column) in columns.iter().enumerate() {
        check(schema.field(column), if cell < keys { Role::Key } else { Role::Value })?;
    }
    Ok(columns[keys..].iter().map(|&column| field_type(schema.field(column))).collect())
}

/// A batch whose rows are taken one after another.
#[derive(Default)]
pub(super) struct Cells {
    /// A column of strings or bytes for each cell of a row.
    columns: Vec<ArrayRef>,
    next: usize,
}

impl Cells {
    /// Returns the columns at these positions of a batch.
    pub(super) fn of(batch: &RecordBatch, columns: &[usize]) -> Result<Self, ArrowError> {
        let schema = batch.schema_ref();
        let of = |&column: &usize| as_bytes(batch.column(column), schema.field(column));
        Ok(Self { columns: columns.iter().map(of).collect::<Result<_, _>>()?, next: 0 })
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.columns.first().is_none_or(|column| self.next == column.len())
    }

    /// Fills the next row, which is at `place`; `false` if the row is skipped.
    pub(super) fn next(
        &mut self,
        row: &mut Row,
        selection: &Selection,
        place: impl Fn() -> Location,
    ) -> Result<bool, StoreError> {
        let cells = row.reset(self.columns.len(), selection.key.is_some());
        let at = self.next;
        self.next += 1;
        for (i, (cell, column)) in cells.iter_mut().zip(&self.columns).enumerate() {
            if !column.is_null(at) {
                cell.extend_from_slice(bytes_at(column, at));
            } else if !selection.takes_null(i, &place)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn bytes_at(column: &ArrayRef, row: usize) -> &[u8] {
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).as_bytes(),
        DataType::Utf8View => column.as_string_view().value(row).as_bytes(),
        DataType::Binary => column.as_binary::<i32>().value(row),
        DataType::LargeBinary => column.as_binary::<i64>().value(row),
        DataType::BinaryView => column.as_binary_view().value(row),
        DataType::FixedSizeBinary(_) => column.as_fixed_size_binary().value(row),
        other => unreachable!("{other} was turned into text"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Float32Type;
    use arrow_array::{
        FixedSizeListArray, Float64Array, Int64Array, ListArray, RecordBatchIterator, StringArray,
        StringViewArray,
    };

    use super::*;
    use crate::ingest::Nulls;

    fn selection(key: Option<&str>, values: &[&str]) -> Selection {
        let values = values.iter().map(ToString::to_string).collect();
        Selection { key: key.map(Into::into), values, nulls: Nulls::Refuse }
    }

    /// Key and joined value of a row.
    type KeyAndValue = (Vec<u8>, Vec<u8>);

    fn rows(batches: Vec<RecordBatch>, selection: &Selection) -> Result<Vec<KeyAndValue>, StoreError> {
        let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
        let mut source = BatchRows::new(reader, Path::new("table"), selection, 0)?;
        let (mut row, mut rows) = (Row::default(), Vec::new());
        while source.next(&mut row)? {
            rows.push((row.key().unwrap_or_default().to_vec(), row.value()));
        }
        Ok(rows)
    }

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap()
    }

    fn matrix(rows: Vec<Option<Vec<Option<f32>>>>) -> ArrayRef {
        Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2))
    }

    #[test]
    fn rows_come_from_all_batches_whatever_their_columns_are_called() {
        let text = |text: &[&str]| -> ArrayRef { Arc::new(StringViewArray::from_iter_values(text)) };
        let number =
            |numbers: &[i64]| -> ArrayRef { Arc::new(Int64Array::from_iter_values(numbers.iter().copied())) };
        let batches = vec![
            batch(vec![("v", number(&[7])), ("other", text(&["-"])), ("k", text(&["a"]))]),
            batch(vec![("v", number(&[])), ("other", text(&[])), ("k", text(&[]))]),
            batch(vec![("v", number(&[-8, 9])), ("other", text(&["-", "-"])), ("k", text(&["b", "c"]))]),
        ];
        let expected = [("a", "7"), ("b", "-8"), ("c", "9")].map(|(k, v)| (k.into(), v.into()));
        assert_eq!(rows(batches, &selection(Some("k"), &["v"])).unwrap(), expected);
    }

    #[test]
    fn rows_of_a_matrix_are_the_bytes_of_their_numbers() {
        let whole = matrix((0..5).map(|i| Some(vec![Some(i as f32), Some(0.5)])).collect());
        let expected: Vec<_> =
            (2..4).map(|i| (Vec::new(), [(i as f32).to_le_bytes(), 0.5f32.to_le_bytes()].concat())).collect();
        assert_eq!(
            rows(vec![batch(vec![("v", whole.slice(2, 2))])], &selection(None, &["v"])).unwrap(),
            expected
        );
    }

    #[test]
    fn what_no_key_or_value_can_be_told_of_is_refused() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None]));
        let ragged: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>([
            Some(vec![Some(1.0)]),
            Some(vec![Some(1.0), Some(2.0)]),
        ]));
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let table = || {
            vec![batch(vec![
                ("floats", floats.clone()),
                ("ragged", ragged.clone()),
                ("text", text.clone()),
                ("holes", matrix(vec![Some(vec![Some(1.0), None]), Some(vec![Some(1.0), Some(2.0)])])),
            ])]
        };
        for (key, value, cause) in [
            (Some("floats"), "text", "drop rows without a key"),
            (Some("ragged"), "text", "make them text, bytes or integers"),
            (Some("text"), "floats", "row 2: column \"text\" is null"),
            (None, "floats", "row 2: column \"floats\" is null"),
            (None, "holes", "a number within a list is missing"),
            (None, "none", "there are \"floats\", \"ragged\", \"text\", \"holes\""),
        ] {
            let error = rows(table(), &selection(key, &[value])).unwrap_err().to_string();
            assert!(error.starts_with("table: ") && error.contains(cause), "{error}");
        }
        assert!(rows(table(), &selection(None, &[])).unwrap_err().to_string().contains("--value"));
    }
}

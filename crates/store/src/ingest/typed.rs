//! The text form of each type. A typed value of a file or a data frame is stored as this text, and
//! a look-up asks for a key by this text.
//!
//! Clients in other languages write the same texts for their own values (docs/tables.md, "Types").

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::{as_date, as_datetime, as_duration, as_time};
use arrow_array::types::{
    ArrowTemporalType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type,
};
use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, FixedSizeListArray, UInt64Array, downcast_dictionary_array,
    downcast_integer, downcast_run_array, downcast_temporal, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, TimeUnit};
use arrow_select::take::take;
use spirea_protocols::table::FieldType;

/// Maximum length of a value's text, above the limit of a record. Without this limit, columns whose
/// values take no bytes, such as nulls in a list, could fill any memory.
pub(super) const MAX_TEXT_BYTES: usize = 4 << 20;

/// Maximum depth of nested types. The limit prevents a stack overflow, which deeper types of an
/// attacker would cause.
const MAX_DEPTH: usize = 32;

/// The meaning of a column for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A column of keys, which look-ups name by their text.
    Key,
    Value,
}

/// The way in which the values of a column become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Text and binary: the bytes themselves.
    Bytes,
    /// Lists of `count` numbers with `bytes` bytes each: the bytes of the numbers.
    Numbers { count: usize, bytes: usize },
    /// Other scalars: their text.
    Text,
    /// Nested values: their JSON.
    Json,
}

impl Form {
    /// Returns the form of a column.
    ///
    /// # Errors
    /// The fault of its type, and a remedy.
    fn of(field: &Field) -> Result<Self, String> {
        let kind = decoded(field.data_type());
        if let DataType::FixedSizeList(item, count) = &kind
            && let (Ok(count), Some(bytes)) = (usize::try_from(*count), item.data_type().primitive_width())
        {
            return Ok(Self::Numbers { count, bytes });
        }
        if kind.is_nested() {
            return check_nested(field, 0).map(|()| Self::Json);
        }
        check_scalar(field, &kind)?;
        Ok(match kind {
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => Self::Bytes,
            DataType::FixedSizeBinary(_) if !is_uuid(field) => Self::Bytes,
            _ => Self::Text,
        })
    }
}

/// Refuses a type for which no text form is defined.
fn check_scalar(field: &Field, kind: &DataType) -> Result<(), String> {
    // These types store a number whose meaning only pandas knows.
    if let Some(name @ ("pandas.period" | "pandas.interval")) = field.extension_type_name() {
        return Err(format!("of type {name}; make them text first, such as with astype(str)"));
    }
    match kind {
        DataType::Interval(_) => {
            Err(format!("of type {kind}, of which no text is agreed; make them text or durations"))
        }
        _ => Ok(()),
    }
}

fn check_nested(field: &Field, depth: usize) -> Result<(), String> {
    if depth == MAX_DEPTH {
        return Err(format!("nested more than {MAX_DEPTH} deep; make them text"));
    }
    let kind = decoded(field.data_type());
    match &kind {
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check_nested(field, depth + 1)),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => check_nested(item, depth + 1),
        kind if kind.is_nested() => {
            Err(format!("of type {kind}, of which no text is agreed; make them text"))
        }
        DataType::FixedSizeBinary(_) if is_uuid(field) => Ok(()),
        kind if kind.is_binary() || matches!(kind, DataType::FixedSizeBinary(_)) => {
            Err("nested and have bytes in them, which JSON cannot carry; make these text".into())
        }
        kind => check_scalar(field, kind),
    }
}

/// Checks that a column can have this role.
///
/// # Errors
/// The fault of its type, and a remedy.
pub(super) fn check(field: &Field, role: Role) -> Result<(), String> {
    let (name, kind) = (field.name(), decoded(field.data_type()));
    let what = if role == Role::Key { "keys" } else { "values" };
    let refuse = |detail: String| Err(format!("the {what} in column {name:?} are {detail}"));
    match (role, Form::of(field)) {
        (_, Err(detail)) => refuse(detail),
        (Role::Key, Ok(_)) if kind.is_floating() => refuse(format!(
            "of type {kind}, whose text nobody can be sure to repeat; make them integers or text (integers become such numbers \
             where one is missing: drop rows without a key first)"
        )),
        (Role::Key, Ok(Form::Numbers { .. } | Form::Json)) => {
            refuse(format!("of type {kind}; make them text, bytes or integers"))
        }
        _ => Ok(()),
    }
}

/// Returns the field type of a column that [`check`] accepts.
pub(super) fn field_type(field: &Field) -> FieldType {
    let kind = decoded(field.data_type());
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => FieldType::Text,
        DataType::FixedSizeBinary(_) if is_uuid(field) => FieldType::Uuid,
        DataType::Boolean => FieldType::Boolean,
        DataType::Date32 | DataType::Date64 => FieldType::Date,
        DataType::Time32(_) | DataType::Time64(_) => FieldType::Time,
        DataType::Timestamp(_, None) => FieldType::Datetime,
        DataType::Timestamp(_, Some(_)) => FieldType::Instant,
        DataType::Duration(_) => FieldType::Duration,
        _ if kind.is_integer() => FieldType::Integer,
        _ if kind.is_floating() => FieldType::Number,
        _ if kind.is_decimal() => FieldType::Decimal,
        _ if Form::of(field) == Ok(Form::Json) => FieldType::Json,
        _ => FieldType::Bytes,
    }
}

/// Converts a column to strings or bytes, without copying if possible. Nulls stay nulls.
///
/// # Errors
/// A value that has no text: a date beyond the calendar, or a list of numbers with a null.
pub(super) fn as_bytes(column: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    let form = Form::of(field).map_err(ArrowError::SchemaError)?;
    let kind = decoded(column.data_type());
    if kind.is_null() {
        return Ok(new_null_array(&DataType::Utf8, column.len()));
    }
    let append = match form {
        Form::Bytes => return decode(column, &kind),
        Form::Numbers { count, bytes } if count.saturating_mul(bytes) > MAX_TEXT_BYTES => {
            return Err(too_long());
        }
        Form::Numbers { count, bytes } => return rows_of_numbers(&decode(column, &kind)?, count, bytes),
        Form::Text => push_text,
        Form::Json => push_json,
    };
    let (mut texts, mut text) = (StringBuilder::new(), String::new());
    for row in 0..column.len() {
        if let Some((values, at)) = behind(column, row) {
            text.clear();
            append(values, field, at, &mut text)?;
            texts.append_value(&text);
        } else {
            texts.append_null();
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// Decodes a column of dictionaries or runs to the type `kind`. A null of the encoding becomes a
/// null of the column.
///
/// This function only repeats values and never converts them. `arrow_cast` does both, but its
/// conversions between all types would make up a tenth of a program's size.
fn decode(column: &ArrayRef, kind: &DataType) -> Result<ArrayRef, ArrowError> {
    if kind == column.data_type() {
        return Ok(Arc::clone(column));
    }
    downcast_dictionary_array! {
        column => decode(&take(column.values(), column.keys(), None)?, kind),
        DataType::RunEndEncoded(..) => downcast_run_array! {
            column => {
                let rows = (0..column.len()).map(|row| column.get_physical_index(row) as u64);
                decode(&take(column.values(), &UInt64Array::from_iter_values(rows), None)?, kind)
            },
            other => Err(undecodable(other, kind))
        },
        other => {
            let (DataType::FixedSizeList(..), DataType::FixedSizeList(item, count)) = (other, kind) else {
                return Err(undecodable(other, kind));
            };
            let lists = column.as_fixed_size_list();
            let (items, nulls) = (decode(lists.values(), item.data_type())?, lists.nulls().cloned());
            let (item, len) = (Arc::clone(item), lists.len());
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(item, *count, items, nulls, len)?))
        }
    }
}

fn undecodable(encoded: &DataType, kind: &DataType) -> ArrowError {
    ArrowError::CastError(format!("{encoded} is no encoding of {kind}"))
}

/// Resolves the encodings of `column`: returns the array and the row that contain the value of row
/// `row`, or `None` for a null.
fn behind(column: &dyn Array, row: usize) -> Option<(&dyn Array, usize)> {
    downcast_dictionary_array! {
        column => column.key(row).and_then(|key| behind(column.values(), key)),
        DataType::RunEndEncoded(..) => downcast_run_array! {
            column => behind(column.values(), column.get_physical_index(row)),
            _ => None
        },
        kind => (!kind.is_null() && !column.is_null(row)).then_some((column, row))
    }
}

fn too_long() -> ArrowError {
    ArrowError::InvalidArgumentError(format!(
        "a value is longer than {MAX_TEXT_BYTES} bytes; leave the column out"
    ))
}

/// Removes the encodings of repeated values from a type, also from nested types.
fn decoded(kind: &DataType) -> DataType {
    let of = |field: &FieldRef| -> FieldRef {
        Arc::new(field.as_ref().clone().with_data_type(decoded(field.data_type())))
    };
    match kind {
        DataType::Dictionary(_, values) => decoded(values),
        DataType::RunEndEncoded(_, values) => decoded(values.data_type()),
        DataType::List(item) => DataType::List(of(item)),
        DataType::LargeList(item) => DataType::LargeList(of(item)),
        DataType::FixedSizeList(item, count) => DataType::FixedSizeList(of(item), *count),
        DataType::Map(entries, sorted) => DataType::Map(of(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect::<Fields>()),
        other => other.clone(),
    }
}

/// Returns the type of a column for messages. Columns of the same type have the same text for the
/// same value.
pub(super) fn kind_of(field: &Field) -> String {
    match decoded(field.data_type()) {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".into(),
        _ if is_uuid(field) => "UUID".into(),
        kind if kind.is_binary() || matches!(kind, DataType::FixedSizeBinary(_)) => "bytes".into(),
        DataType::Timestamp(_, None) => "date and time".into(),
        DataType::Timestamp(_, Some(_)) => "date and time in UTC".into(),
        kind => kind.to_string(),
    }
}

fn is_uuid(field: &Field) -> bool {
    field.extension_type_name() == Some("arrow.uuid")
        && decoded(field.data_type()) == DataType::FixedSizeBinary(16)
}

/// Appends the text of a value that is not null.
fn push_text(column: &dyn Array, field: &Field, row: usize, text: &mut String) -> Result<(), ArrowError> {
    macro_rules! integer {
        ($type:ty) => {
            push(text, column.as_primitive::<$type>().value(row))
        };
    }
    macro_rules! temporal {
        ($type:ty) => {
            push_time::<$type>(text, column.as_primitive::<$type>().value(row).into())?
        };
    }
    let mut number = ryu_js::Buffer::new();
    let kind = column.data_type();
    downcast_integer! {
        kind => (integer),
        DataType::Boolean => push(text, column.as_boolean().value(row)),
        DataType::Float16 => text.push_str(number.format(f32::from(column.as_primitive::<Float16Type>().value(row)))),
        DataType::Float32 => text.push_str(number.format(column.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => text.push_str(number.format(column.as_primitive::<Float64Type>().value(row))),
        DataType::Duration(unit) => push_duration(text, column, *unit, row)?,
        DataType::FixedSizeBinary(_) if is_uuid(field) => {
            push_uuid(text, column.as_fixed_size_binary().value(row));
        },
        _ => match decimal(column, row) {
            Some(decimal) => push_shortest(text, decimal),
            None => downcast_temporal! {
                kind => (temporal),
                other => return Err(ArrowError::SchemaError(format!("{other} has no text")))
            },
        }
    }
    if matches!(kind, DataType::Timestamp(_, Some(_))) {
        text.push('Z');
    }
    Ok(())
}

fn push(text: &mut String, shown: impl std::fmt::Display) {
    write!(text, "{shown}").expect("strings take any text");
}

/// Appends a number or a time, without trailing zeros in its fraction.
fn push_shortest(text: &mut String, shown: impl std::fmt::Display) {
    let start = text.len();
    push(text, shown);
    if text[start..].contains('.') {
        let end = text.trim_end_matches('0').trim_end_matches('.').len();
        text.truncate(end);
    }
}

/// Returns the text of a decimal number; `None` for other types.
fn decimal(column: &dyn Array, row: usize) -> Option<String> {
    use arrow_array::types::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type};
    Some(match column.data_type() {
        DataType::Decimal32(..) => column.as_primitive::<Decimal32Type>().value_as_string(row),
        DataType::Decimal64(..) => column.as_primitive::<Decimal64Type>().value_as_string(row),
        DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Decimal256(..) => column.as_primitive::<Decimal256Type>().value_as_string(row),
        _ => return None,
    })
}

/// Appends a date, a time of day, or both, in the form of ISO 8601.
fn push_time<T: ArrowTemporalType>(text: &mut String, value: i64) -> Result<(), ArrowError> {
    let shown = match T::DATA_TYPE {
        DataType::Date32 | DataType::Date64 => as_date::<T>(value).map(|date| date.to_string()),
        DataType::Time32(_) | DataType::Time64(_) => as_time::<T>(value).map(|time| time.to_string()),
        _ => as_datetime::<T>(value).map(|time| format!("{}T{}", time.date(), time.time())),
    };
    let shown = shown.ok_or_else(|| {
        ArrowError::ComputeError(format!("{value} is no {}: it lies beyond the calendar", T::DATA_TYPE))
    })?;
    push_shortest(text, shown);
    Ok(())
}

/// Appends a duration in seconds, in the form of ISO 8601.
fn push_duration(
    text: &mut String,
    column: &dyn Array,
    unit: TimeUnit,
    row: usize,
) -> Result<(), ArrowError> {
    let duration = match unit {
        TimeUnit::Second => {
            as_duration::<DurationSecondType>(column.as_primitive::<DurationSecondType>().value(row))
        }
        TimeUnit::Millisecond => as_duration::<DurationMillisecondType>(
            column.as_primitive::<DurationMillisecondType>().value(row),
        ),
        TimeUnit::Microsecond => as_duration::<DurationMicrosecondType>(
            column.as_primitive::<DurationMicrosecondType>().value(row),
        ),
        TimeUnit::Nanosecond => {
            as_duration::<DurationNanosecondType>(column.as_primitive::<DurationNanosecondType>().value(row))
        }
    };
    push(text, duration.ok_or_else(|| ArrowError::ComputeError("a duration is out of range".into()))?);
    Ok(())
}

/// Appends the 16 bytes of a UUID with hyphens, as RFC 9562 writes them.
fn push_uuid(text: &mut String, bytes: &[u8]) {
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        push(text, format_args!("{byte:02x}"));
    }
}

/// Appends the JSON of a value, without white space.
fn push_json(column: &dyn Array, field: &Field, row: usize, text: &mut String) -> Result<(), ArrowError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_long());
    }
    let Some((column, row)) = behind(column, row) else {
        text.push_str("null");
        return Ok(());
    };
    let kind = column.data_type();
    match kind {
        DataType::Struct(fields) => {
            let columns = column.as_struct().columns();
            push_members(text, fields.iter().zip(columns), |text, (field, column)| {
                push_quoted(text, field.name());
                text.push(':');
                push_json(column, field, row, text)
            })
        }
        DataType::List(item) => push_list(text, &*column.as_list::<i32>().value(row), item),
        DataType::LargeList(item) => push_list(text, &*column.as_list::<i64>().value(row), item),
        DataType::ListView(item) => push_list(text, &*column.as_list_view::<i32>().value(row), item),
        DataType::LargeListView(item) => push_list(text, &*column.as_list_view::<i64>().value(row), item),
        DataType::FixedSizeList(item, _) => push_list(text, &*column.as_fixed_size_list().value(row), item),
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(ArrowError::SchemaError("a map has entries of another type".into()));
            };
            let members = column.as_map().value(row);
            let [names, values] = [0, 1].map(|i| Arc::clone(members.column(i)));
            push_members(text, 0..members.len(), |text, member| {
                let mut name = String::new();
                let (names, at) = behind(&*names, member).ok_or_else(|| {
                    ArrowError::InvalidArgumentError("a name in a map is missing; fill it in".into())
                })?;
                match string_at(names, at) {
                    Some(string) => name.push_str(string),
                    None if names.data_type().is_nested() => push_json(names, &fields[0], at, &mut name)?,
                    None => push_text(names, &fields[0], at, &mut name)?,
                }
                push_quoted(text, &name);
                text.push(':');
                push_json(&*values, &fields[1], member, text)
            })
        }
        _ => push_json_scalar(column, field, row, text),
    }
}

fn push_json_scalar(
    column: &dyn Array,
    field: &Field,
    row: usize,
    text: &mut String,
) -> Result<(), ArrowError> {
    if let Some(string) = string_at(column, row) {
        push_quoted(text, string);
        return Ok(());
    }
    let kind = column.data_type();
    let mut scalar = String::new();
    push_text(column, field, row, &mut scalar)?;
    match kind {
        // JSON has no infinity and no NaN.
        _ if kind.is_floating() && !scalar.ends_with(|last: char| last.is_ascii_digit()) => {
            text.push_str("null")
        }
        _ if kind.is_numeric() || *kind == DataType::Boolean => text.push_str(&scalar),
        _ => push_quoted(text, &scalar),
    }
    Ok(())
}

fn push_list(text: &mut String, items: &dyn Array, field: &Field) -> Result<(), ArrowError> {
    text.push('[');
    for row in 0..items.len() {
        if row > 0 {
            text.push(',');
        }
        push_json(items, field, row, text)?;
    }
    text.push(']');
    Ok(())
}

fn push_members<M>(
    text: &mut String,
    members: impl Iterator<Item = M>,
    mut append: impl FnMut(&mut String, M) -> Result<(), ArrowError>,
) -> Result<(), ArrowError> {
    text.push('{');
    for (i, member) in members.enumerate() {
        if i > 0 {
            text.push(',');
        }
        append(text, member)?;
    }
    text.push('}');
    Ok(())
}

fn push_quoted(text: &mut String, string: &str) {
    text.push_str(&serde_json::to_string(string).expect("strings are JSON"));
}

/// Returns the string in a column of strings; `None` for other types.
fn string_at(column: &dyn Array, row: usize) -> Option<&str> {
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(column.as_string_view().value(row)),
        _ => None,
    }
}

/// Converts lists of `count` numbers with `bytes` bytes each to the bytes of the numbers, which are
/// contiguous in memory.
fn rows_of_numbers(column: &ArrayRef, count: usize, bytes: usize) -> Result<ArrayRef, ArrowError> {
    let lists = column.as_fixed_size_list();
    let numbers = lists.values();
    let has_hole = |row: usize| !lists.is_null(row) && lists.value(row).null_count() > 0;
    if numbers.null_count() > 0 && (0..lists.len()).any(has_hole) {
        return Err(ArrowError::InvalidArgumentError("a number within a list is missing; fill it in".into()));
    }
    let data = numbers.to_data();
    let from = data.offset() * bytes;
    let values = data.buffers()[0].slice_with_length(from, numbers.len() * bytes);
    let row =
        i32::try_from(count * bytes).map_err(|error| ArrowError::InvalidArgumentError(error.to_string()))?;
    // The number of rows is given, since it does not follow from the bytes if the lists are empty.
    Ok(Arc::new(FixedSizeBinaryArray::try_new_with_len(row, values, lists.nulls().cloned(), lists.len())?))
}

//! Results as text: lines for people, one JSON object per line for programs.

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use spirea_client::{Fetched, Value, Version};
use spirea_console::output::{Format, escaped, is_watched, printable_line};
use spirea_protocols::Table;
use spirea_protocols::table::FieldType;

/// Layout of results.
pub struct Layout {
    /// Text or JSON.
    pub format: Format,
    /// Kind of the looked-up item: `key` or `index`.
    pub label: &'static str,
    /// True if the command looks up one value.
    pub is_alone: bool,
}

/// Names and types of a value's fields.
#[derive(Clone)]
pub struct Fields {
    names: Vec<String>,
    /// Types of the fields; empty if the table has none.
    types: Vec<FieldType>,
}

impl Fields {
    /// Returns the fields of a table.
    pub fn of(table: &Table) -> Self {
        Self { names: table.fields.clone(), types: table.types.clone() }
    }

    /// Converts the fields of a value to members of an object.
    fn members(&self, value: &Value) -> Object {
        let types = self.types.iter().copied().map(Some).chain(std::iter::repeat(None));
        let values = value.fields().iter().zip(types).map(|(field, kind)| field_json(kind, field));
        Object(self.names.iter().cloned().zip(values).collect())
    }
}

/// A JSON object whose members keep their order and their text.
struct Object(Vec<(String, Box<RawValue>)>);

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn json(value: impl Serialize) -> Box<RawValue> {
    to_raw_value(&value).expect("plain data is JSON")
}

/// A result as text.
pub enum Line {
    /// Bytes for standard output, with a line feed.
    Result(Vec<u8>),
    /// Sentence for standard error.
    Missing(String),
}

impl Layout {
    /// Formats the result of the look-up called `name`.
    pub fn line(&self, name: &str, value: &Fetched<Value>, version: &Version, fields: &Fields) -> Line {
        if self.format == Format::Json {
            let line = json(self.object(name, value, version, fields));
            return Line::Result(printable_line(line.get()).into());
        }
        let escaped_name = escaped(name.as_bytes());
        let name = if self.is_alone { name } else { &escaped_name };
        let value = match value {
            Fetched::Value(value) => value,
            Fetched::Absent => return Line::Missing(format!("{name}: not found")),
            Fetched::Dropped => {
                return Line::Missing(format!("{name}: dropped: one before it lies in the same bin"));
            }
        };
        match value.fields() {
            // A key of a set has no fields, so only its name is printed.
            [] => Line::Result(printable_line(&escaped_name).into()),
            // A program gets the field unchanged.
            [field] if self.is_alone && !is_watched() => Line::Result([field, &b"\n"[..]].concat()),
            fields if self.is_alone => Line::Result(printable_line(&columns(fields)).into()),
            fields => Line::Result(printable_line(&format!("{name}\t{}", columns(fields))).into()),
        }
    }

    fn object(&self, name: &str, value: &Fetched<Value>, version: &Version, fields: &Fields) -> Object {
        let name = match self.label {
            "index" => json(name.parse::<u64>().unwrap_or_default()),
            _ => json(name),
        };
        let found = json(matches!(value, Fetched::Value(_)));
        let mut members = vec![(self.label.into(), name), ("found".into(), found)];
        match value {
            Fetched::Value(value) if !value.fields().is_empty() => {
                members.push(("value".into(), json(fields.members(value))));
            }
            Fetched::Dropped => members.push(("dropped".into(), json(true))),
            Fetched::Value(_) | Fetched::Absent => {}
        }
        members.push(("version".into(), json(version)));
        Object(members)
    }
}

/// Converts a field to JSON: numbers, booleans and nested values as such, other text as a string,
/// and bytes as `{"hex": "..."}`. A field that does not match its type is treated as untyped.
fn field_json(kind: Option<FieldType>, bytes: &[u8]) -> Box<RawValue> {
    let text = match str::from_utf8(bytes) {
        Ok(text) if kind != Some(FieldType::Bytes) => text,
        _ => {
            return json(Object(vec![("hex".into(), json(hex::encode(bytes)))]));
        }
    };
    // Each object takes one line; line ends within JSON are white space.
    let as_it_is = || RawValue::from_string(text.replace(['\n', '\r'], " ")).unwrap_or_else(|_| json(text));
    match kind.filter(|kind| kind.admits(bytes)) {
        None | Some(FieldType::Text) => json(text),
        Some(_) if text.is_empty() => json(()),
        // JSON has no numbers such as infinity or NaN.
        Some(FieldType::Number) if !text.ends_with(|last: char| last.is_ascii_digit()) => json(()),
        Some(
            FieldType::Integer
            | FieldType::Number
            | FieldType::Decimal
            | FieldType::Boolean
            | FieldType::Json,
        ) => as_it_is(),
        Some(_) => json(text),
    }
}

/// Joins fields by tabs; tabs within fields are escaped.
fn columns(fields: &[Vec<u8>]) -> String {
    fields.iter().map(|field| escaped(field)).collect::<Vec<_>>().join("\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_values_of_json_by_their_types() {
        let cases = [
            (FieldType::Integer, "18446744073709551616", "18446744073709551616"),
            (FieldType::Number, "1e+21", "1e+21"),
            (FieldType::Number, "NaN", "null"),
            (FieldType::Number, "-Infinity", "null"),
            (FieldType::Decimal, "12.50", "12.50"),
            (FieldType::Decimal, "", "null"),
            (FieldType::Boolean, "true", "true"),
            (FieldType::Date, "2024-05-01", "\"2024-05-01\""),
            (FieldType::Json, "{\"x\":\n[1]}", "{\"x\": [1]}"),
            (FieldType::Bytes, "text", "{\"hex\":\"74657874\"}"),
            (FieldType::Text, "5", "\"5\""),
            (FieldType::Text, "", "\"\""),
            // A lying server sends these values.
            (FieldType::Integer, "5,\"found\":true", "\"5,\\\"found\\\":true\""),
            (FieldType::Json, "}{", "\"}{\""),
        ];
        for (kind, field, expected) in cases {
            assert_eq!(field_json(Some(kind), field.as_bytes()).get(), expected, "{kind}");
        }
        assert_eq!(field_json(None, b"5").get(), "\"5\"");
        assert_eq!(field_json(Some(FieldType::Integer), b"\xff").get(), "{\"hex\":\"ff\"}");
    }
}

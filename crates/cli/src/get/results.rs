//! Results as text: lines for people, one JSON object a line for programs.

use serde_json::{Map, Value as Json, json};
use spirea_client::{Fetched, Value, Version};

use crate::output::{Format, escaped, is_watched, printable_line};

/// The form of results.
pub struct Layout {
    /// Text or JSON.
    pub format: Format,
    /// The name of what is looked up: `key` or `index`.
    pub label: &'static str,
    /// The command looks up one value.
    pub is_alone: bool,
}

/// One result as text.
pub enum Line {
    /// Bytes for standard output, with the end of the line.
    Result(Vec<u8>),
    /// A sentence for standard error.
    Missing(String),
}

impl Layout {
    /// The result of the look-up called `name`.
    pub fn line(&self, name: &str, value: &Fetched<Value>, version: &Version, fields: &[String]) -> Line {
        if self.format == Format::Json {
            return Line::Result(printable_line(&self.json(name, value, version, fields).to_string()).into());
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
            // A key of a set: its name is all there is to tell.
            [] => Line::Result(printable_line(&escaped_name).into()),
            // A program gets the field as it is.
            [field] if self.is_alone && !is_watched() => Line::Result([field, &b"\n"[..]].concat()),
            fields if self.is_alone => Line::Result(printable_line(&columns(fields)).into()),
            fields => Line::Result(printable_line(&format!("{name}\t{}", columns(fields))).into()),
        }
    }

    fn json(&self, name: &str, value: &Fetched<Value>, version: &Version, fields: &[String]) -> Json {
        let mut object = Map::new();
        let name = match self.label {
            "index" => json!(name.parse::<u64>().unwrap_or_default()),
            _ => json!(name),
        };
        object.insert(self.label.into(), name);
        object.insert("found".into(), json!(matches!(value, Fetched::Value(_))));
        match value {
            Fetched::Value(_) if fields.is_empty() => {}
            Fetched::Value(value) => {
                let members = fields
                    .iter()
                    .zip(value.fields())
                    .map(|(field, bytes)| (field.clone(), field_json(bytes)));
                object.insert("value".into(), Json::Object(members.collect()));
            }
            Fetched::Dropped => drop(object.insert("dropped".into(), json!(true))),
            Fetched::Absent => {}
        }
        object.insert("version".into(), json!(blake3::Hash::from_bytes(*version).to_hex().as_str()));
        Json::Object(object)
    }
}

/// Text as a string; bytes that are no text as `{"hex": "..."}`.
fn field_json(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    }
}

/// Fields with tabs between them, and none within.
fn columns(fields: &[Vec<u8>]) -> String {
    fields.iter().map(|field| escaped(field)).collect::<Vec<_>>().join("\t")
}

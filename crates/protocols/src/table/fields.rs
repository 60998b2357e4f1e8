//! Fields of values: their encoding, and the types of their texts.

use std::fmt;
use std::str::FromStr;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::Table;
use crate::ProtocolError;
use crate::bytes::{push_length, take, take_length};

/// Type of a field. Clients use it to convert the field's text to a value of their language.
///
/// docs/tables.md, "Types", gives the text of each type. A field of any type but text and bytes may
/// be empty: its value is then missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldType {
    /// Text in UTF-8.
    Text,
    /// Bytes.
    Bytes,
    /// A whole number of any size.
    Integer,
    /// A floating-point number of 64 bits or less.
    Number,
    /// A decimal number of any precision.
    Decimal,
    /// A truth value.
    Boolean,
    /// A day of the calendar.
    Date,
    /// A time of day.
    Time,
    /// A date and a time of day in no time zone.
    Datetime,
    /// A date and a time of day in UTC.
    Instant,
    /// A number of seconds.
    Duration,
    /// A UUID.
    Uuid,
    /// A list, a structure or a map.
    Json,
}

impl FieldType {
    /// All types, with their names.
    pub const ALL: [(&'static str, Self); 13] = [
        ("text", Self::Text),
        ("bytes", Self::Bytes),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("decimal", Self::Decimal),
        ("boolean", Self::Boolean),
        ("date", Self::Date),
        ("time", Self::Time),
        ("datetime", Self::Datetime),
        ("instant", Self::Instant),
        ("duration", Self::Duration),
        ("uuid", Self::Uuid),
        ("json", Self::Json),
    ];

    /// Returns true if a value can have this type: it is a text of the type, or missing.
    pub fn admits(self, value: &[u8]) -> bool {
        if self == Self::Bytes {
            return true;
        }
        let Ok(text) = str::from_utf8(value) else { return false };
        if text.is_empty() {
            return true;
        }
        match self {
            Self::Text | Self::Bytes => true,
            Self::Integer => is_integer(text),
            Self::Number => is_number(text) || matches!(text, "NaN" | "Infinity" | "-Infinity"),
            Self::Decimal => {
                let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
                (is_integer(whole) || whole == "-0") && is_digits(fraction)
            }
            Self::Boolean => matches!(text, "true" | "false"),
            Self::Date => is_date(text),
            Self::Time => is_time(text),
            Self::Datetime => text.split_once('T').is_some_and(|(date, time)| is_date(date) && is_time(time)),
            Self::Instant => {
                text.strip_suffix('Z').is_some_and(|text| Self::Datetime.admits(text.as_bytes()))
            }
            Self::Duration => is_duration(text),
            Self::Uuid => is_uuid(text),
            Self::Json => serde_json::from_str::<IgnoredAny>(text).is_ok(),
        }
    }

    /// Returns the type's name.
    pub fn name(self) -> &'static str {
        let (name, _) = Self::ALL.iter().find(|(_, kind)| *kind == self).expect("all types have names");
        name
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FieldType {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            format!("{name:?} is no type of a field: there are {names}")
        })
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true for decimal digits without leading zeros; negative zero is excluded.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    is_digits(digits) && (!digits.starts_with('0') || text == "0")
}

/// Returns true for a JSON number.
fn is_number(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    (is_integer(whole) || whole == "-0") && is_digits(fraction) && is_digits(exponent)
}

/// Returns true for two digits below `end`.
fn is_below(text: &str, end: u8) -> bool {
    text.len() == 2 && is_digits(text) && text.parse::<u8>().is_ok_and(|number| number < end)
}

fn is_date(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some((year, (month, day))) =
        unsigned.split_once('-').and_then(|(year, rest)| Some((year, rest.split_once('-')?)))
    else {
        return false;
    };
    if !(year.len() >= 4 && is_digits(year) && is_below(month, 13) && is_below(day, 32)) {
        return false;
    }
    // Leap years repeat every 400 years, and 10,000 is a multiple of 400.
    let last_digits: u32 = year[year.len() - 4..].parse().expect("four digits");
    let is_leap = last_digits.is_multiple_of(4)
        && (!last_digits.is_multiple_of(100) || last_digits.is_multiple_of(400));
    let last_day = match month {
        "00" => 0,
        "04" | "06" | "09" | "11" => 30,
        "02" if is_leap => 29,
        "02" => 28,
        _ => 31,
    };
    (1..=last_day).contains(&day.parse::<u8>().expect("two digits"))
}

fn is_time(text: &str) -> bool {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<&str> = seconds.split(':').collect();
    // Second 60 is a leap second.
    matches!(parts[..], [hour, minute, second]
        if is_below(hour, 24) && is_below(minute, 60) && is_below(second, 61))
        && is_digits(fraction)
}

fn is_duration(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let Some(seconds) = unsigned.strip_prefix("PT").and_then(|text| text.strip_suffix('S')) else {
        return text == "P0D";
    };
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    is_digits(whole) && is_digits(fraction)
}

fn is_uuid(text: &str) -> bool {
    let is_small_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|part| is_small_hex(part))
}

/// Joins the fields of a value: a single field as its bytes, several each preceded by its length.
pub fn join_fields(fields: &[&[u8]]) -> Vec<u8> {
    match fields {
        [field] => field.to_vec(),
        _ => fields.iter().fold(Vec::new(), |mut value, field| {
            push_length(&mut value, field.len());
            value.extend_from_slice(field);
            value
        }),
    }
}

impl Table {
    /// Joins the fields of a value.
    ///
    /// # Panics
    /// If their number differs from the table's.
    pub fn join_fields(&self, fields: &[&[u8]]) -> Vec<u8> {
        assert_eq!(fields.len(), self.fields.len());
        join_fields(fields)
    }

    /// Splits a value into its fields.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the value does not consist of these fields.
    pub fn split_fields(&self, value: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        if self.fields.len() == 1 {
            return Ok(vec![value.to_vec()]);
        }
        let mut rest = value;
        let fields = self
            .fields
            .iter()
            .map(|_| take_length(&mut rest).and_then(|length| take(&mut rest, length)).map(<[u8]>::to_vec))
            .collect::<Option<Vec<_>>>();
        match fields {
            Some(fields) if rest.is_empty() => Ok(fields),
            _ => Err(ProtocolError::malformed("value", "its fields are cut off")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_type_admits_its_texts_and_no_others() {
        let cases: [(FieldType, &[&str], &[&str]); 11] = [
            (
                FieldType::Integer,
                &["0", "-128", "18446744073709551616"],
                &["-0", "007", "1.0", "+1", " 1", "-", "1e3"],
            ),
            (
                FieldType::Number,
                &["5", "0.1", "1e+21", "-0", "1E-7", "1e400", "NaN", "-Infinity"],
                &[".5", "5.", "1e", "1e400+", "nan", "0x1", "01"],
            ),
            (FieldType::Decimal, &["12.5", "-0.25", "0", "3.00"], &["1e3", "12.", ".5", "NaN", "--1"]),
            (FieldType::Boolean, &["true", "false"], &["True", "1", "yes"]),
            (
                FieldType::Date,
                &["2024-02-29", "2000-02-29", "+12345-01-31", "-0044-03-15"],
                &[
                    "2023-02-29",
                    "1900-02-29",
                    "2024-00-01",
                    "2024-13-01",
                    "2024-04-31",
                    "2024-1-1",
                    "24-01-01",
                    "2024-01-00",
                ],
            ),
            (
                FieldType::Time,
                &["00:00:00", "23:59:60", "12:34:56.5"],
                &["24:00:00", "12:34", "12:34:56.", "12:60:00"],
            ),
            (
                FieldType::Datetime,
                &["2024-05-01T12:34:56"],
                &["2024-05-01T12:34:56Z", "2024-05-01 12:34:56", "2024-05-01"],
            ),
            (
                FieldType::Instant,
                &["2024-05-01T10:34:56.25Z"],
                &["2024-05-01T10:34:56", "2024-05-01T10:34:56+00:00"],
            ),
            (FieldType::Duration, &["PT3.5S", "-PT1S", "P0D"], &["PT", "PTS", "P1D", "-P0D", "3.5"]),
            (
                FieldType::Uuid,
                &["01234567-89ab-cdef-fedc-ba9876543210"],
                &[
                    "01234567-89AB-cdef-fedc-ba9876543210",
                    "0123456789abcdeffedcba9876543210",
                    "01234567-89ab-cdef-fedc-ba987654321é",
                ],
            ),
            (
                FieldType::Json,
                &["{\"x\":[1,null]}", "[]", "null", "\"a\""],
                &["{", "[1,]", "undefined", "{} {}"],
            ),
        ];
        for (kind, right, wrong) in cases {
            assert!(kind.admits(b"") && !kind.admits(b"\xff"), "{kind}");
            assert!(FieldType::Text.admits(right[0].as_bytes()) && FieldType::Bytes.admits(b"\xff"));
            for text in right {
                assert!(kind.admits(text.as_bytes()), "{kind}: {text}");
            }
            for text in wrong {
                assert!(!kind.admits(text.as_bytes()), "{kind}: {text}");
            }
        }
    }

    #[test]
    fn names_are_those_of_the_manifest() {
        for (name, kind) in FieldType::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("{name:?}"));
            assert_eq!((name.parse(), kind.name()), (Ok(kind), name));
        }
        assert!("float".parse::<FieldType>().unwrap_err().contains("integer, number"));
    }

    proptest! {
        #[test]
        fn numbers_and_json_are_those_of_the_parser(text in "[-+0-9.eE]{0,8}|[\\[\\]{}:,\"0-9a ]{0,10}") {
            let parsed = serde_json::from_str::<serde_json::Value>(&text);
            prop_assume!(!text.is_empty());
            // The parser refuses numbers beyond the range of floating-point numbers before it reads
            // on.
            prop_assume!(!parsed.as_ref().is_err_and(|error| error.to_string().contains("out of range")));
            let is_number = parsed.as_ref().is_ok_and(serde_json::Value::is_number) && text.trim() == text;
            prop_assert_eq!(FieldType::Number.admits(text.as_bytes()), is_number);
            prop_assert_eq!(FieldType::Json.admits(text.as_bytes()), parsed.is_ok());
        }

        #[test]
        fn any_bytes_are_a_text_of_the_type_or_none(bytes: Vec<u8>) {
            for (_, kind) in FieldType::ALL {
                prop_assert_eq!(FieldType::Bytes.admits(&bytes) && kind.admits(&bytes), kind.admits(&bytes));
            }
        }
    }
}

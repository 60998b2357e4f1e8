//! Sizes, times and names as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// The number of bytes that a text such as `512MiB` or `4096` tells.
///
/// # Errors
/// What a size looks like.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: [&str; 5] = ["", "KiB", "MiB", "GiB", "TiB"];
    let (number, unit) = split(text);
    let unit = UNITS.iter().position(|&known| known == unit);
    number
        .parse::<u64>()
        .ok()
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(1 << (10 * unit)))
        .ok_or_else(|| "a size is a number of bytes, or of KiB, MiB, GiB or TiB, such as 512MiB".into())
}

/// The time that a text such as `500ms`, `30s`, `2m`, `1h` or `30d` tells.
///
/// # Errors
/// What a time looks like.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let number = number.parse::<u64>().ok();
    let seconds = |each: u64| number.and_then(|number| number.checked_mul(each)).map(Duration::from_secs);
    match unit {
        "ms" => number.map(Duration::from_millis),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(60 * 60),
        "d" => seconds(24 * 60 * 60),
        _ => None,
    }
    .ok_or_else(|| "a time is a number of ms, s, m, h or d, such as 30s".into())
}

fn split(text: &str) -> (&str, &str) {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    text.split_at(digits)
}

/// A value that is read from its text, or from a whole number.
struct Text<T, F>(F, std::marker::PhantomData<T>);

impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Text<T, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        (self.0)(&number.to_string()).map_err(E::custom)
    }
}

fn text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(Text(parse, std::marker::PhantomData)).map(Some)
}

/// For a size.
pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    text(deserializer, parse_size)
}

/// For a time.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    text(deserializer, parse_time)
}

/// For a value that its text can be read from.
pub(super) fn parsed<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    text(deserializer, |text| text.parse().map_err(|error| format!("{text:?}: {error}")))
}

/// For one of a few names.
pub(super) fn named<'de, D, T: Copy, const N: usize>(
    deserializer: D,
    names: [(&'static str, T); N],
) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
{
    let name = String::deserialize(deserializer)?;
    let found = names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let known = names.map(|(known, _)| known).join(", ");
    found.map(Some).ok_or_else(|| D::Error::custom(format!("{name:?} is none of {known}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        let sizes = ["0", "4096", "3KiB", "512MiB", "16GiB", "2TiB"].map(parse_size);
        assert_eq!(sizes, [0, 4096, 3 << 10, 512 << 20, 16 << 30, 2 << 40].map(Ok));
        for wrong in ["", "MiB", "5MB", "-1", "1.5GiB", "5 MiB", "18446744073709551616", "16777216TiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_a_unit() {
        let times = ["0s", "250ms", "30s", "2m", "1h", "2d"].map(parse_time);
        let expected = [0, 250, 30_000, 120_000, 3_600_000, 172_800_000];
        assert_eq!(times, expected.map(Duration::from_millis).map(Ok));
        for wrong in ["", "30", "s", "1w", "-1s", "1.5s", "5 s", "18446744073709551615h"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}

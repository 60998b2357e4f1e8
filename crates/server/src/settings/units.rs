//! Sizes, times and names as people write them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Parses a number of bytes such as `512MiB`, `4096`, `1.5GiB` or `1e6`. Units follow the Unix
/// tools: `1M` is 1MiB, 2^20 bytes, and `1MB` is 10^6.
///
/// # Errors
/// A description of the format of sizes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let unit = |unit: &str| {
        let (prefix, base) = match unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B')) {
            Some(prefix) if unit.ends_with("iB") => (prefix, 1024),
            Some(prefix) => (prefix, 1000),
            None => (unit, 1024),
        };
        Some(u128::pow(base, power(prefix)?)).filter(|_| !prefix.is_empty() || unit.len() <= 1)
    };
    quantity(text, unit).ok_or_else(|| {
        "a size is a number of bytes, or of KiB, MiB, GiB or TiB, such as 512MiB; or of kB, MB, GB or TB"
            .into()
    })
}

/// Parses a number such as `5000`, `1e6`, `1.5M` or `100k`; units are powers of 1000.
///
/// # Errors
/// A description of the format of numbers.
pub fn parse_count(text: &str) -> Result<u64, String> {
    quantity(text, |unit| Some(u128::pow(1000, power(unit)?)))
        .ok_or_else(|| "a number is digits, or such as 1e6, 100k, 1.5M or 2G".into())
}

/// Returns the exponent of 1000 or 1024 for a prefix.
fn power(prefix: &str) -> Option<u32> {
    ["", "K", "M", "G", "T"]
        .iter()
        .position(|&known| known == prefix.to_uppercase())
        .map(|power| power as u32)
}

/// Parses a whole number: decimal digits, optionally with a point and an exponent, times a unit.
/// The result is exact, or `None` if it is not whole.
fn quantity(text: &str, unit: impl Fn(&str) -> Option<u128>) -> Option<u64> {
    let end = |text: &str, of: fn(char) -> bool| text.find(|c| !of(c)).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end(text, |c| c.is_ascii_digit() || c == '.'));
    let exponent = rest.strip_prefix(['e', 'E']).map(|rest| rest.split_at(end(rest, |c| c.is_ascii_digit())));
    let (exponent, rest) = exponent.filter(|(digits, _)| !digits.is_empty()).unwrap_or(("0", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa: u128 = [whole, fraction].concat().parse().ok()?;
    let scale = |digits: u32| 10u128.checked_pow(digits);
    let times = scale(exponent.parse().ok()?)?.checked_mul(unit(rest)?)?;
    let of = scale(fraction.len().try_into().ok()?)?;
    let number = mantissa.checked_mul(times)?;
    if whole.is_empty() || !number.is_multiple_of(of) { None } else { u64::try_from(number / of).ok() }
}

/// Parses a time such as `500ms`, `30s`, `2m`, `1h` or `30d`.
///
/// # Errors
/// A description of the format of times.
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

/// Parses an address to listen on, such as `127.0.0.1:8080` or `[::1]:8080`.
///
/// # Errors
/// The missing part, and the address to write.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest.split('/').next().unwrap_or_default());
    let instead = |host: &str, port: u16| {
        format!("write {host}:{port}, or 0.0.0.0:{port} for all addresses of this machine")
    };
    const USUAL: u16 = 8080;
    Err(if bare != text {
        format!("an address to listen on has no scheme and no path: write {bare}")
    } else if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
        format!("the address is missing before the port: {}", instead("127.0.0.1", port))
    } else if let Ok(address) = text.parse::<IpAddr>() {
        format!("the port is missing: write {}", SocketAddr::new(address, USUAL))
    } else if let Some((host, Ok(port))) = text.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
        format!("{host} is a name, and a server listens on an address: {}", instead("127.0.0.1", port))
    } else {
        format!(
            "an address to listen on is an IP address and a port from 0 to 65535: {}",
            instead("127.0.0.1", USUAL)
        )
    })
}

fn split(text: &str) -> (&str, &str) {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    text.split_at(digits)
}

/// Visitor for a value that is parsed from text or from a whole number.
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

/// Deserializes a size.
pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    text(deserializer, parse_size)
}

/// Deserializes a time.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    text(deserializer, parse_time)
}

/// Deserializes an address to listen on.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    text(deserializer, |text| parse_address(text).map_err(|error| format!("{text:?}: {error}")))
}

/// Deserializes a value that is parsed from text.
pub(super) fn parsed<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    text(deserializer, |text| text.parse().map_err(|error| format!("{text:?}: {error}")))
}

/// Deserializes one of a few names.
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
    fn addresses_to_listen_on_are_read_or_told() {
        for text in ["127.0.0.1:80", "[::1]:0", "0.0.0.0:65535"] {
            assert_eq!(parse_address(text).unwrap().to_string(), text);
        }
        for (text, remedy) in [
            ("8080", "missing before the port: write 127.0.0.1:8080, or 0.0.0.0:8080"),
            (":8080", "missing before the port: write 127.0.0.1:8080"),
            ("localhost:80", "localhost is a name, and a server listens on an address: write 127.0.0.1:80"),
            ("127.0.0.1", "the port is missing: write 127.0.0.1:8080"),
            ("::1", "the port is missing: write [::1]:8080"),
            ("http://127.0.0.1:80/v1", "no scheme and no path: write 127.0.0.1:80"),
            ("127.0.0.1:65536", "a port from 0 to 65535"),
            ("", "write 127.0.0.1:8080"),
        ] {
            let said = parse_address(text).unwrap_err();
            assert!(said.contains(remedy), "{text:?}: {said}");
        }
    }

    #[test]
    fn sizes_have_the_units_of_unix() {
        let sizes =
            ["0", "4096", "7B", "3KiB", "512MiB", "16GiB", "2TiB", "18446744073709551615"].map(parse_size);
        assert_eq!(sizes, [0, 4096, 7, 3 << 10, 512 << 20, 16 << 30, 2 << 40, u64::MAX].map(Ok));
        let sizes =
            ["1K", "1k", "1M", "1MB", "5kB", "1.5GiB", "1e6", "2.5e3", "1e3K", "0.5K"].map(parse_size);
        let expected = [1024, 1024, 1 << 20, 1_000_000, 5000, 3 << 29, 1_000_000, 2500, 1_024_000, 512];
        assert_eq!(sizes, expected.map(Ok));
        for wrong in [
            "",
            "MiB",
            "-1",
            "+1",
            "5 MiB",
            "iB",
            "5iB",
            "1.5",
            "0.3K",
            ".5M",
            "1e",
            "1e-3",
            "1.2.3",
            "5X",
            "5MiBB",
            "18446744073709551616",
            "16777216TiB",
            "1e40",
            "1e99999999999",
        ] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_have_powers_of_a_thousand() {
        let counts = ["17", "1e6", "100k", "1.5M", "2G", "1T"].map(parse_count);
        assert_eq!(counts, [17, 1_000_000, 100_000, 1_500_000, 2_000_000_000, 1_000_000_000_000].map(Ok));
        for wrong in ["", "1MB", "1.5", "k", "1e", "-5", "1 000"] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
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

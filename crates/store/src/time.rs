//! Times as RFC 3339 in UTC, to the second.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

use crate::StoreError;

/// Returns the current time, or `SOURCE_DATE_EPOCH` for reproducible builds.
pub(crate) fn created() -> Result<String, StoreError> {
    let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text.trim().parse().ok().filter(|&seconds| seconds <= LAST_SECOND).ok_or_else(|| {
            StoreError::BadOption(format!(
                "SOURCE_DATE_EPOCH is {text:?}; set it to seconds since 1970 (before the year 10000) or unset it"
            ))
        })?,
        Err(_) => unix_seconds(),
    };
    Ok(rfc3339(seconds))
}

/// Returns the date of the system's clock in UTC, in the form of RFC 3339.
pub fn today() -> String {
    let mut now = rfc3339(unix_seconds());
    now.truncate("0000-00-00".len());
    now
}

/// Returns the seconds since 1970 by the system's clock.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// 9999-12-31T23:59:59Z.
const LAST_SECOND: u64 = 253_402_300_799;

fn rfc3339(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let time = DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::<Utc>::MAX_UTC);
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// True if the text has the form that [`created`] writes.
pub(crate) fn is_rfc3339(text: &str) -> bool {
    let form = b"0000-00-00T00:00:00Z";
    text.len() == form.len()
        && text.bytes().zip(form).all(|(byte, &form)| match form {
            b'0' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST_SECOND, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
            assert!(is_rfc3339(text));
        }
        assert!(!is_rfc3339("2026-01-31 23:59:59Z") && !is_rfc3339("2026-01-31T23:59:59+"));
    }
}

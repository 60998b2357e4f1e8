//! The `Range` header of RFC 9110, limited to a single range of bytes, which is enough to resume a
//! download.

/// Requested part of a file: `length` bytes from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub start: u64,
    pub length: u64,
}

/// Request of a `Range` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The whole file; also for headers that are malformed or name several ranges, which a server
    /// may ignore.
    Whole,
    /// A part of the file.
    Slice(Slice),
    /// A range outside the file.
    Outside,
}

/// Parses a `Range` header's value for a file of `total` bytes.
pub(crate) fn parse(value: &str, total: u64) -> Asked {
    let Some((first, last)) = value.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-'))
    else {
        return Asked::Whole;
    };
    let number = |digits: &str| {
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let (start, end) = match (number(first), number(last)) {
        (None, Some(suffix)) if first.is_empty() => (total.saturating_sub(suffix), total),
        (Some(start), None) if last.is_empty() => (start, total),
        (Some(start), Some(last)) if start <= last => (start, total.min(last.saturating_add(1))),
        _ => return Asked::Whole,
    };
    if start >= end {
        return Asked::Outside;
    }
    Asked::Slice(Slice { start, length: end - start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_rfc_9110_says() {
        let part = |start, length| Asked::Slice(Slice { start, length });
        for (value, asked) in [
            ("bytes=0-", part(0, 100)),
            ("bytes=10-19", part(10, 10)),
            ("bytes=10-1000", part(10, 90)),
            ("bytes=99-99", part(99, 1)),
            ("bytes=-1", part(99, 1)),
            ("bytes=-1000", part(0, 100)),
            ("bytes=0-99999999999999999999999", part(0, 100)),
            ("bytes=100-", Asked::Outside),
            ("bytes=99999999999999999999999-", Asked::Outside),
            ("bytes=-0", Asked::Outside),
            ("bytes=5-4", Asked::Whole),
            ("bytes=0-1,5-6", Asked::Whole),
            ("bytes=-", Asked::Whole),
            ("bytes=+1-", Asked::Whole),
            ("lines=1-2", Asked::Whole),
            ("", Asked::Whole),
        ] {
            assert_eq!(parse(value, 100), asked, "{value}");
        }
        assert_eq!(parse("bytes=0-", 0), Asked::Outside);
    }
}

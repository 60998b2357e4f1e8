//! Trace of a computation, for its requests to other machines.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

/// A request's trace and the span that computes for it, as in the header `traceparent` of the W3C's
/// Trace Context. Both are random and say nothing about the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: [u8; 16],
    /// The computing span, the parent of the spans on other machines.
    pub span: [u8; 8],
}

/// Error of a `traceparent` that is not of version 00.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a trace is named as 00-TRACE-SPAN-FLAGS, with 32, 16 and 2 hexadecimal digits")]
pub struct WrongTrace;

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.span.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-01")
    }
}

impl FromStr for TraceContext {
    type Err = WrongTrace;

    fn from_str(text: &str) -> Result<Self, WrongTrace> {
        let parts: Vec<&str> = text.split('-').collect();
        let ["00", trace, span, flags] = parts[..] else { return Err(WrongTrace) };
        digits::<1>(flags)?;
        Ok(Self { trace: digits(trace)?, span: digits(span)? })
    }
}

/// Parses lower-case hexadecimal digits, two for each of `N` bytes.
fn digits<const N: usize>(text: &str) -> Result<[u8; N], WrongTrace> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(lower) {
        return Err(WrongTrace);
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| WrongTrace)?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| WrongTrace)?;
    }
    Ok(bytes)
}

thread_local! {
    static CURRENT: Cell<Option<TraceContext>> = const { Cell::new(None) };
}

/// Returns the trace of the batch that this thread computes: that of the first request that has
/// one.
pub fn current_trace() -> Option<TraceContext> {
    CURRENT.get()
}

/// Runs `compute` within a trace.
pub(super) fn within<T>(trace: Option<TraceContext>, compute: impl FnOnce() -> T) -> T {
    let before = CURRENT.replace(trace);
    let computed = compute();
    CURRENT.set(before);
    computed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_survives_its_header() {
        let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let trace: TraceContext = header.parse().unwrap();
        assert_eq!((trace.trace[0], trace.span[7]), (0x0a, 0x31));
        assert_eq!(trace.to_string(), header);
        for wrong in [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333+-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-\u{e9}",
        ] {
            assert_eq!(wrong.parse::<TraceContext>(), Err(WrongTrace), "{wrong}");
        }
    }

    #[test]
    fn a_trace_is_current_while_it_is_computed() {
        let trace = TraceContext { trace: [1; 16], span: [2; 8] };
        assert_eq!(within(Some(trace), || within(None, current_trace)), None);
        assert_eq!(within(Some(trace), current_trace), Some(trace));
        assert_eq!(current_trace(), None);
    }
}

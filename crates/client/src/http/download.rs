//! The download of a hint: resumed where it broke off, only what has changed where a former one is there, checked
//! before it is used.

use std::io::Read;
use std::ops::Range;

use super::cache::{Cache, Part};
use super::transport::{Failure, HintPart, Transport, failed};
use super::{ClientOptions, Progress};
use crate::{ClientError, Description, Hint, Part as DatabasePart};

/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// What a request costs beside its bytes: rows that are no further apart are fetched with what lies between them.
const REQUEST_BYTES: u64 = 32 << 10;
/// A hint is patched if no more than this share of it has changed.
const PATCHED_SHARE: u64 = 2;

/// The hints of a version's parts, from the cache or the server; `None` if the server has others by now.
pub(super) fn hints(
    transport: &Transport,
    cache: &Cache,
    description: &Description,
    options: &ClientOptions,
) -> Result<Option<Vec<Hint>>, ClientError> {
    let slots = ["base", "delta"].map(|part| format!("{}-{part}", description.name()));
    let hint = |(part, slot): (&DatabasePart, &String)| {
        let hint = hint(transport, cache, part, slot, options)?;
        if hint.is_some() && part.hint_bytes() > 0 {
            cache.succeed(slot, part)?;
        }
        Ok(hint)
    };
    description.parts().zip(&slots).map(hint).collect()
}

/// The hint of a part, from the cache or the server; `None` if the server has another one by now.
fn hint(
    transport: &Transport,
    cache: &Cache,
    wanted: &DatabasePart,
    slot: &str,
    options: &ClientOptions,
) -> Result<Option<Hint>, ClientError> {
    let (bytes, limit) = (wanted.hint_bytes(), options.max_hint_bytes);
    if bytes > limit {
        return Err(ClientError::HintTooLarge { bytes, limit });
    }
    if bytes == 0 {
        return wanted.hint(Vec::new()).map(Some);
    }
    if let Some(hint) = cache.load(wanted)? {
        return Ok(Some(hint));
    }
    let mut part = cache.begin(wanted)?;
    // Another process may have finished it while this one waited for its turn.
    if let Some(hint) = cache.load(wanted)? {
        return Ok(Some(hint));
    }
    if part.bytes() == 0
        && let Some(former) = cache.former(slot, wanted)
        && let Some(bytes) = patch(transport, wanted, former)
    {
        part.push(&bytes)?;
    }
    if !complete(transport, wanted, &mut part, options.progress.as_ref())? {
        return Ok(None);
    }
    match part.finish(wanted) {
        // A byte may have changed on the way, or on this disk long ago: once more, from the beginning.
        Err(ClientError::HintCorrupted) => {
            if !complete(transport, wanted, &mut part, options.progress.as_ref())? {
                return Ok(None);
            }
            part.finish(wanted).map(Some)
        }
        hint => hint.map(Some),
    }
}

/// The hint's bytes, from those of a former one and what has changed since; `None` if that is most of it, or cannot be
/// had. They are checked as a download is.
fn patch(transport: &Transport, wanted: &DatabasePart, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let rows = wanted.params().hint_rows()?;
    let list = transport.hint_rows(wanted, rows).ok()?;
    let ranges = merged(rows.differing(&bytes, &list).ok()?);
    if ranges.iter().map(|range| range.end - range.start).sum::<u64>() > wanted.hint_bytes() / PATCHED_SHARE {
        return None;
    }
    for Range { start, end } in ranges {
        let HintPart::Bytes { start: sent, body } = transport.hint(wanted, start, Some(end)).ok()? else {
            return None;
        };
        if sent != start {
            return None;
        }
        body.into_reader().read_exact(&mut bytes[start as usize..end as usize]).ok()?;
    }
    Some(bytes)
}

/// Ranges, those that are close to each other as one.
fn merged(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut merged = Vec::<Range<u64>>::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start - last.end <= REQUEST_BYTES => last.end = range.end,
            _ => merged.push(range),
        }
    }
    merged
}

/// Downloads what is missing; `false` if the server has another hint by now.
fn complete(
    transport: &Transport,
    wanted: &DatabasePart,
    part: &mut Part,
    progress: Option<&Progress>,
) -> Result<bool, ClientError> {
    let mut failures = 0;
    while part.bytes() < wanted.hint_bytes() {
        let before = part.bytes();
        match once(transport, wanted, part, progress) {
            Ok(unchanged) => {
                if !unchanged {
                    return Ok(false);
                }
            }
            Err(failure) => {
                // A connection that brings something each time gets there in the end.
                failures = if part.bytes() > before { 1 } else { failures + 1 };
                transport.pause(failure, failures)?;
            }
        }
    }
    Ok(true)
}

/// One request for what is missing; `false` if the server has another hint by now.
fn once(
    transport: &Transport,
    wanted: &DatabasePart,
    part: &mut Part,
    progress: Option<&Progress>,
) -> Result<bool, Failure> {
    let total = wanted.hint_bytes();
    let body = match transport.hint(wanted, part.bytes(), None)? {
        HintPart::Changed => return Ok(false),
        HintPart::OutOfRange => {
            part.cut(0).map_err(Failure::Final)?;
            let error = ClientError::Broken("the server has no such part of the hint".into());
            return Err(Failure::Again(error, None));
        }
        HintPart::Bytes { start, body } => {
            if start != part.bytes() {
                part.cut(start).map_err(Failure::Final)?;
            }
            body
        }
    };
    // Never more than the hint, whatever the server sends.
    let mut body = body.into_reader().take(total - part.bytes());
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match body.read(&mut chunk) {
            Ok(0) if part.bytes() < total => {
                return Err(Failure::Again(ClientError::Broken("the hint ended early".into()), None));
            }
            Ok(0) => return Ok(true),
            Ok(count) => {
                part.push(&chunk[..count]).map_err(Failure::Final)?;
                if let Some(progress) = progress {
                    progress(part.bytes(), total);
                }
            }
            Err(error) => return Err(Failure::Again(failed(ureq::Error::from(error)), None)),
        }
    }
}

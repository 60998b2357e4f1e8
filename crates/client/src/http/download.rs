//! The download of a hint: resumed where it broke off, checked before it is used.

use std::io::Read;

use super::cache::{Cache, Part};
use super::transport::{Failure, HintPart, Transport, failed};
use super::{ClientOptions, Progress};
use crate::{ClientError, Description, Hint, Part as DatabasePart};

/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// The hints of a version's parts, from the cache or the server; `None` if the server has others by now.
pub(super) fn hints(
    transport: &Transport,
    cache: &Cache,
    description: &Description,
    options: &ClientOptions,
) -> Result<Option<Vec<Hint>>, ClientError> {
    description.parts().map(|part| hint(transport, cache, part, options)).collect()
}

/// The hint of a part, from the cache or the server; `None` if the server has another one by now.
fn hint(
    transport: &Transport,
    cache: &Cache,
    wanted: &DatabasePart,
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
    let body = match transport.hint(wanted, part.bytes())? {
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

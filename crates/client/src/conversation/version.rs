//! Everything a client needs of a version before its first query: the configuration, agreed on and
//! accepted, and the hints. The download of a hint is resumed where it broke off. If there is a
//! former hint, the new hint is made by patching it. Hints are verified before use.

use std::ops::Range;
use std::time::Duration;

use spirea_protocols::signature::Pin;

use super::Servers;
use super::server::{Failure, HintPart, Server};
use crate::cache::{Download, HintCache};
use crate::{ClientError, Description, Hint, PartDescription, Policy};

/// Maximum number of fetches of a configuration while the database keeps changing.
const REFRESHES: u32 = 3;
/// Overhead of a request, in bytes: ranges of rows at most this far apart are fetched together,
/// with the rows between them.
const REQUEST_BYTES: u64 = 32 << 10;
/// A hint is patched if at most `1 / PATCHED_SHARE` of it has changed.
const PATCHED_SHARE: u64 = 2;
/// A download resets its count of failures only after it has gained `1 / FORGIVEN_SHARE` of the
/// hint since the last reset. So a download always ends, whatever each connection delivers.
const FORGIVEN_SHARE: u64 = 256;

/// Fetches the description of the servers' current version, if the policy accepts it, and its
/// hints.
pub(crate) async fn fetch(
    servers: &mut Servers,
    cache: &mut dyn HintCache,
    policy: &Policy,
) -> Result<(Description, Vec<Hint>), ClientError> {
    for refresh in 0..REFRESHES {
        if refresh > 0 {
            servers.first().back_off(refresh, Duration::ZERO).await?;
        }
        let description = servers.describe().await?;
        if let Some(key) = policy.pinned_key {
            let mut pin = Pin { key, sequence: cache.seen(description.name(), &key) };
            description.accept(&mut pin)?;
            cache.saw(description.name(), &pin)?;
        }
        if let Some(hints) = hints(servers, cache, &description, policy).await? {
            return Ok((description, hints));
        }
    }
    Err(ClientError::Changing)
}

/// Returns the hints of a version's parts, from the cache or the server; `None` if the server has
/// other hints by now.
async fn hints(
    servers: &mut Servers,
    cache: &mut dyn HintCache,
    description: &Description,
    policy: &Policy,
) -> Result<Option<Vec<Hint>>, ClientError> {
    let mut hints = Vec::new();
    for (part, slot) in description.parts().zip(["base", "delta"]) {
        let slot = format!("{}-{slot}", description.name());
        let Some(hint) = hint(servers.first(), cache, part, &slot, policy).await? else { return Ok(None) };
        if part.hint_bytes() > 0 {
            cache.succeed(&slot, part)?;
        }
        hints.push(hint);
    }
    Ok(Some(hints))
}

/// Returns the hint of a part, from the cache or the server; `None` if the server has another hint
/// by now.
async fn hint(
    server: &mut Server,
    cache: &mut dyn HintCache,
    wanted: &PartDescription,
    slot: &str,
    policy: &Policy,
) -> Result<Option<Hint>, ClientError> {
    let (bytes, limit) = (wanted.hint_bytes(), policy.max_hint_bytes);
    if bytes > limit {
        return Err(ClientError::HintTooLarge { bytes, limit });
    }
    if bytes == 0 {
        return wanted.hint(Vec::new()).map(Some);
    }
    if let Some(hint) = cache.load(wanted)? {
        return Ok(Some(hint));
    }
    let mut download = cache.begin(wanted)?;
    // Another process may have finished the download while this one waited for its turn.
    if let Some(hint) = cache.load(wanted)? {
        return Ok(Some(hint));
    }
    if download.bytes() == 0
        && let Some(former) = cache.former(slot, wanted)
        && let Some(bytes) = patch(server, wanted, former).await
    {
        download.push(&bytes)?;
    }
    if !complete(server, wanted, &mut *download, policy).await? {
        return Ok(None);
    }
    match download.finish(wanted) {
        // A byte may have been damaged in transit, or in the cache long ago: retries once from the
        // beginning.
        Err(ClientError::HintCorrupted) => {
            if !complete(server, wanted, &mut *download, policy).await? {
                return Ok(None);
            }
            download.finish(wanted).map(Some)
        }
        hint => hint.map(Some),
    }
}

/// Patches a former hint with the rows that have changed; `None` if most rows have changed or the
/// rows cannot be fetched. The result is verified as a download is.
async fn patch(server: &mut Server, wanted: &PartDescription, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let rows = wanted.params().hint_rows()?;
    let list = server.hint_rows(wanted, rows).await.ok()?;
    let ranges = merged(rows.differing(&bytes, &list).ok()?);
    if ranges.iter().map(|range| range.end - range.start).sum::<u64>() > wanted.hint_bytes() / PATCHED_SHARE {
        return None;
    }
    for Range { start, end } in ranges {
        match server.hint(wanted, start, Some(end)).await.ok()? {
            HintPart::Bytes { start: sent } if sent == start => (),
            _ => return None,
        }
        let mut missing = &mut bytes[start as usize..end as usize];
        while !missing.is_empty() {
            let piece = server.read().await.ok().filter(|piece| !piece.is_empty())?;
            let (now, later) = missing.split_at_mut(piece.len().min(missing.len()));
            now.copy_from_slice(&piece[..now.len()]);
            missing = later;
        }
    }
    Some(bytes)
}

/// Merges ranges that are close to each other.
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

/// Downloads the missing bytes; `false` if the server has another hint by now.
async fn complete(
    server: &mut Server,
    wanted: &PartDescription,
    download: &mut dyn Download,
    policy: &Policy,
) -> Result<bool, ClientError> {
    let forgiven = wanted.hint_bytes().div_ceil(FORGIVEN_SHARE);
    let (mut failures, mut reached) = (server.no_failures(), download.bytes());
    while download.bytes() < wanted.hint_bytes() {
        match once(server, wanted, download, policy).await {
            Ok(true) => (),
            Ok(false) => return Ok(false),
            Err(failure) => {
                if download.bytes() >= reached + forgiven {
                    (failures, reached) = (server.no_failures(), download.bytes());
                }
                server.pause(failure, &mut failures).await.map_err(|error| server.located(error))?;
            }
        }
    }
    Ok(true)
}

/// Makes one request for the missing bytes; `false` if the server has another hint by now.
async fn once(
    server: &mut Server,
    wanted: &PartDescription,
    download: &mut dyn Download,
    policy: &Policy,
) -> Result<bool, Failure> {
    let total = wanted.hint_bytes();
    match server.hint(wanted, download.bytes(), None).await? {
        HintPart::Changed => return Ok(false),
        HintPart::OutOfRange => {
            download.cut(0).map_err(Failure::Final)?;
            let error = ClientError::Broken("the server has no such part of the hint".into());
            return Err(Failure::Again(error, None));
        }
        HintPart::Bytes { start } if start != download.bytes() => {
            download.cut(start).map_err(Failure::Final)?;
        }
        HintPart::Bytes { .. } => (),
    }
    while download.bytes() < total {
        let mut piece = server.read().await?;
        if piece.is_empty() {
            return Err(Failure::Again(ClientError::Broken("the hint ended early".into()), None));
        }
        // The piece is truncated so that the download never exceeds the hint's length, whatever the
        // server sends.
        piece.truncate(usize::try_from(total - download.bytes()).unwrap_or(usize::MAX));
        download.push(&piece).map_err(Failure::Final)?;
        if let Some(progress) = &policy.progress {
            progress(download.bytes(), total);
        }
    }
    Ok(true)
}

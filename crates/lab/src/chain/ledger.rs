//! Versions of a service: the blocks that they contain, and the times of these blocks.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Deserialize;
use spirea_wire::Version;

use super::accounts::Height;

/// A version, as a stream's output and a server's list name it.
#[derive(Deserialize)]
pub struct Published {
    version: Version,
    sequence: u64,
    changes: u64,
    cursor: Option<String>,
}

impl Published {
    /// Number of the last block that the version contains.
    pub fn height(&self) -> Height {
        self.cursor.as_ref().and_then(|cursor| cursor.parse().ok()).unwrap_or(0)
    }
}

/// Everything known about the versions of a service.
#[derive(Default)]
pub struct Ledger(Mutex<State>);

#[derive(Default)]
struct State {
    heights: HashMap<Version, Height>,
    /// Number of changes since the base of each version, by sequence number.
    changes: BTreeMap<u64, u64>,
    newest: Height,
    sent: HashMap<Height, Instant>,
}

impl Ledger {
    /// Records that a block is sent to the stream now.
    pub fn send(&self, height: Height) {
        self.0.lock().sent.insert(height, Instant::now());
    }

    /// Returns the seconds since a block went to the stream.
    pub fn since(&self, height: Height) -> Option<f64> {
        self.0.lock().sent.get(&height).map(|sent| sent.elapsed().as_secs_f64())
    }

    /// Records a version.
    pub fn add(&self, published: &Published) {
        let mut state = self.0.lock();
        state.heights.insert(published.version, published.height());
        state.changes.insert(published.sequence, published.changes);
        state.newest = state.newest.max(published.height());
    }

    /// Returns the newest block of any version.
    pub fn newest(&self) -> Height {
        self.0.lock().newest
    }

    /// Returns the last block of a version, if the version is known.
    pub fn height(&self, version: &Version) -> Option<Height> {
        self.0.lock().heights.get(version).copied()
    }

    /// Returns the number of versions.
    pub fn versions(&self) -> usize {
        self.0.lock().changes.len()
    }

    /// Returns the number of compactions. Only a compaction reduces the number of changes since the
    /// base.
    pub fn compactions(&self) -> usize {
        let changes: Vec<u64> = self.0.lock().changes.values().copied().collect();
        changes.windows(2).filter(|pair| pair[1] < pair[0]).count()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn published(sequence: u64, changes: u64, cursor: Value) -> Published {
        let version = format!("{sequence:064x}");
        let version =
            json!({ "version": version, "sequence": sequence, "changes": changes, "cursor": cursor });
        serde_json::from_value(version).unwrap()
    }

    #[test]
    fn versions_have_their_blocks_and_compactions_show() {
        let ledger = Ledger::default();
        let versions = [(3, 12, json!("2")), (1, 0, Value::Null), (2, 9, json!("1")), (4, 3, json!("2"))];
        for (sequence, changes, cursor) in versions.clone().into_iter().chain(versions) {
            ledger.add(&published(sequence, changes, cursor));
        }
        let mut version = [0; 32];
        for (sequence, height) in [(1, Some(0)), (2, Some(1)), (3, Some(2)), (4, Some(2)), (5, None)] {
            version[31] = sequence;
            assert_eq!(ledger.height(&Version::new(version)), height);
        }
        assert_eq!((ledger.newest(), ledger.versions(), ledger.compactions()), (2, 4, 1));
    }
}

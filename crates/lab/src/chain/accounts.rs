//! Accounts of a chain and their states, which every block changes.

use std::collections::HashMap;
use std::io::{self, Write};

use chacha20::ChaCha20Rng;
use parking_lot::{RwLock, RwLockReadGuard};
use rand_core::{Rng, SeedableRng as _};
use serde_json::json;

/// Number of a block, from 1; 0 is the state before the first block.
pub type Height = u32;

/// Numbers from here on belong to accounts that never exist.
const NEVER: u64 = 1 << 40;
/// On average, one in `RARE` changes concerns a new account, and one in `RARE` deletes its account.
/// All other changes replace states.
const RARE: u64 = 16;

/// A block: the changed accounts, and true for each that is deleted.
#[derive(Clone)]
pub struct Block {
    /// Number of the block.
    pub height: Height,
    /// Changes, of different accounts.
    pub changes: Vec<(u64, bool)>,
}

/// The accounts in all states. An account's state is a text of the length `value_bytes` that
/// follows from the account and the block that wrote it, so that no two states are equal.
pub struct Accounts {
    first: u64,
    value_bytes: usize,
    history: RwLock<History>,
}

#[derive(Default)]
struct History {
    /// Number of accounts ever created.
    created: u64,
    /// For each changed account, its blocks in ascending order, and true where it was deleted.
    changes: HashMap<u64, Vec<(Height, bool)>>,
    blocks: Vec<Block>,
}

impl Accounts {
    /// Creates the state before the first block, of `first` accounts.
    pub fn new(first: u64, value_bytes: usize) -> Self {
        let history = History { created: first, ..History::default() };
        Self { first, value_bytes, history: RwLock::new(history) }
    }

    /// Number of accounts before the first block.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Writes the state before the first block, as CSV with the columns `account` and `state`.
    pub fn write_csv(&self, mut out: impl Write) -> io::Result<()> {
        writeln!(out, "account,state")?;
        (0..self.first).try_for_each(|account| writeln!(out, "{},{}", key(account), self.state(account, 0)))
    }

    /// Makes the next block, with `count` changes.
    pub fn next_block(&self, count: usize, rng: &mut ChaCha20Rng) -> Block {
        let mut history = self.history.write();
        let height = history.blocks.len() as Height + 1;
        let mut changes = Vec::with_capacity(count);
        while changes.len() < count {
            let account = match rng.next_u64() % RARE {
                0 => {
                    history.created += 1;
                    history.created - 1
                }
                _ => rng.next_u64() % history.created,
            };
            let earlier = history.changes.entry(account).or_default();
            if earlier.last().is_none_or(|&(last, _)| last < height) {
                let deleted = rng.next_u64().is_multiple_of(RARE);
                earlier.push((height, deleted));
                changes.push((account, deleted));
            }
        }
        let block = Block { height, changes };
        history.blocks.push(block.clone());
        block
    }

    /// Returns a block's lines for `spirea publish --stream`. The last one has the block's number
    /// as the cursor.
    pub fn lines(&self, block: &Block) -> Vec<u8> {
        let mut lines = Vec::new();
        for (i, &(account, deleted)) in block.changes.iter().enumerate() {
            let mut line = match deleted {
                true => json!({ "key": key(account), "deleted": true }),
                false => json!({ "key": key(account), "value": self.state(account, block.height) }),
            };
            if i + 1 == block.changes.len() {
                line["cursor"] = block.height.to_string().into();
            }
            lines.extend_from_slice(line.to_string().as_bytes());
            lines.push(b'\n');
        }
        lines
    }

    /// Draws an account to ask for: mostly one that the block `newest` changed, otherwise any
    /// account, or one that never exists.
    pub fn draw(&self, newest: Height, rng: &mut ChaCha20Rng) -> u64 {
        let history = self.read();
        let newest = newest.checked_sub(1).and_then(|before| history.blocks.get(before as usize));
        match (rng.next_u64() % 8, newest) {
            (0, _) => NEVER + rng.next_u64() % NEVER,
            (2.., Some(block)) => block.changes[(rng.next_u64() % block.changes.len() as u64) as usize].0,
            _ => rng.next_u64() % history.created,
        }
    }

    /// Returns an account's state after a block; `None` if the account does not exist then.
    pub fn state_at(&self, account: u64, height: Height) -> Option<String> {
        let history = self.read();
        let changes = history.changes.get(&account).map_or(&[][..], Vec::as_slice);
        match changes[..changes.partition_point(|&(at, _)| at <= height)].last() {
            Some(&(at, deleted)) => (!deleted).then(|| self.state(account, at)),
            None => (account < self.first).then(|| self.state(account, 0)),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, History> {
        self.history.read()
    }

    fn state(&self, account: u64, height: Height) -> String {
        let mut text = format!("{height} {account} ");
        for part in 0.. {
            if text.len() >= self.value_bytes {
                break;
            }
            text.push_str(&format!("{:016x}", mix(mix(account ^ u64::from(height) << 40) ^ part)));
        }
        text.truncate(self.value_bytes);
        text
    }
}

/// Returns the key of an account, in the form of an address.
pub fn key(account: u64) -> String {
    format!("0x{:016x}{:016x}{:08x}", mix(account), mix(!account), account as u32)
}

/// Permutes the 64-bit numbers by the finalizer of splitmix64 (Steele, Lea and Flood, 2014).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Returns a generator of blocks or questions.
pub fn generator(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    /// Applies lines to a table as a reader of the stream would.
    fn apply(table: &mut BTreeMap<String, String>, lines: &[u8]) -> Option<String> {
        let mut cursor = None;
        for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            assert_eq!(cursor, None, "only the last line has a cursor");
            let line: Value = serde_json::from_slice(line).unwrap();
            let key = line["key"].as_str().unwrap().to_owned();
            match line["value"].as_str() {
                Some(value) => table.insert(key, value.into()),
                None => table.remove(&key),
            };
            cursor = line["cursor"].as_str().map(str::to_owned);
        }
        cursor
    }

    #[test]
    fn states_are_those_of_a_table_with_the_blocks_applied() {
        let accounts = Accounts::new(50, 40);
        let mut csv = Vec::new();
        accounts.write_csv(&mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        let rows = csv.lines().skip(1).map(|line| line.split_once(',').unwrap());
        let mut table: BTreeMap<String, String> =
            rows.map(|(key, state)| (key.into(), state.into())).collect();
        assert_eq!(table.len(), 50);
        let mut states = vec![table.clone()];
        let mut rng = generator(1);
        for height in 1..=30 {
            let block = accounts.next_block(20, &mut rng);
            assert_eq!((block.height, block.changes.len()), (height, 20));
            assert_eq!(apply(&mut table, &accounts.lines(&block)), Some(height.to_string()));
            states.push(table.clone());
        }
        assert!(table.len() != 50 && table.values().all(|state| state.len() == 40));
        for (height, table) in (0..).zip(&states) {
            for account in (0..200).chain([NEVER]) {
                assert_eq!(accounts.state_at(account, height).as_ref(), table.get(&key(account)));
            }
        }
    }

    #[test]
    fn most_questions_are_for_the_newest_block() {
        let (accounts, mut rng) = (Accounts::new(100_000, 40), generator(2));
        assert!((0..100).all(|_| accounts.draw(0, &mut rng) < 2 * NEVER));
        accounts.next_block(10, &mut rng);
        let newest = accounts.next_block(10, &mut rng);
        let mut counts = [0; 3];
        for _ in 0..1000 {
            let account = accounts.draw(2, &mut rng);
            let is_new = newest.changes.iter().any(|&(changed, _)| changed == account);
            counts[if account >= NEVER { 0 } else { 1 + usize::from(is_new) }] += 1;
        }
        assert!(counts[0] > 50 && counts[1] > 50 && counts[2] > 600, "{counts:?}");
    }
}

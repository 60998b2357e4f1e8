use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// How much there is of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Sets of keys.
    pub sets: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Entries within a budget: the least recently used leave first.
pub(super) struct Lru<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// Keys by when they were last used, in ticks of `now`.
    order: BTreeMap<u64, K>,
    now: u64,
    bytes: u64,
    budget: Amount,
}

struct Entry<V> {
    value: V,
    bytes: u64,
    used: u64,
}

impl<K: Copy + Eq + Hash, V> Lru<K, V> {
    pub fn new(budget: Amount) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), now: 0, bytes: 0, budget }
    }

    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// The value, which now is the most recently used.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        self.order.remove(&entry.used);
        self.now += 1;
        entry.used = self.now;
        self.order.insert(self.now, *key);
        Some(&entry.value)
    }

    /// Takes an entry in, in place of any of its key, and gives those that had to leave; `None` if it alone
    /// exceeds the budget.
    pub fn insert(&mut self, key: K, value: V, bytes: u64) -> Option<Vec<(K, V)>> {
        if bytes > self.budget.bytes || self.budget.sets == 0 {
            return None;
        }
        let mut gone: Vec<(K, V)> = self.remove(&key).map(|value| (key, value)).into_iter().collect();
        while self.entries.len() >= self.budget.sets || self.bytes > self.budget.bytes - bytes {
            let Some((_, &oldest)) = self.order.first_key_value() else { break };
            gone.extend(self.remove(&oldest).map(|value| (oldest, value)));
        }
        self.now += 1;
        self.order.insert(self.now, key);
        self.entries.insert(key, Entry { value, bytes, used: self.now });
        self.bytes += bytes;
        Some(gone)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.used);
        self.bytes -= entry.bytes;
        Some(entry.value)
    }

    pub fn amount(&self) -> Amount {
        Amount { sets: self.entries.len(), bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(outcome: Option<Vec<(u8, ())>>) -> Vec<u8> {
        outcome.unwrap().into_iter().map(|(key, ())| key).collect()
    }

    #[test]
    fn the_least_recently_used_leave_first_by_bytes_and_by_number() {
        let mut lru = Lru::new(Amount { sets: 3, bytes: 10 });
        for key in [1, 2, 3] {
            assert!(gone(lru.insert(key, (), 3)).is_empty());
        }
        assert!(lru.get(&1).is_some());
        assert_eq!(gone(lru.insert(4, (), 1)), [2]);
        assert_eq!(lru.amount(), Amount { sets: 3, bytes: 7 });
        assert_eq!(gone(lru.insert(5, (), 9)), [3, 1]);
        assert_eq!(lru.amount(), Amount { sets: 2, bytes: 10 });
        assert!(lru.get(&1).is_none() && lru.contains(&4));
    }

    #[test]
    fn what_exceeds_the_budget_alone_moves_nothing() {
        let mut lru = Lru::new(Amount { sets: 3, bytes: 10 });
        lru.insert(1, (), 10);
        assert!(lru.insert(2, (), 11).is_none());
        assert_eq!(lru.amount(), Amount { sets: 1, bytes: 10 });
        assert!(Lru::new(Amount { sets: 0, bytes: 10 }).insert(1, (), 0).is_none());
    }

    #[test]
    fn an_entry_is_replaced_and_removed() {
        let mut lru = Lru::new(Amount { sets: 3, bytes: 10 });
        lru.insert(1, 'a', 6);
        assert_eq!(lru.insert(1, 'b', 7), Some(vec![(1, 'a')]));
        assert_eq!(lru.get(&1), Some(&'b'));
        assert_eq!(lru.amount(), Amount { sets: 1, bytes: 7 });
        assert_eq!(lru.remove(&1), Some('b'));
        assert_eq!((lru.remove(&1), lru.amount()), (None, Amount::default()));
    }
}

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, SystemTime};

use super::id::KeyOwner;
use super::usage::{Amount, Departures};

/// Limits on the entries held.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Limit on all entries together.
    pub all: Amount,
    /// Limit on the entries of one owner; a single entry may exceed it.
    pub owner: Amount,
    /// Time after which an unused entry expires.
    pub expiry: Duration,
}

/// Map of entries within a budget. The least recently used entries leave first; an owner who
/// exceeds the owner's limit loses only his own entries.
pub struct Lru<K, V> {
    entries: HashMap<K, Entry<V>>,
    all: Held<K>,
    owners: HashMap<KeyOwner, Held<K>>,
    now: u64,
    budget: Budget,
    departures: Departures,
}

struct Entry<V> {
    value: V,
    bytes: u64,
    owner: Option<KeyOwner>,
    /// Last use: its place in the order, in ticks of `now`, and its time.
    tick: u64,
    used: SystemTime,
}

/// Entries ordered by their last use, in ticks.
struct Held<K> {
    order: BTreeMap<u64, K>,
    amount: Amount,
}

impl<K> Default for Held<K> {
    fn default() -> Self {
        Self { order: BTreeMap::new(), amount: Amount::default() }
    }
}

impl<K: Copy> Held<K> {
    fn oldest(&self) -> Option<K> {
        self.order.first_key_value().map(|(_, &key)| key)
    }

    fn moved(&mut self, from: u64, to: u64) {
        if let Some(key) = self.order.remove(&from) {
            self.order.insert(to, key);
        }
    }

    fn add(&mut self, tick: u64, key: K, bytes: u64) {
        self.order.insert(tick, key);
        self.amount.add(bytes);
    }

    fn remove(&mut self, tick: u64, bytes: u64) {
        self.order.remove(&tick);
        self.amount.subtract(bytes);
    }
}

impl<K: Copy + Eq + Hash, V> Lru<K, V> {
    /// Creates an empty map.
    pub fn new(budget: Budget) -> Self {
        Self {
            entries: HashMap::new(),
            all: Held::default(),
            owners: HashMap::new(),
            now: 0,
            budget,
            departures: Departures::default(),
        }
    }

    /// Returns the value, unless it has expired, and makes it the most recently used.
    pub fn get(&mut self, key: &K, at: SystemTime) -> Option<&mut V> {
        let entry = self.entries.get_mut(key).filter(|entry| !expired(entry.used, at, self.budget.expiry))?;
        self.now += 1;
        self.all.moved(entry.tick, self.now);
        if let Some(held) = entry.owner.and_then(|owner| self.owners.get_mut(&owner)) {
            held.moved(entry.tick, self.now);
        }
        (entry.tick, entry.used) = (self.now, at);
        Some(&mut entry.value)
    }

    /// Returns true if the entry is present and has not expired.
    pub fn contains(&self, key: &K, at: SystemTime) -> bool {
        self.entries.get(key).is_some_and(|entry| !expired(entry.used, at, self.budget.expiry))
    }

    /// Returns the owner of the entry, if known.
    pub fn owner(&self, key: &K) -> Option<KeyOwner> {
        self.entries.get(key)?.owner
    }

    /// Inserts an entry with the time `used` of its last use; replaces an entry of the same key.
    /// Returns the entries that had to leave, or `None` if the entry alone exceeds the budget.
    pub fn insert(
        &mut self,
        key: K,
        value: V,
        bytes: u64,
        owner: Option<KeyOwner>,
        used: SystemTime,
    ) -> Option<Vec<(K, V)>> {
        if !Amount::default().admits(bytes, self.budget.all) {
            return None;
        }
        let mut gone: Vec<(K, V)> = self.remove(&key).map(|value| (key, value)).into_iter().collect();
        let replaced = gone.len();
        while let Some(held) = owner.and_then(|owner| self.owners.get(&owner))
            && !held.amount.admits(bytes, self.budget.owner)
        {
            gone.extend(self.pop(held.oldest()));
        }
        while !self.all.amount.admits(bytes, self.budget.all) {
            gone.extend(self.pop(self.all.oldest()));
        }
        self.departures.evicted += (gone.len() - replaced) as u64;
        self.now += 1;
        self.all.add(self.now, key, bytes);
        if let Some(owner) = owner {
            self.owners.entry(owner).or_default().add(self.now, key, bytes);
        }
        self.entries.insert(key, Entry { value, bytes, owner, tick: self.now, used });
        Some(gone)
    }

    /// Removes and returns the entries that have expired.
    pub fn expire(&mut self, at: SystemTime) -> Vec<(K, V)> {
        let mut gone = Vec::new();
        // Entries are ordered by their use, so the first unexpired entry ends the search.
        while let Some(oldest) = self.all.oldest()
            && !self.contains(&oldest, at)
        {
            gone.extend(self.pop(Some(oldest)));
        }
        self.departures.expired += gone.len() as u64;
        gone
    }

    /// Removes and returns an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let Entry { value, bytes, owner, tick, .. } = self.entries.remove(key)?;
        self.all.remove(tick, bytes);
        if let Some(owner) = owner
            && let Some(held) = self.owners.get_mut(&owner)
        {
            held.remove(tick, bytes);
            if held.amount.sets == 0 {
                self.owners.remove(&owner);
            }
        }
        Some(value)
    }

    fn pop(&mut self, key: Option<K>) -> Option<(K, V)> {
        let key = key?;
        self.remove(&key).map(|value| (key, value))
    }

    /// Returns the bytes of the entries whose keys satisfy `certain`.
    pub fn bytes_of(&self, certain: impl Fn(&K) -> bool) -> u64 {
        self.entries.iter().filter(|(key, _)| certain(key)).map(|(_, entry)| entry.bytes).sum()
    }

    /// Returns the number and the bytes of all entries.
    pub fn amount(&self) -> Amount {
        self.all.amount
    }

    /// Returns the numbers of entries that were evicted and that expired.
    pub fn departures(&self) -> Departures {
        self.departures
    }
}

/// Returns true if an entry last used at `used` has expired at `now`. If `used` is later than
/// `now`, because the clock was set back, the entry has not expired.
pub(super) fn expired(used: SystemTime, now: SystemTime, expiry: Duration) -> bool {
    now.duration_since(used).is_ok_and(|idle| idle >= expiry)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: SystemTime = SystemTime::UNIX_EPOCH;
    const ANY: Amount = Amount { sets: usize::MAX, bytes: u64::MAX };

    fn lru<V>(sets: usize, bytes: u64) -> Lru<u8, V> {
        let all = Amount { sets, bytes };
        Lru::new(Budget { all, owner: ANY, expiry: Duration::from_secs(100) })
    }

    fn after(seconds: u64) -> SystemTime {
        START + Duration::from_secs(seconds)
    }

    fn keys<V>(gone: Vec<(u8, V)>) -> Vec<u8> {
        gone.into_iter().map(|(key, _)| key).collect()
    }

    /// Inserts an entry without an owner; returns the keys of the entries that had to leave.
    fn insert(lru: &mut Lru<u8, ()>, key: u8, bytes: u64) -> Option<Vec<u8>> {
        lru.insert(key, (), bytes, None, START).map(keys)
    }

    #[test]
    fn the_least_recently_used_leave_first_by_bytes_and_by_number() {
        let mut lru = lru(3, 10);
        for key in [1, 2, 3] {
            assert_eq!(insert(&mut lru, key, 3), Some(vec![]));
        }
        assert!(lru.get(&1, START).is_some());
        assert_eq!(insert(&mut lru, 4, 1), Some(vec![2]));
        assert_eq!(lru.amount(), Amount { sets: 3, bytes: 7 });
        assert_eq!(insert(&mut lru, 5, 9), Some(vec![3, 1]));
        assert_eq!(lru.amount(), Amount { sets: 2, bytes: 10 });
        assert!(lru.get(&1, START).is_none() && lru.contains(&4, START));
    }

    #[test]
    fn what_exceeds_the_budget_alone_moves_nothing() {
        let mut three = lru(3, 10);
        insert(&mut three, 1, 10);
        assert_eq!(insert(&mut three, 2, 11), None);
        assert_eq!(three.amount(), Amount { sets: 1, bytes: 10 });
        assert_eq!(insert(&mut lru(0, 10), 1, 0), None);
    }

    #[test]
    fn an_entry_is_replaced_and_removed() {
        let mut lru = lru(3, 10);
        lru.insert(1, 'a', 6, None, START);
        assert_eq!(lru.insert(1, 'b', 7, None, START), Some(vec![(1, 'a')]));
        assert_eq!(lru.get(&1, START), Some(&mut 'b'));
        assert_eq!(lru.amount(), Amount { sets: 1, bytes: 7 });
        assert_eq!(lru.remove(&1), Some('b'));
        assert_eq!((lru.remove(&1), lru.amount()), (None, Amount::default()));
    }

    #[test]
    fn an_owner_who_exceeds_his_part_displaces_his_own_alone() {
        let [one, two] = [b"one", b"two"].map(|name| Some(KeyOwner::new(name)));
        let owner = Amount { sets: 2, bytes: 10 };
        let mut lru =
            Lru::new(Budget { all: Amount { sets: 4, bytes: 100 }, owner, expiry: Duration::from_secs(100) });
        let mut insert = |key, bytes, owner| lru.insert(key, (), bytes, owner, START).map(keys);
        for (key, owner) in [(1, two), (2, one), (3, one)] {
            assert_eq!(insert(key, 1, owner), Some(vec![]));
        }
        // Tests the limits by number and by bytes, then a single entry that alone exceeds the
        // owner's limit.
        assert_eq!(insert(4, 1, one), Some(vec![2]));
        assert_eq!(insert(5, 10, one), Some(vec![3, 4]));
        assert_eq!(insert(6, 30, one), Some(vec![5]));
        // The limit on all entries removes the oldest, of any owner.
        for (key, gone) in [(7, vec![]), (8, vec![]), (9, vec![1])] {
            assert_eq!(insert(key, 1, None), Some(gone));
        }
        assert!(lru.owner(&6) == one && lru.owner(&9).is_none());
        assert_eq!(lru.owners.len(), 1);
    }

    #[test]
    fn what_nobody_uses_expires() {
        let mut lru = lru(3, 10);
        for (key, used) in [(1, 0), (2, 10), (3, 20)] {
            lru.insert(key, (), 1, None, after(used));
        }
        assert!(lru.get(&1, after(99)).is_some());
        assert!(lru.contains(&2, after(109)) && !lru.contains(&2, after(110)));
        assert!(lru.get(&2, after(110)).is_none());
        assert_eq!(keys(lru.expire(after(110))), [2]);
        assert!(lru.expire(after(119)).is_empty());
        // After the clock is set back, no entry counts as expired.
        assert!(lru.get(&3, START).is_some());
        assert!(lru.expire(START).is_empty());
        assert_eq!(keys(lru.expire(after(199))), [1, 3]);
        assert_eq!(lru.amount(), Amount::default());
    }
}

//! Places of the deltas of former versions that were opened again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spirea_engine::Database;
use spirea_protocols::Version;
use tokio::sync::watch;

/// Maximum number of deltas of former versions that a server keeps open on request at the same
/// time.
const MOST_OPEN: usize = 2;
/// Time without a request after which the memory of a delta opened on request is released.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// Result of opening a value; `None` while it is being opened.
pub(super) type Outcome<T> = Option<Result<Arc<T>, String>>;
/// Receiver of a result. If the caller has to open the value, also the sender of the result.
pub(super) type Entered<T> = (watch::Receiver<Outcome<T>>, Option<watch::Sender<Outcome<T>>>);

/// Values that were opened on request, by version.
pub(super) struct Former<T = Database> {
    slots: Mutex<HashMap<Version, Slot<T>>>,
}

struct Slot<T> {
    outcome: watch::Receiver<Outcome<T>>,
    /// Time of the latest request.
    used: Instant,
}

impl<T> Slot<T> {
    /// Returns true if the value could not be opened, or its thread ended without an outcome.
    fn has_failed(&self) -> bool {
        match &*self.outcome.borrow() {
            Some(outcome) => outcome.is_err(),
            None => self.outcome.has_changed().is_err(),
        }
    }

    /// Returns true if the value could not be opened, or is open and no request holds it.
    fn is_idle(&self) -> bool {
        let is_unused = |value: &Arc<T>| Arc::strong_count(value) == 1;
        self.has_failed() || matches!(&*self.outcome.borrow(), Some(Ok(value)) if is_unused(value))
    }
}

impl<T> Default for Former<T> {
    fn default() -> Self {
        Self { slots: Mutex::default() }
    }
}

impl<T> Former<T> {
    /// Returns the outcome of opening a value; `None` if other values in use take all places.
    pub fn enter(&self, version: Version, now: Instant) -> Option<Entered<T>> {
        let mut released = None;
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get_mut(&version).filter(|slot| !slot.has_failed()) {
            slot.used = now;
            return Some((slot.outcome.clone(), None));
        }
        slots.remove(&version);
        if slots.len() >= MOST_OPEN {
            let idle = slots.iter().filter(|(_, slot)| slot.is_idle());
            let longest = idle.min_by_key(|(_, slot)| slot.used).map(|(version, _)| *version)?;
            released = slots.remove(&longest);
        }
        let (sender, outcome) = watch::channel(None);
        slots.insert(version, Slot { outcome: outcome.clone(), used: now });
        drop(slots);
        // Gigabytes may be released here, so no lock is held.
        drop(released);
        Some((outcome, Some(sender)))
    }

    /// Releases the values that no request holds and no request has asked for during the time
    /// `idle`.
    pub fn release(&self, now: Instant, idle: Duration) {
        let left = |slot: &Slot<T>| slot.is_idle() && now.duration_since(slot.used) >= idle;
        let released: Vec<_> = self.slots.lock().extract_if(|_, slot| left(slot)).collect();
        drop(released);
    }

    /// Forgets all values. Requests keep the values that they hold.
    pub fn clear(&self) {
        let cleared = std::mem::take(&mut *self.slots.lock());
        drop(cleared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Version = Version::new([1; 32]);
    const TWO: Version = Version::new([2; 32]);
    const THREE: Version = Version::new([3; 32]);

    #[test]
    fn a_value_is_opened_once_for_all_who_ask() {
        let former = Former::<u32>::default();
        let now = Instant::now();
        let (first, sender) = former.enter(ONE, now).unwrap();
        let (second, none) = former.enter(ONE, now).unwrap();
        assert!(none.is_none() && first.borrow().is_none());
        let sender = sender.unwrap();
        sender.send_replace(Some(Ok(Arc::new(7))));
        assert!([first, second].iter().all(|outcome| *outcome.borrow() == Some(Ok(Arc::new(7)))));
        assert!(former.enter(ONE, now).unwrap().1.is_none());
    }

    #[test]
    fn no_more_are_open_than_allowed_and_the_longest_idle_leaves() {
        let former = Former::<u32>::default();
        let start = Instant::now();
        let senders = [ONE, TWO].map(|version| former.enter(version, start).unwrap().1.unwrap());
        assert!(former.enter(THREE, start).is_none(), "both are being opened");
        senders.iter().for_each(|sender| drop(sender.send_replace(Some(Ok(Arc::new(1))))));
        let used = former.enter(TWO, start + IDLE).unwrap().0.borrow().clone();
        let held = former.enter(ONE, start + IDLE * 2).unwrap().0.borrow().clone();
        assert!(former.enter(THREE, start).is_none(), "requests have both");
        drop((used, held));
        assert!(former.enter(THREE, start).unwrap().1.is_some());
        assert!(former.enter(ONE, start).unwrap().1.is_none(), "it was asked later");
    }

    #[test]
    fn idle_values_are_released_and_failed_ones_opened_again() {
        let former = Former::<u32>::default();
        let start = Instant::now();
        let sender = former.enter(ONE, start).unwrap().1.unwrap();
        former.release(start + IDLE * 2, IDLE);
        assert!(former.enter(ONE, start).unwrap().1.is_none(), "it is being opened");
        let value = Arc::new(1);
        let weak = Arc::downgrade(&value);
        sender.send_replace(Some(Ok(value)));
        former.release(start + IDLE / 2, IDLE);
        assert!(weak.upgrade().is_some());
        former.release(start + IDLE, IDLE);
        drop(sender);
        assert!(weak.upgrade().is_none());

        let sender = former.enter(ONE, start).unwrap().1.unwrap();
        sender.send_replace(Some(Err("gone".into())));
        assert!(former.enter(ONE, start).unwrap().1.is_some());
    }
}

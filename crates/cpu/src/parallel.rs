//! Parallel loops that call their bodies through a pointer.
//!
//! rayon compiles a loop anew for each body, and a kernel's body exists for every instruction set,
//! ring and number of halves. With direct calls, rayon's code was 45% of this crate's code. An item
//! takes microseconds, so a call through a pointer costs nothing in comparison.

use rayon::iter::FromParallelIterator;
use rayon::prelude::*;

/// Loops over the items of a parallel iterator.
pub(crate) trait Each: IndexedParallelIterator {
    /// Calls `body` for each item.
    fn each(self, body: &(dyn Fn(Self::Item) + Sync)) {
        self.for_each(body);
    }

    /// Calls `body` for each item with a state that `init` creates for each run of items on one
    /// thread.
    fn each_with<T>(self, init: &(dyn Fn() -> T + Sync), body: &(dyn Fn(&mut T, Self::Item) + Sync)) {
        self.for_each_init(init, |state, item| body(state, item));
    }

    /// Collects the results of `body`, in the order of the items.
    fn collected<T: Send, C: FromParallelIterator<T>>(self, body: &(dyn Fn(Self::Item) -> T + Sync)) -> C {
        self.map(body).collect()
    }

    /// Collects the results of `body`, in the order of the items, with a state that `init` creates
    /// for each run of items on one thread.
    fn collected_with<S, T: Send, C: FromParallelIterator<T>>(
        self,
        init: &(dyn Fn() -> S + Sync),
        body: &(dyn Fn(&mut S, Self::Item) -> T + Sync),
    ) -> C {
        self.map_init(init, |state, item| body(state, item)).collect()
    }
}

impl<I: IndexedParallelIterator> Each for I {}

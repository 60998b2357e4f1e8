//! Keys that are made before the present ones are over.

use spirea_wire::Part;

use crate::{ClientError, NextKeys, Session};

impl Session {
    /// Tells if it is time to make the [`next_keys`](Self::next_keys): the present ones have an eighth of their queries or of their time
    /// left, and none are there to follow them. This follows from no answer.
    pub fn wants_next_keys(&self) -> bool {
        let now = self.clock().now();
        self.askers().any(|asker| asker.is_nearly_used_up(now)) && !self.next().are_usable(now)
    }

    /// Makes the keys for the time after the present ones, when called: it takes up to a second or two, and any thread can do it. The
    /// session knows nothing of them before [`go_on_with`](Self::go_on_with).
    ///
    /// # Errors
    /// [`ClientError::NoEntropy`] if the system gives no randomness.
    pub fn next_keys(&self) -> impl FnOnce() -> Result<NextKeys, ClientError> + Send + use<> {
        let (clock, version) = (self.clock().clone(), *self.description().version());
        let parts = self.description().parts().zip([Part::Base, Part::Delta]);
        let parts: Vec<_> = parts.map(|(description, part)| (part, description.params().clone())).collect();
        move || NextKeys::make(version, &parts, &clock)
    }
}

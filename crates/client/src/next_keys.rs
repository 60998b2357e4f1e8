//! Evaluation keys that are made before the present ones are over.

use spirea_wire::Part;

use crate::{ClientError, NextKeys, Session};

impl Session {
    /// Returns true if it is time to make the [`next_keys`](Self::next_keys): the present keys have
    /// an eighth of their queries or of their time left, and no others are ready. No answer affects
    /// this.
    pub fn wants_next_keys(&self) -> bool {
        let now = self.clock().now();
        self.askers().any(|asker| asker.is_nearly_used_up(now)) && !self.next().are_usable(now)
    }

    /// Returns a function that makes the keys for the time after the present ones. The function
    /// takes up to two seconds and may run on any thread. The session uses the keys after
    /// [`go_on_with`](Self::go_on_with).
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

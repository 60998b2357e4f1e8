//! One test body for every backend and protocol.

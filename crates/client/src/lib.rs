//! The client: sessions, hint cache, transport and retries.

use parking_lot::MutexGuard;

/// Reservation for a database on devices that other databases share: memory for one batch at a
/// time, and for clients' keys. The database holds it for its lifetime.
pub trait Reservation: Send + Sync {
    /// Waits for the devices. A batch holds the turn until it is answered, and a client's keys hold
    /// it until they are prepared.
    fn compute_turn(&self) -> ComputeTurn<'_>;

    /// Returns true if there is room for a client's keys in addition to the room for batches. The
    /// caller must hold the turn. Keys dropped from the registry also take room while requests
    /// still need them.
    fn has_room_for_keys(&self) -> bool;
}

/// Turn on shared devices, held by one caller at a time; it ends when dropped.
pub type ComputeTurn<'t> = MutexGuard<'t, ()>;

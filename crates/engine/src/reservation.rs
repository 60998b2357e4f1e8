use std::sync::MutexGuard;

/// What is reserved for a database on devices that it shares with others: memory for one batch at a time, and for
/// clients' keys. Held for as long as the database is.
pub trait Reservation: Send + Sync {
    /// Waits for the devices. A batch has them until it is answered, and a client's keys until they are prepared.
    fn compute_turn(&self) -> ComputeTurn<'_>;

    /// Whether there is room for a client's keys beside that for batches; asked by who has the turn. Keys that were
    /// dropped while requests still need them take room, too.
    fn has_room_for_keys(&self) -> bool;
}

/// The turn of whoever computes on shared devices, one at a time; it ends when it is dropped.
pub type ComputeTurn<'t> = MutexGuard<'t, ()>;

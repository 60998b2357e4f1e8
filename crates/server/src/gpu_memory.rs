//! Memory accounting on GPUs: a database is loaded only if there is room for its queries and for
//! the queries of all other databases.
//!
//! Loaded tables and computations have separate memory. A device's pool serves computations. It has
//! room for one batch at a time. Its size is that of the largest batch of any database, as measured
//! when the database was loaded. It also has room for clients' keys: those already registered and
//! those that may still come. This room is reserved before a database answers, and loading never
//! takes any of it, so a query always finds room.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use spirea_backend::{BackendError, BackendId};
use spirea_cuda::driver::{Device, DriverError, PoolWatch};
use spirea_engine::{ComputeTurn, Database, LoadError, Reservation};

/// Memory budget of clients' keys.
pub(crate) struct KeyBudget {
    /// Maximum bytes of all keys.
    pub most: u64,
    /// Function that returns the bytes of the keys prepared for given backends.
    pub prepared: PreparedBytes,
}

/// Bytes of prepared keys, by backends.
type PreparedBytes = Box<dyn Fn(&[BackendId]) -> u64 + Send + Sync>;

/// Memory of the GPUs that answer.
pub(crate) struct GpuMemory {
    devices: Vec<Arc<Device>>,
    keys: KeyBudget,
    turn: Mutex<()>,
    reservations: Mutex<Vec<Weak<GpuReservation>>>,
}

/// Memory that a database needs besides its tables.
struct GpuReservation {
    memory: Arc<GpuMemory>,
    /// Working memory of the largest batch, in bytes, on each device.
    working: Vec<u64>,
    /// Bytes of one client's prepared keys.
    keys: u64,
    /// Backend for which keys are prepared.
    backend: BackendId,
}

impl Reservation for GpuReservation {
    fn compute_turn(&self) -> ComputeTurn<'_> {
        self.memory.turn.lock()
    }

    /// Between computations, only keys and buffers kept from batch to batch are in use.
    fn has_room_for_keys(&self) -> bool {
        let reservations = self.memory.reservations();
        self.memory.devices.iter().enumerate().all(|(member, device)| {
            // A device failure is reported by the next computation.
            device
                .pool_room()
                .map_or(true, |room| room >= working_bytes(&reservations, member) + 2 * self.keys)
        })
    }
}

impl GpuMemory {
    pub fn new(devices: Vec<Arc<Device>>, keys: KeyBudget) -> Arc<Self> {
        Arc::new(Self { devices, keys, turn: Mutex::default(), reservations: Mutex::default() })
    }

    /// Releases the reservations of dropped databases, then checks that tables of `bytes` fit on
    /// each device. Call before loading them.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] with the wanted and the free bytes.
    pub fn fits(&self, bytes: u64) -> Result<(), BackendError> {
        let reservations = self.reservations();
        for (member, device) in self.devices.iter().enumerate() {
            device.trim(self.pool_bytes(&reservations, member))?;
            let (free, total) = device.memory()?;
            if bytes > free as u64 {
                let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
                return Err(DriverError::OutOfMemory { wanted, free, total }.into());
            }
        }
        Ok(())
    }

    /// Rehearses a database whose tables are loaded, and reserves memory for its queries, in
    /// addition to the reservations of all other databases.
    ///
    /// # Errors
    /// Those of the rehearsal; [`BackendError::Unavailable`] with the wanted and the free bytes.
    pub fn reserve(self: &Arc<Self>, database: &Database) -> Result<Arc<dyn Reservation>, LoadError> {
        // The turn excludes other computations, so the watches see this database's allocations
        // only.
        let _turn = self.turn.lock();
        let watches = self.devices.iter().map(Device::watch).collect::<Result<Vec<_>, _>>();
        let watches = watches.map_err(|error| refused(error.into()))?;
        let keys = database.rehearse()?;
        if keys > self.keys.most {
            let most = self.keys.most;
            return Err(refused(BackendError::Unavailable(format!(
                "one client's keys take {keys} bytes and the keys of all may take {most}: allow more memory for keys"
            ))));
        }
        let working = watches.iter().map(PoolWatch::passing_bytes).collect::<Result<_, _>>();
        let working = working.map_err(|error| refused(error.into()))?;
        let backend = database.identity().backend;
        let reservation = Arc::new(GpuReservation { memory: Arc::clone(self), working, keys, backend });
        let mut reservations = self.reservations();
        reservations.push(Arc::clone(&reservation));
        for (member, device) in self.devices.iter().enumerate() {
            device.reserve(self.pool_bytes(&reservations, member)).map_err(|error| refused(error.into()))?;
        }
        self.reservations.lock().push(Arc::downgrade(&reservation));
        Ok(reservation)
    }

    /// Returns the bytes that a device's pool needs beyond its current use: one batch of the
    /// largest database, and keys. Preparing a client's keys takes twice their size; a third time
    /// their size covers the rounding of allocations.
    fn pool_bytes(&self, reservations: &[Arc<GpuReservation>], member: usize) -> u64 {
        let keys = match reservations.iter().map(|reservation| reservation.keys).max() {
            None | Some(0) => 0,
            Some(keys) => {
                let backends: Vec<BackendId> =
                    reservations.iter().map(|reservation| reservation.backend).collect();
                let further = self.keys.most.saturating_sub((self.keys.prepared)(&backends));
                further.saturating_add(3 * keys)
            }
        };
        working_bytes(reservations, member).saturating_add(keys)
    }

    /// Returns the reservations of databases that still exist.
    fn reservations(&self) -> Vec<Arc<GpuReservation>> {
        let mut reservations = self.reservations.lock();
        reservations.retain(|reservation| reservation.strong_count() > 0);
        reservations.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Returns the bytes that the largest batch of these databases takes on one device.
fn working_bytes(reservations: &[Arc<GpuReservation>], member: usize) -> u64 {
    reservations.iter().map(|reservation| reservation.working[member]).max().unwrap_or(0)
}

fn refused(error: BackendError) -> LoadError {
    LoadError::Protocol(error.into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use spirea_backend::{Backend as _, NaiveBackend};
    use spirea_cuda::driver::Buffer;
    use spirea_cuda_emulation::{Config, Emulation};
    use spirea_protocols::registry::ProtocolParams;
    use spirea_protocols::{PreparedKeys, ProtocolError, Query, Responder, Sizes};
    use spirea_specimens::VERSION;

    use super::*;

    /// Unit of memory in these tests, in bytes.
    const UNIT: u64 = 64 << 10;
    /// Memory of a device, in units.
    const MEMORY: u64 = 64;

    /// Runs a test on two emulated devices, one test at a time.
    fn emulated(test: impl FnOnce([Arc<Device>; 2])) {
        let config = Config { devices: 2, memory: MEMORY * UNIT, ..Config::default() };
        Emulation::install(config)
            .with(config, || test([0, 1].map(|ordinal| Device::open(ordinal).unwrap())));
    }

    fn alloc(device: &Arc<Device>, units: u64) -> Result<Buffer<u8>, BackendError> {
        Ok(device.alloc((units * UNIT) as usize)?)
    }

    /// Units that a database takes on a device.
    #[derive(Clone, Copy)]
    struct Needs {
        tables: u64,
        working: u64,
        keys: u64,
    }

    /// A database that computes nothing but allocates memory.
    struct Scripted {
        device: Arc<Device>,
        params: ProtocolParams,
        needs: Needs,
        _tables: Buffer<u8>,
    }

    impl Responder for Scripted {
        fn sizes(&self) -> Sizes {
            self.params.sizes
        }

        fn max_batch(&self) -> usize {
            1
        }

        fn prepare_keys(&self, _: &[u8]) -> Result<PreparedKeys, ProtocolError> {
            let keys = alloc(&self.device, self.needs.keys)?;
            Ok(PreparedKeys::new(Arc::new(keys), (self.needs.keys * UNIT) as usize))
        }

        fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
            alloc(&self.device, self.needs.working)?;
            Ok(vec![vec![0; self.sizes().answer_bytes]; queries.len()])
        }
    }

    fn open(device: &Arc<Device>, needs: Needs) -> Result<Database, LoadError> {
        let tables = device.hold((needs.tables * UNIT) as usize);
        let tables = tables.map_err(|error| refused(error.into()))?;
        let protocol = if needs.keys > 0 { "exppack-simple" } else { "simple" };
        let params = spirea_specimens::params(protocol);
        let identity = spirea_specimens::identity("scripted", VERSION, &params);
        let responder = Scripted { device: Arc::clone(device), params, needs, _tables: tables };
        Database::new(identity, Box::new(responder))
    }

    fn load(memory: &Arc<GpuMemory>, device: &Arc<Device>, needs: Needs) -> Result<Database, LoadError> {
        memory.fits(needs.tables * UNIT).map_err(refused)?;
        let database = open(device, needs)?;
        let reservation = memory.reserve(&database)?;
        Ok(database.with_reservation(reservation))
    }

    fn no_keys() -> KeyBudget {
        KeyBudget { most: 0, prepared: Box::new(|_| panic!("nobody needs keys")) }
    }

    #[test]
    fn room_for_the_queries_of_others_is_kept() {
        emulated(|devices| {
            let [device, other] = &devices;
            let memory = GpuMemory::new(devices.to_vec(), no_keys());
            let needs = |tables, working| Needs { tables, working, keys: 0 };
            let first = load(&memory, device, needs(16, 24)).unwrap();
            let second = load(&memory, device, needs(20, 4)).unwrap();
            // Of the 64 - 36 units without tables, 24 are reserved for the first database's
            // queries.
            memory.fits(4 * UNIT).unwrap();
            let refused = memory.fits(4 * UNIT + 1).unwrap_err().to_string();
            let wanted = format!("no room for {} bytes: {} of {}", 4 * UNIT + 1, 4 * UNIT, MEMORY * UNIT);
            assert!(refused.contains(&wanted), "{refused}");
            let refused = open(device, needs(5, 1)).map(drop).unwrap_err().to_string();
            assert!(refused.contains(&format!("no room for {} bytes", 5 * UNIT)), "{refused}");
            // The database's tables fit, but the memory for its queries does not.
            let refused = load(&memory, device, needs(4, 25)).map(drop).unwrap_err().to_string();
            assert!(refused.contains(&format!("no room for {} bytes", 25 * UNIT)), "{refused}");
            assert!(first.rehearse().is_ok() && second.rehearse().is_ok());
            let elsewhere = open(other, needs(40, 24)).unwrap();
            memory.reserve(&elsewhere).unwrap();
            drop((first, elsewhere));
            // The reservation of the dropped database is released, except the part that the second
            // database needs.
            load(&memory, device, needs(40, 4)).unwrap();
        });
    }

    #[test]
    fn room_for_keys_is_kept() {
        emulated(|devices| {
            let device = &devices[0];
            let prepared = Arc::new(AtomicU64::new(0));
            let keys = Arc::clone(&prepared);
            let bound = move |most: u64| {
                let keys = Arc::clone(&keys);
                let prepared = move |backends: &[BackendId]| {
                    assert!(
                        !backends.is_empty() && backends.iter().all(|&backend| backend == NaiveBackend.id())
                    );
                    keys.load(Ordering::Relaxed) * UNIT
                };
                KeyBudget { most: most * UNIT, prepared: Box::new(prepared) }
            };
            let needs = Needs { tables: 16, working: 8, keys: 1 };
            // A batch takes 8 units and its keys 1; registering a client's keys takes 3 units.
            load(&GpuMemory::new(devices.to_vec(), bound(36)), device, needs).unwrap();
            let refused =
                load(&GpuMemory::new(devices.to_vec(), bound(37)), device, needs).map(drop).unwrap_err();
            assert!(refused.to_string().contains(&format!("no room for {} bytes", 49 * UNIT)), "{refused}");
            let refused =
                load(&GpuMemory::new(devices.to_vec(), bound(0)), device, needs).map(drop).unwrap_err();
            assert!(refused.to_string().contains("allow more memory for keys"), "{refused}");
            // Registered keys need no further room.
            let held = alloc(device, 30).unwrap();
            prepared.store(30, Ordering::Relaxed);
            let memory = GpuMemory::new(devices.to_vec(), bound(36));
            let database = open(device, needs).unwrap();
            let reservation = memory.reserve(&database).unwrap();
            assert!(reservation.has_room_for_keys());
            // Requests still hold keys that the registry has dropped.
            let in_use = alloc(device, 7).unwrap();
            assert!(reservation.has_room_for_keys(), "what they may have, and what roundings may");
            let more = alloc(device, 1).unwrap();
            assert!(!reservation.has_room_for_keys() && database.rehearse().is_ok());
            drop((held, in_use, more));
            assert!(reservation.has_room_for_keys());
        });
    }

    /// Queries find room at any time: during a load, after any sequence of loads and drops, and
    /// with any number of registered keys within the limit.
    #[test]
    fn queries_find_room_after_every_load() {
        const MOST_KEYS: usize = 12;
        emulated(|devices| {
            let device = &devices[0];
            let held = Arc::new(AtomicU64::new(0));
            let keys = Arc::clone(&held);
            let prepared = Box::new(move |_: &[BackendId]| keys.load(Ordering::Relaxed) * UNIT);
            let budget = KeyBudget { most: MOST_KEYS as u64 * UNIT, prepared };
            let memory = GpuMemory::new(devices.to_vec(), budget);
            let mut databases: Vec<(Database, Needs)> = Vec::new();
            let (mut registered, mut refused, mut loaded) = (Vec::new(), 0, 0);
            let mut state = 1u32;
            let mut random = |below: u64| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                u64::from(state >> 16) % below
            };
            for _ in 0..400 {
                match random(4) {
                    0 => {
                        let needs = Needs { tables: 1 + random(20), working: random(30), keys: random(2) };
                        // Tables larger than announced to `fits`.
                        let opened = memory.fits(needs.tables * UNIT / 2).map_err(super::refused);
                        let opened = opened.and_then(|()| open(device, needs));
                        for (database, _) in &databases {
                            database.rehearse().expect("room for queries while another one is loaded");
                        }
                        let opened = opened.and_then(|database| Ok((memory.reserve(&database)?, database)));
                        match opened {
                            Ok((reservation, database)) => {
                                databases.push((database.with_reservation(reservation), needs));
                                loaded += 1;
                            }
                            Err(error) => {
                                assert!(error.to_string().contains("no room for"), "{error}");
                                refused += 1;
                            }
                        }
                    }
                    1 if !databases.is_empty() => {
                        databases.swap_remove(random(databases.len() as u64) as usize);
                    }
                    2 if databases.iter().any(|(_, needs)| needs.keys > 0) => {
                        registered.push(alloc(device, 1).expect("room for a client's keys"));
                        if registered.len() > MOST_KEYS {
                            registered.remove(0);
                        }
                        held.store(registered.len() as u64, Ordering::Relaxed);
                    }
                    _ => {}
                }
                for (database, _) in &databases {
                    database.rehearse().expect("room for queries");
                }
            }
            assert!(loaded > 20 && refused > 20, "{loaded} loaded, {refused} refused");
        });
    }
}

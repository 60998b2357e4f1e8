//! A CUDA driver whose devices are this machine's processor, for tests without a GPU.
//!
//! The library [`LIBRARY`] replaces `libcuda.so`: it exports the driver functions that the host
//! code calls. It runs the kernels of `crates/cuda/kernels`, compiled for the processor, with each
//! CUDA thread as a fiber. Host code and kernels are the same as on a GPU; the only change is a
//! call of [`Emulation::install`] before the driver is first called.
//!
//! The emulation shows bugs that a GPU hides. Threads and blocks run in a configurable order
//! ([`ThreadOrder`]), and shared and freshly allocated memory is poisoned. A kernel that breaks a
//! rule (a barrier or a warp operation that some threads do not reach, a misaligned access, a wild
//! pointer) ends its launch. The context is then lost, as on a GPU, and [`Emulation::last_error`]
//! reports the place and the reason. Streams are queues that run when something waits for them
//! ([`StreamOrder`]), so that a missing wait on the host changes the result. The legacy and the
//! per-thread default streams are refused.
//!
//! The emulation cannot show missing memory fences, nor reads by asynchronous hardware during a
//! write.
//!
//! If built with `SPIREA_EMULATION_ASAN=1`, there is a second library, [`ASAN_LIBRARY`], in which
//! AddressSanitizer checks the kernels; [`address_sanitizer_environment`] returns the environment
//! for a test with it.

mod ffi;
mod sanitizer;

use std::sync::OnceLock;

use ffi::Functions;
use parking_lot::{Mutex, MutexGuard};
pub use sanitizer::address_sanitizer_environment;

/// Path of the library with the product's kernels.
pub const LIBRARY: &str = concat!(env!("OUT_DIR"), "/libcuda.so");
/// Path of the library with planted bugs instead, for this crate's own tests.
pub const PLANTED_LIBRARY: &str = concat!(env!("OUT_DIR"), "/planted/libcuda.so");
/// Path of the library with AddressSanitizer, if it was built.
pub const ASAN_LIBRARY: Option<&str> =
    if cfg!(address_sanitizer) { Some(concat!(env!("OUT_DIR"), "/asan/libcuda.so")) } else { None };
/// Path of the library with AddressSanitizer and planted bugs, if it was built.
pub const ASAN_PLANTED_LIBRARY: Option<&str> =
    if cfg!(address_sanitizer) { Some(concat!(env!("OUT_DIR"), "/asan/planted/libcuda.so")) } else { None };

/// Environment variable that names a library to load instead of [`LIBRARY`].
pub const DRIVER_VARIABLE: &str = "SPIREA_CUDA_DRIVER";

/// Order in which threads, and blocks, run between barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadOrder {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reversed,
    /// A new order after each barrier, derived from the seed.
    Shuffled,
}

/// Time at which work in streams runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamOrder {
    /// Work runs at the call that queues it.
    Eager,
    /// Work runs when the host waits for it; no other work runs then.
    Lazy,
    /// When the host waits for any work, all work that can run runs, the youngest stream first.
    LastFirst,
}

/// Emulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of devices; `cuInit` fails if there are none. Changed only while no context is in
    /// use.
    pub devices: u32,
    /// Bytes of memory of each device.
    pub memory: u64,
    /// Multiprocessors of each device.
    pub processors: u32,
    /// Compute capability of the devices, such as (9, 0) for an H200.
    pub compute: (u8, u8),
    /// True if the devices can access each other's memory.
    pub peers: bool,
    /// CUDA version of the driver, such as 13000.
    pub version: i32,
    /// Order of threads.
    pub threads: ThreadOrder,
    /// Order of streams.
    pub streams: StreamOrder,
    /// Seed for [`ThreadOrder::Shuffled`].
    pub seed: u64,
}

impl Default for Config {
    /// Returns one H200 with 4 GiB, in the simplest order.
    fn default() -> Self {
        Self {
            devices: 1,
            memory: 4 << 30,
            processors: 132,
            compute: (9, 0),
            peers: true,
            version: 13000,
            threads: ThreadOrder::Forward,
            streams: StreamOrder::Eager,
            seed: 1,
        }
    }
}

/// Bytes copied since the last [`Emulation::reset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// From the host to devices.
    pub to_device: u64,
    /// From devices to the host.
    pub to_host: u64,
    /// Within devices.
    pub on_device: u64,
    /// From one device to another.
    pub between_devices: u64,
    /// From one device to another through the host, because the target's device could not access
    /// the source.
    pub staged: u64,
}

/// Allocations that were not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Number of allocations.
    pub allocations: u64,
    /// Bytes of the allocations.
    pub bytes: u64,
}

/// Loaded emulation, shared by the whole process: tests that change it hold
/// [`Emulation::exclusive`].
pub struct Emulation {
    functions: Functions,
    library: String,
    config: Mutex<Config>,
    exclusive: Mutex<()>,
}

impl Emulation {
    /// Loads the emulation, once in a process and before the first call of the driver. Only the
    /// first call's configuration is used; later calls return the loaded emulation.
    ///
    /// # Panics
    /// If the library cannot be loaded.
    pub fn install(config: Config) -> &'static Self {
        Self::install_from(LIBRARY, config)
    }

    /// Loads the emulation like [`Self::install`], from another library, such as
    /// [`PLANTED_LIBRARY`]. Only the first call's library is used; [`DRIVER_VARIABLE`] overrides
    /// it.
    ///
    /// # Panics
    /// If the library cannot be loaded.
    pub fn install_from(library: &str, config: Config) -> &'static Self {
        static EMULATION: OnceLock<Emulation> = OnceLock::new();
        EMULATION.get_or_init(|| {
            let chosen = std::env::var(DRIVER_VARIABLE).unwrap_or_else(|_| library.to_owned());
            let functions = Functions::load(&chosen).unwrap_or_else(|error| panic!("{chosen}: {error}"));
            let (config, exclusive) = (Mutex::new(config), Mutex::new(()));
            let emulation = Emulation { functions, library: chosen, config, exclusive };
            emulation.configure(emulation.config());
            emulation
        })
    }

    /// Returns the path of the loaded library.
    pub fn library(&self) -> &str {
        &self.library
    }

    /// Locks the emulation for one test: its configuration and counters belong to the whole
    /// process.
    pub fn exclusive(&self) -> MutexGuard<'_, ()> {
        self.exclusive.lock()
    }

    /// True while a test has the emulation for itself.
    pub fn is_taken(&self) -> bool {
        self.exclusive.is_locked()
    }

    /// Returns the configuration.
    pub fn config(&self) -> Config {
        *self.config.lock()
    }

    /// Changes the configuration, from the next call of the driver on.
    pub fn configure(&self, config: Config) {
        let mut current = self.config.lock();
        let (devices, processors) = (config.devices as i32, config.processors as i32);
        self.functions.set_devices(devices, config.memory, processors, config.peers);
        let (major, minor) = config.compute;
        self.functions.set_model(config.version, 10 * i32::from(major) + i32::from(minor));
        self.functions.set_orders(config.threads as i32, config.streams as i32, config.seed);
        *current = config;
    }

    /// Changes only the orders of threads and streams.
    pub fn set_orders(&self, threads: ThreadOrder, streams: StreamOrder) {
        self.configure(Config { threads, streams, ..self.config() });
    }

    /// Makes every launch after the next `launches` launches lose its device. `None` ends this
    /// effect.
    pub fn lose_after(&self, launches: Option<u32>) {
        self.functions.lose_after(launches.map_or(-1, i64::from));
    }

    /// Repairs lost devices and drops their queued work, ends the effect of [`Self::lose_after`],
    /// and sets the counters to 0. Allocations stay.
    pub fn reset(&self) {
        self.functions.reset();
    }

    /// Returns the message of the last failed call, or of the kernel that lost its device.
    pub fn last_error(&self) -> String {
        self.functions.last_error()
    }

    /// Returns the launches of a kernel since the last reset.
    pub fn launches(&self, kernel: &str) -> u64 {
        self.functions.launches(Some(kernel))
    }

    /// Returns the launches of all kernels since the last reset.
    pub fn all_launches(&self) -> u64 {
        self.functions.launches(None)
    }

    /// Returns the bytes copied since the last reset.
    pub fn copied(&self) -> Copied {
        let [to_device, to_host, on_device, between_devices, staged] = self.functions.bytes();
        Copied { to_device, to_host, on_device, between_devices, staged }
    }

    /// Returns the allocations of a device that were not freed.
    pub fn live(&self, device: u32) -> Live {
        let (allocations, bytes) = self.functions.live(device as i32);
        Live { allocations, bytes }
    }

    /// Returns the pinned allocations that were not freed.
    pub fn live_pinned(&self) -> Live {
        let (allocations, bytes) = self.functions.live(-1);
        Live { allocations, bytes }
    }

    /// Returns the names of the kernels, sorted.
    pub fn kernels(&self) -> Vec<&'static str> {
        (0..).map_while(|i| self.functions.kernel(i)).collect()
    }

    /// Runs a test with a configuration, alone in this process and after a reset. Afterwards, also
    /// after a panic, restores the configuration and repairs the devices.
    pub fn with<T>(&self, config: Config, test: impl FnOnce() -> T) -> T {
        let _exclusive = self.exclusive();
        let _restore = Restore(self, self.config());
        self.reset();
        self.configure(config);
        test()
    }

    /// Runs a test in three orders of threads, each with a different order of streams, as
    /// [`Self::with`] does.
    pub fn in_every_order(&self, test: impl FnMut()) {
        self.in_every_order_of(self.config(), test);
    }

    /// Runs a test in every order like [`Self::in_every_order`], with another configuration, whose
    /// orders are ignored.
    pub fn in_every_order_of(&self, config: Config, mut test: impl FnMut()) {
        const ORDERS: [(ThreadOrder, StreamOrder); 3] = [
            (ThreadOrder::Forward, StreamOrder::Eager),
            (ThreadOrder::Reversed, StreamOrder::Lazy),
            (ThreadOrder::Shuffled, StreamOrder::LastFirst),
        ];
        for (threads, streams) in ORDERS {
            self.with(Config { threads, streams, ..config }, &mut test);
        }
    }
}

/// Restores the configuration when dropped, and repairs devices that a test has lost.
struct Restore<'a>(&'a Emulation, Config);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.0.reset();
        self.0.configure(self.1);
    }
}

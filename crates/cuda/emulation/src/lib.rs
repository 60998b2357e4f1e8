//! A CUDA driver whose devices are this machine's processor, for tests without a GPU.
//!
//! The library [`LIBRARY`] passes for `libcuda.so`: it exports the functions of the driver that the host code calls,
//! and runs the kernels of `crates/cuda/kernels`, compiled for the processor, each CUDA thread as a fiber. Host code
//! and kernels are the same as on a GPU; [`Emulation::install`] before the first call of the driver is all it takes.
//!
//! It shows what a GPU hides. Threads and blocks run in an order of choice ([`ThreadOrder`]), shared and fresh memory
//! is poisoned, and a kernel that breaks a rule (a barrier or a warp operation that not all reach, a misaligned
//! access, a wild pointer) ends its launch: its context is lost, as on a GPU, and [`Emulation::last_error`] tells
//! where and why. Streams are queues that run when something waits for them ([`StreamOrder`]), so that a wait that
//! the host forgot changes the result. The legacy and the per-thread default streams are refused.
//!
//! It cannot show what memory fences are for, nor what asynchronous hardware reads while it is being written.
//!
//! Built with `SPIREA_EMULATION_ASAN=1` there is a second library, [`ASAN_LIBRARY`], in which AddressSanitizer
//! watches the kernels; [`address_sanitizer_environment`] says how to run a test with it.

mod ffi;
mod sanitizer;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ffi::Functions;
pub use sanitizer::address_sanitizer_environment;

/// The path of the library, with the product's kernels.
pub const LIBRARY: &str = concat!(env!("OUT_DIR"), "/libcuda.so");
/// The path of the library with planted bugs instead, for this crate's own tests.
pub const PLANTED_LIBRARY: &str = concat!(env!("OUT_DIR"), "/planted/libcuda.so");
/// The path of the library that AddressSanitizer watches, where it was built.
pub const ASAN_LIBRARY: Option<&str> =
    if cfg!(address_sanitizer) { Some(concat!(env!("OUT_DIR"), "/asan/libcuda.so")) } else { None };
/// The same with planted bugs.
pub const ASAN_PLANTED_LIBRARY: Option<&str> =
    if cfg!(address_sanitizer) { Some(concat!(env!("OUT_DIR"), "/asan/planted/libcuda.so")) } else { None };

/// Names a library to load instead of [`LIBRARY`].
pub const DRIVER_VARIABLE: &str = "SPIREA_CUDA_DRIVER";

/// In which order threads run, and blocks, where no barrier orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadOrder {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reversed,
    /// Another order after each barrier, from the seed.
    Shuffled,
}

/// When the work in streams runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamOrder {
    /// At its call.
    Eager,
    /// When the host waits for it, and only what it waits for.
    Lazy,
    /// When the host waits for anything, all that can run, the youngest stream first.
    LastFirst,
}

/// What the emulation pretends to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Devices; without any, `cuInit` says so. Changed only while no context is in use.
    pub devices: u32,
    /// Bytes of memory of each.
    pub memory: u64,
    /// Multiprocessors of each.
    pub processors: u32,
    /// Their compute capability: (9, 0) of an H200.
    pub compute: (u8, u8),
    /// Whether the devices reach each other's memory.
    pub peers: bool,
    /// The driver's version, such as 13000.
    pub version: i32,
    /// The order of threads.
    pub threads: ThreadOrder,
    /// The order of streams.
    pub streams: StreamOrder,
    /// For [`ThreadOrder::Shuffled`].
    pub seed: u64,
}

impl Default for Config {
    /// One H200 with 4 GiB, in the plainest order.
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
}

/// Allocations that were not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// How many.
    pub allocations: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The loaded emulation. It belongs to the process: tests that change it hold [`Emulation::exclusive`].
pub struct Emulation {
    functions: Functions,
    library: String,
    config: Mutex<Config>,
    exclusive: Mutex<()>,
}

impl Emulation {
    /// Loads the emulation, once a process and before the first call of the driver. The first call's configuration
    /// holds; the later ones only return what is loaded.
    ///
    /// # Panics
    /// Where the library cannot be loaded.
    pub fn install(config: Config) -> &'static Self {
        Self::install_from(LIBRARY, config)
    }

    /// The same with another library, such as [`PLANTED_LIBRARY`]. The first call decides; [`DRIVER_VARIABLE`]
    /// overrules it.
    ///
    /// # Panics
    /// Where the library cannot be loaded.
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

    /// The path of the library that is loaded.
    pub fn library(&self) -> &str {
        &self.library
    }

    /// Takes the emulation for one test: the configuration and the counters are the whole process's.
    pub fn exclusive(&self) -> MutexGuard<'_, ()> {
        self.exclusive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is configured.
    pub fn config(&self) -> Config {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the configuration, from the next call of the driver on.
    pub fn configure(&self, config: Config) {
        let mut current = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let (devices, processors) = (config.devices as i32, config.processors as i32);
        self.functions.set_devices(devices, config.memory, processors, config.peers);
        let (major, minor) = config.compute;
        self.functions.set_model(config.version, 10 * i32::from(major) + i32::from(minor));
        self.functions.set_orders(config.threads as i32, config.streams as i32, config.seed);
        *current = config;
    }

    /// Changes only the orders.
    pub fn set_orders(&self, threads: ThreadOrder, streams: StreamOrder) {
        self.configure(Config { threads, streams, ..self.config() });
    }

    /// Loses the device of every launch after `launches` more; never for `None`.
    pub fn lose_after(&self, launches: Option<u32>) {
        self.functions.lose_after(launches.map_or(-1, i64::from));
    }

    /// Repairs lost devices, dropping what is queued for them, ends what [`Self::lose_after`] began, and sets the
    /// counters to 0. Allocations stay.
    pub fn reset(&self) {
        self.functions.reset();
    }

    /// What the last call that failed, or the kernel that lost its device, has to say.
    pub fn last_error(&self) -> String {
        self.functions.last_error()
    }

    /// Launches of a kernel since the last reset.
    pub fn launches(&self, kernel: &str) -> u64 {
        self.functions.launches(Some(kernel))
    }

    /// Launches of all kernels since the last reset.
    pub fn all_launches(&self) -> u64 {
        self.functions.launches(None)
    }

    /// Bytes copied since the last reset.
    pub fn copied(&self) -> Copied {
        let [to_device, to_host, on_device, between_devices] = self.functions.bytes();
        Copied { to_device, to_host, on_device, between_devices }
    }

    /// What of a device's memory is not freed.
    pub fn live(&self, device: u32) -> Live {
        let (allocations, bytes) = self.functions.live(device as i32);
        Live { allocations, bytes }
    }

    /// What of the pinned memory is not freed.
    pub fn live_pinned(&self) -> Live {
        let (allocations, bytes) = self.functions.live(-1);
        Live { allocations, bytes }
    }

    /// The names of the kernels, sorted.
    pub fn kernels(&self) -> Vec<&'static str> {
        (0..).map_while(|i| self.functions.kernel(i)).collect()
    }

    /// Runs a test with a configuration, alone in this process and from a reset. The configuration is as before
    /// afterwards, and the devices are whole, also after a panic.
    pub fn with<T>(&self, config: Config, test: impl FnOnce() -> T) -> T {
        let _exclusive = self.exclusive();
        let _restore = Restore(self, self.config());
        self.reset();
        self.configure(config);
        test()
    }

    /// Runs a test in three orders of threads, each with another order of streams, each as [`Self::with`] does.
    pub fn in_every_order(&self, test: impl FnMut()) {
        self.in_every_order_of(self.config(), test);
    }

    /// The same with another configuration, but for its orders.
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

/// Sets the configuration back when dropped, and repairs what a test has broken.
struct Restore<'a>(&'a Emulation, Config);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.0.reset();
        self.0.configure(self.1);
    }
}

//! Tables of a ring on a device.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use spirea_backend::BackendError;
use spirea_math::Ring;

use super::granularity::Granularity;
use super::primes::{MOST_PRIMES, Prime};
use super::twiddles::{Butterfly, COEFFICIENTS, Factor, in_order_of_use};
use crate::driver::{Arg, Buffer, Device, DriverError, Grid, Stream};

/// Maximum number of bits of a body's words.
pub(super) const MOST_BODY_BITS: u32 = 31;

/// Addresses of a ring's tables, as kernels take them (`ring.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct RingTables {
    primes: u64,
    forward: u64,
    inverse: u64,
    powers: u64,
    limbs: u32,
    log_degree: u32,
}

/// Twiddles for one kind of butterfly.
#[derive(Debug)]
pub(super) struct Twiddles {
    /// Factors of the forward transform for each limb, in the order of use.
    pub forward: Buffer<Factor>,
    /// Factors of the inverse transform for each limb, in the order of use.
    pub inverse: Buffer<Factor>,
    /// 1 / N for each limb.
    pub scales: Buffer<Factor>,
}

impl Twiddles {
    fn new(device: &Arc<Device>, ring: &Ring, butterfly: Butterfly) -> Result<Self, DriverError> {
        let limbs = || ring.limbs().iter().map(|limb| (limb.prime(), &limb.plan));
        let forward: Vec<Factor> =
            limbs().flat_map(|(q, plan)| in_order_of_use(q, plan.forward_twiddles(), butterfly)).collect();
        let inverse: Vec<Factor> =
            limbs().flat_map(|(q, plan)| in_order_of_use(q, plan.inverse_twiddles(), butterfly)).collect();
        let scales: Vec<Factor> =
            limbs().map(|(q, plan)| butterfly.factor(q, plan.degree_inverse())).collect();
        Ok(Self {
            forward: device.hold_values(&forward)?,
            inverse: device.hold_values(&inverse)?,
            scales: device.hold_values(&scales)?,
        })
    }
}

/// Tables of a ring on a device.
#[derive(Debug)]
pub struct Tables {
    pub(super) ring: Arc<Ring>,
    pub(super) device: Arc<Device>,
    /// Constants of the prime of each limb.
    pub(super) primes: Buffer<Prime>,
    shoup: Twiddles,
    montgomery: Twiddles,
    /// Powers of the 2N-th root, `[limb][N]`, with the exponent's bits reversed.
    powers: Buffer<Factor>,
    /// The factor 1 for each limb; a product with this factor reduces any word.
    pub(super) ones: Buffer<Factor>,
    /// Scale of bodies, `[bits][limb]`, for every number of bits.
    pub(super) body_scales: Buffer<Factor>,
    /// Granularity of all stages; `None` to choose it for each stage.
    pub(super) granularity: Option<Granularity>,
    /// Bytes of the L2 cache that stages count on.
    pub(super) cache: usize,
    /// Maximum number of blocks in each dimension of a stage's grids but the first.
    pub(super) most_blocks: usize,
}

impl Tables {
    /// # Errors
    /// [`BackendError::Unavailable`] if the kernels do not support the ring.
    pub(super) fn check(ring: &Ring) -> Result<(), BackendError> {
        let of_primes = || ring.limbs().iter().map(|limb| limb.prime().value());
        let spread = of_primes().min().zip(of_primes().max());
        let fits = [2048, 4096].contains(&ring.degree())
            && ring.limbs().len() <= MOST_PRIMES
            && spread.is_some_and(|(least, most)| most / 4 < least);
        if !fits {
            return Err(BackendError::Unavailable(format!(
                "the CUDA kernels take rings of degree 2048 or 4096 and up to {MOST_PRIMES} primes within a \
                 factor of 4 of each other"
            )));
        }
        Ok(())
    }

    /// # Errors
    /// [`BackendError::Unavailable`] if there is no room for the tables.
    pub(super) fn new(device: &Arc<Device>, ring: &Arc<Ring>) -> Result<Self, BackendError> {
        let limbs = || ring.limbs().iter().map(|limb| (limb.prime(), &limb.plan));
        let primes: Vec<Prime> = limbs().map(|(q, _)| Prime::new(q)).collect();
        let powers: Vec<Factor> = limbs()
            .flat_map(|(_, plan)| plan.forward_twiddles().iter().map(|&word| Factor::from(word)))
            .collect();
        let ones: Vec<Factor> = limbs().map(|(q, _)| q.shoup(1).into()).collect();
        let body_scales: Vec<Factor> = (0..=MOST_BODY_BITS)
            .map(|bits| ring.modulus() >> bits)
            .flat_map(|scale| {
                limbs().map(move |(q, _)| q.shoup((scale % u128::from(q.value())) as u32).into())
            })
            .collect();
        Ok(Self {
            primes: device.hold_values(&primes)?,
            shoup: Twiddles::new(device, ring, Butterfly::Shoup)?,
            montgomery: Twiddles::new(device, ring, Butterfly::Montgomery)?,
            powers: device.hold_values(&powers)?,
            ones: device.hold_values(&ones)?,
            body_scales: device.hold_values(&body_scales)?,
            granularity: None,
            cache: device.properties().l2_bytes,
            most_blocks: (1 << 16) - 1,
            ring: Arc::clone(ring),
            device: Arc::clone(device),
        })
    }

    /// Sets one granularity for all stages, for measurements.
    pub fn with_granularity(self, granularity: Granularity) -> Self {
        Self { granularity: Some(granularity), ..self }
    }

    /// Sets the bytes of the L2 cache that stages count on: other work may use a part of the cache.
    pub fn with_cache(self, bytes: usize) -> Self {
        Self { cache: bytes, ..self }
    }

    /// Returns the ring.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Returns the number of coefficients of a polynomial.
    pub(super) fn degree(&self) -> usize {
        self.ring.degree()
    }

    /// Returns the number of primes.
    pub(super) fn limbs(&self) -> usize {
        self.ring.limbs().len()
    }

    /// Returns the number of words of a polynomial.
    pub(super) fn words(&self) -> usize {
        self.ring.words()
    }

    /// Returns the number of processors of the device.
    pub(super) fn processors(&self) -> usize {
        self.device.properties().processors as usize
    }

    /// Returns the number of words of a ciphertext.
    pub(crate) fn ciphertext(&self) -> usize {
        2 * self.words()
    }

    pub(super) fn twiddles(&self, butterfly: Butterfly) -> &Twiddles {
        match butterfly {
            Butterfly::Shoup => &self.shoup,
            Butterfly::Montgomery => &self.montgomery,
        }
    }

    /// Returns the tables as a kernel argument.
    pub(super) fn arg(&self) -> Arg {
        Arg::structure(&RingTables {
            primes: self.primes.all().address(),
            forward: self.shoup.forward.all().address(),
            inverse: self.shoup.inverse.all().address(),
            powers: self.powers.all().address(),
            limbs: self.limbs() as u32,
            log_degree: self.degree().ilog2(),
        })
    }

    /// Returns a grid of blocks that transform. Their shared memory holds `polynomials` polynomials
    /// of words, and the room for exchanges.
    pub(super) fn grid(&self, blocks: [usize; 3], polynomials: usize) -> Grid {
        Grid::cube(blocks, self.degree() / COEFFICIENTS).shared(self.shared_bytes(polynomials))
    }

    /// Returns a grid of blocks with two teams of threads that transform. Each team has a
    /// polynomial of all limbs in shared memory, and both share a row of a key.
    pub(super) fn grid_of_pairs(&self, blocks: [usize; 3]) -> Grid {
        let bytes = 2 * self.shared_bytes(self.limbs()) + 4 * 2 * self.degree();
        Grid::cube(blocks, 2 * self.degree() / COEFFICIENTS).shared(bytes)
    }

    /// Returns the bytes of shared memory of a team that transforms.
    pub(super) fn shared_bytes(&self, polynomials: usize) -> usize {
        // An exchange pads every 16th word.
        4 * (polynomials * self.degree() + self.degree() / 16 * 17)
    }

    /// Queues a kernel; `names` are its names for both degrees.
    pub(super) fn launch(
        &self,
        names: [&'static str; 2],
        grid: Grid,
        args: &[Arg],
    ) -> Result<(), DriverError> {
        self.launch_on(&self.device.main(), names, grid, args)
    }

    /// Queues a kernel like [`Self::launch`], on another stream.
    pub(super) fn launch_on(
        &self,
        stream: &Stream,
        [of_2048, of_4096]: [&'static str; 2],
        grid: Grid,
        args: &[Arg],
    ) -> Result<(), DriverError> {
        let name = if self.degree() == 2048 { of_2048 } else { of_4096 };
        stream.launch(&self.device.kernel(name)?, grid, args)
    }
}

/// Names of a kernel for both degrees.
macro_rules! by_degree {
    ($name:literal) => {
        [concat!($name, "_2048"), concat!($name, "_4096")]
    };
}
pub(super) use by_degree;

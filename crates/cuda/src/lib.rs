//! The CUDA backend: every step as kernels on NVIDIA devices, launched through the driver.
//!
//! [`driver`] owns devices, streams and buffers; `pack` holds the compiled kernels, whose sources
//! are in `kernels/`. The server's operations are in `fold`, `ring` and `shares`: [`CudaBackend`]
//! runs them on one device, [`DeviceGroup`] on several. [`probe`] measures and tests a device.

pub mod driver;
mod fold;
mod group;
mod pack;
pub mod probe;
mod ring;
mod shares;
mod upload;

use std::sync::Arc;

use spirea_backend::{BackendError, BackendId};

use driver::Device;
use upload::Staging;

pub(crate) use driver::args;
pub use fold::{CudaFolded, CudaMatrix, ScalarFoldKernel, ScalarFoldPlan};
pub use group::{
    DeviceGroup, GroupCiphertexts, GroupFolded, GroupLeaves, GroupMatrices, GroupMatrix, GroupPlain,
    GroupRows, GroupSelectors,
};
pub use pack::pack_architectures;
pub use ring::{Butterfly, Direction, Form, Granularity, Plain, Tables, transform_with};
pub use shares::{CudaRows, Evaluation, Tops, multiplies_bits};

/// Backend that runs the server's operations on one device.
#[derive(Debug)]
pub struct CudaBackend {
    id: BackendId,
    device: Arc<Device>,
    queries: Staging,
    ciphertexts: Staging,
    answers: fold::Arrivals,
}

impl CudaBackend {
    /// Creates the backend on device number `ordinal`.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] with the reason: no driver, a driver that is too old, or no
    /// such device.
    pub fn new(ordinal: usize) -> Result<Self, BackendError> {
        Ok(Self::on(Device::open(ordinal)?))
    }

    /// Creates the backend on an open device.
    pub fn on(device: Arc<Device>) -> Self {
        Self {
            id: BackendId::unique(),
            device,
            queries: Staging::default(),
            ciphertexts: Staging::default(),
            answers: fold::Arrivals::default(),
        }
    }

    /// Returns the device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

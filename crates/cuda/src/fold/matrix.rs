//! A database matrix in a device's memory.

use std::sync::Arc;

use spirea_backend::{BackendError, FileLayout, PanelLayout, QUAD_BYTES};

use crate::driver::{Buffer, Device};

/// Number of quads that kernels may read after the last panel; their content does not matter.
pub(super) const QUADS_BEHIND: usize = 31;

/// Database matrix in a device's memory, in the unchanged panel layout.
///
/// The 32 rows of a panel match a warp's 32 lanes, and a quad is a line of 128 bytes, the size of a
/// memory transfer. So the layout made for the CPU's vectors fits here as well.
#[derive(Debug)]
pub struct CudaMatrix {
    layout: PanelLayout,
    bytes: Buffer<u8>,
}

impl CudaMatrix {
    pub(super) fn from_memory(
        device: &Arc<Device>,
        layout: PanelLayout,
        bytes: &[u8],
    ) -> Result<Self, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        let matrix = Self::held(device, layout)?;
        device.main().upload(bytes, &matrix.bytes.range(0..bytes.len()))?;
        matrix.loaded()
    }

    /// Makes scans wait for the work queued on the main stream, and returns the matrix. All work
    /// that loads the matrix must be queued there before.
    pub(crate) fn loaded(self) -> Result<Self, BackendError> {
        self.device().scans().after(&self.device().main())?;
        Ok(self)
    }

    /// Allocates a matrix outside the pool ([`Device::hold`]), followed by zeros.
    pub(crate) fn held(device: &Arc<Device>, layout: PanelLayout) -> Result<Self, BackendError> {
        let bytes = device.hold(layout.bytes() + QUADS_BEHIND * QUAD_BYTES)?;
        device.main().zero(&bytes.range(layout.bytes()..bytes.len()))?;
        Ok(Self { layout, bytes })
    }

    /// Allocates a matrix that is computed from queries; the matrix and the room after it are zero.
    pub(crate) fn zeros(device: &Arc<Device>, layout: PanelLayout) -> Result<Self, BackendError> {
        let bytes = device.alloc(layout.bytes() + QUADS_BEHIND * QUAD_BYTES)?;
        device.main().zero(&bytes.all())?;
        Ok(Self { layout, bytes })
    }

    /// Returns the matrix's shape.
    pub fn layout(&self) -> PanelLayout {
        self.layout
    }

    /// Returns the device whose memory this is.
    pub fn device(&self) -> &Arc<Device> {
        self.bytes.device()
    }

    pub(crate) fn bytes(&self) -> &Buffer<u8> {
        &self.bytes
    }
}

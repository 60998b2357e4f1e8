use spirea_backend::{BackendError, FileLayout, FileRows, PanelLayout, QUAD_BYTES, RowLayout};

use crate::fold::Quad;
use crate::memory::Bytes;

/// Bytes of a database, in the order of a layout.
#[derive(Debug)]
pub struct LaidOut<L> {
    layout: L,
    bytes: Bytes,
}

/// A matrix of bytes in panel layout.
pub type CpuMatrix = LaidOut<PanelLayout>;

/// Rows of bytes.
pub type CpuRows = LaidOut<RowLayout>;

impl<L: FileLayout> LaidOut<L> {
    /// Copies `bytes` to separate memory.
    pub(crate) fn copy_of(layout: L, bytes: &[u8]) -> Result<Self, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        Ok(Self { layout, bytes: Bytes::copy_of(bytes)? })
    }

    /// Opens rows of a file.
    pub(crate) fn open(stored: &FileRows<'_, L>) -> Result<Self, BackendError> {
        Ok(Self { layout: stored.part()?, bytes: Bytes::open(stored)? })
    }

    /// Returns the layout.
    pub fn layout(&self) -> L {
        self.layout
    }

    /// Returns all bytes, in the order of the layout.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

impl CpuMatrix {
    /// Returns all quads of all panels.
    pub(crate) fn quads(&self) -> &[Quad] {
        self.bytes().as_chunks::<QUAD_BYTES>().0
    }
}

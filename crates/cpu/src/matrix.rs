use std::ops::Range;
use std::path::Path;

use spirea_backend::{BackendError, PanelLayout, QUAD_BYTES, Residence, RowLayout};

use crate::fold::Quad;
use crate::memory::Bytes;

/// A matrix of bytes in panel layout.
#[derive(Debug)]
pub struct CpuMatrix {
    layout: PanelLayout,
    bytes: Bytes,
}

impl CpuMatrix {
    /// Copies `bytes` to memory of its own.
    pub(crate) fn copy_of(layout: PanelLayout, bytes: &[u8]) -> Result<Self, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        Ok(Self { layout, bytes: Bytes::copy_of(bytes)? })
    }

    /// Takes rows of the matrix in the file at `path`.
    pub(crate) fn open(
        layout: PanelLayout,
        rows: &Range<usize>,
        path: &Path,
        residence: Residence,
    ) -> Result<Self, BackendError> {
        let part = layout.part(rows)?;
        let range = [layout.range(rows)];
        let bytes = Bytes::open(path, residence, &range, |length| layout.check_length(length))?;
        Ok(Self { layout: part, bytes })
    }

    /// The layout.
    pub fn layout(&self) -> PanelLayout {
        self.layout
    }

    /// All bytes, in the order of the layout.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// All quads of all panels.
    pub(crate) fn quads(&self) -> &[Quad] {
        self.bytes().as_chunks::<QUAD_BYTES>().0
    }
}

/// Rows of bytes.
#[derive(Debug)]
pub struct CpuRows {
    layout: RowLayout,
    bytes: Bytes,
}

impl CpuRows {
    /// Copies `bytes` to memory of its own.
    pub(crate) fn copy_of(layout: RowLayout, bytes: &[u8]) -> Result<Self, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        Ok(Self { layout, bytes: Bytes::copy_of(bytes)? })
    }

    /// Takes rows of each part in the file at `path`.
    pub(crate) fn open(
        layout: RowLayout,
        rows: &Range<usize>,
        path: &Path,
        residence: Residence,
    ) -> Result<Self, BackendError> {
        let part = layout.part(rows)?;
        let bytes = Bytes::open(path, residence, &layout.ranges(rows), |length| layout.check_length(length))?;
        Ok(Self { layout: part, bytes })
    }

    /// The layout.
    pub fn layout(&self) -> RowLayout {
        self.layout
    }

    /// All bytes, in the order of the layout.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

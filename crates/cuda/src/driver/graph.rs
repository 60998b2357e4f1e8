//! Work recorded once and started as a whole.

use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::{Device, DriverError, Stream};

/// Work recorded by [`Stream::capture`]. The buffers that it names must outlive it: it knows their addresses only.
#[derive(Debug)]
pub struct Graph {
    device: Arc<Device>,
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

// SAFETY: handles that any thread may use, one launch at a time by the stream's order.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    pub(super) fn new(device: Arc<Device>, graph: sys::CUgraph) -> Result<Self, DriverError> {
        let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        // SAFETY: a graph that a capture has just given.
        match unsafe { result::graph::instantiate(graph, flags) } {
            Ok(executable) => Ok(Self { device, graph, executable }),
            Err(error) => {
                // SAFETY: destroyed once, used no more.
                let _ = unsafe { result::graph::destroy(graph) };
                Err(DriverError::of("cuGraphInstantiate")(error))
            }
        }
    }

    /// Queues all of it.
    ///
    /// # Errors
    /// What the driver said.
    pub fn launch(&self, stream: &Stream) -> Result<(), DriverError> {
        self.device.bind()?;
        // SAFETY: both live.
        unsafe { result::graph::launch(self.executable, stream.handle) }
            .map_err(DriverError::of("cuGraphLaunch"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: each destroyed once.
            unsafe {
                let _ = result::graph::exec_destroy(self.executable);
                let _ = result::graph::destroy(self.graph);
            }
        }
    }
}

//! Work that is recorded once and launched as a whole.

use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::{Device, DriverError, Stream};

/// Work recorded by [`Stream::capture`]. The buffers used in it must outlive the graph, which
/// stores only their addresses.
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
    fn new(device: Arc<Device>, graph: sys::CUgraph) -> Result<Self, DriverError> {
        let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        // SAFETY: a capture has just returned this graph.
        match unsafe { result::graph::instantiate(graph, flags) } {
            Ok(executable) => Ok(Self { device, graph, executable }),
            Err(error) => {
                // SAFETY: destroyed once, used no more.
                let _ = unsafe { result::graph::destroy(graph) };
                Err(DriverError::of("cuGraphInstantiate")(error))
            }
        }
    }

    /// Queues the graph.
    ///
    /// # Errors
    /// The driver's error.
    pub fn launch(&self, stream: &Stream) -> Result<(), DriverError> {
        self.device.bind()?;
        // SAFETY: both handles are valid.
        unsafe { result::graph::launch(self.executable, stream.handle) }
            .map_err(DriverError::of("cuGraphLaunch"))
    }
}

impl Stream {
    /// Records what `work` queues on this stream, and on streams it forks and joins, as a graph.
    ///
    /// # Errors
    /// The error of `work` or of the driver.
    pub fn capture(&self, work: impl FnOnce(&Self) -> Result<(), DriverError>) -> Result<Graph, DriverError> {
        self.device().bind()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives; the capture is ended below in any case.
        unsafe { result::stream::begin_capture(self.handle, mode) }
            .map_err(DriverError::of("cuStreamBeginCapture"))?;
        let worked = work(self);
        // SAFETY: the stream lives, and the capture was begun above.
        let graph = unsafe { result::stream::end_capture(self.handle) };
        worked?;
        Graph::new(Arc::clone(self.device()), graph.map_err(DriverError::of("cuStreamEndCapture"))?)
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

use spirea_backend::BackendError;
use spirea_protocols::{ProtocolError, Query, Responder, Sizes};

/// Responder in place of one whose memory was released. It keeps the sizes, and answers nothing.
pub(crate) struct Asleep {
    sizes: Sizes,
    max_batch: usize,
}

impl Asleep {
    /// Creates a responder in place of `responder`.
    pub fn of(responder: &dyn Responder) -> Self {
        Self { sizes: responder.sizes(), max_batch: responder.max_batch() }
    }
}

impl Responder for Asleep {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }

    fn answer(&self, _queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        Err(BackendError::Unavailable("the database was released and is not open".into()).into())
    }
}

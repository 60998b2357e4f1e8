use spirea_backend::BackendError;
use spirea_protocols::{ProtocolError, Query, Responder, Sizes};

/// Stand-in for a responder whose memory was released. Keeps the sizes, and answers no query.
pub(crate) struct Asleep {
    sizes: Sizes,
    max_batch: usize,
}

impl Asleep {
    /// Creates a stand-in for `responder`.
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
